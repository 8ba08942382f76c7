"""One run of one side: its cost, what it wrote, what it computed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.case import Result, Side
from bench.peers import python_of
from bench.sides.answer import hash_of
from mere.config import mere_home

ROOT = Path(__file__).resolve().parent.parent


class SideFailed(Exception):
    pass


@dataclass(frozen=True)
class Run:
    metrics: dict[str, float]
    result: str | None


@dataclass(frozen=True)
class Bench:
    """Where the sides run and how large their work is."""

    shared: Path
    scale: float = 1

    def command(self, side: Side) -> list[str]:
        bin_folder = Path(sys.executable).parent
        names = {
            "python": str(python_of(side.environment)) if side.environment else sys.executable,
            "mere": str(bin_folder / "mere"),
            "sides": str(ROOT / "bench" / "sides"),
            "shared": str(self.shared),
        }
        return [re.sub(r"\{(\w+)\}", lambda found: names[found[1]], part) for part in side.command]

    def run(self, side: Side) -> Run:
        folder = Path(tempfile.mkdtemp(prefix="mere-bench-"))
        try:
            return self._run(side, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, side: Side, folder: Path) -> Run:
        report, work = folder / "cost.json", folder / "work"
        work.mkdir()
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "MERE_HOME": str(mere_home()),
            "BENCH_SCALE": str(self.scale),
            "BENCH_SHARED": str(self.shared),
            # As on a machine where packages were installed: compiled once, by the first, uncounted run of each side.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.shared / "bytecode"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "bench.supervise", str(report), *self.command(side)],
            cwd=work, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SideFailed(f"{side.label} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        metrics = json.loads(report.read_text(encoding="utf-8"))
        if metrics.pop("jvm") and not side.jvm:
            raise SideFailed(f"{side.label} started a JVM, which it must not")
        result, timings = computed(side, done.stdout)
        return Run(metrics | timings | written(work), result)


def computed(side: Side, output: str) -> tuple[str | None, dict[str, float]]:
    if side.result is Result.NONE:
        return None, {}
    if side.result is Result.OUTPUT:
        return hash_of(output), {}
    try:
        answer = json.loads(output.splitlines()[-1])
        return answer["result"], answer.get("timings", {})
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise SideFailed(f"{side.label} did not end with its result as JSON:\n{output[-2000:]}") from error


def written(folder: Path) -> dict[str, float]:
    """Files and bytes below a folder; `metadata_bytes` are Iceberg's own and the catalog's."""
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    metadata = [size for path, size in sizes.items() if path.parent.name == "metadata" or ".db" in path.name]
    return {"files": len(sizes), "bytes": sum(sizes.values()), "metadata_bytes": sum(metadata)}


def calibrate() -> float:
    """Seconds for a fixed piece of work on every core: how fast the machine is right now."""
    data, cores = bytes(1 << 20), os.cpu_count() or 1

    def hash_repeatedly() -> None:
        for _ in range(200):
            hashlib.sha256(data).digest()  # leaves the interpreter lock to the other threads

    started = time.perf_counter()
    with ThreadPoolExecutor(cores) as pool:
        for done in [pool.submit(hash_repeatedly) for _ in range(cores)]:
            done.result()
    return time.perf_counter() - started
