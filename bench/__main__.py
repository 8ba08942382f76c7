"""python -m bench [CASE …]: measures the cases (by default all that are not long) and writes docs/benchmarks.md.

A case is named, or found by a pattern such as 'taxi*'.

BENCH_SCALE multiplies the size of the work (1; 0.01 for a try), BENCH_BLOCKS is the number of ABBA blocks (5).
`python -m bench --page` only writes the page again.
"""

from __future__ import annotations

import fnmatch
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import page
from bench.blocks import Calibration, run_case
from bench.case import Case
from bench.cases import CASES
from bench.figures import figures, save, saved
from bench.measure import Bench, SideFailed
from bench.peers import NotInstalled


def say(text: str) -> None:
    print(text, flush=True)


def main(*names: str) -> int:
    known = {case.name: case for case in CASES}
    if unknown := [name for name in names if not fnmatch.filter(known, name) and name != "--page"]:
        say(f"No case {', '.join(unknown)}. There are: {', '.join(known)}.")
        return 2
    chosen = [case for case in CASES if is_chosen(case, names)]
    failed = [] if "--page" in names else measure(chosen)
    order = list(known)
    page.write(sorted((result for result in saved() if result["name"] in known), key=lambda r: order.index(r["name"])))
    for text in failed:
        say(text)
    return 1 if failed else 0


def is_chosen(case: Case, names: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(case.name, name) for name in names) if names else not case.by_name


def measure(cases: list[Case]) -> list[str]:
    scale, blocks = float(os.environ.get("BENCH_SCALE", "1")), int(os.environ.get("BENCH_BLOCKS", "5"))
    failed, calibration = [], Calibration()
    for case in cases:
        started = time.monotonic()
        say(f"{case.name}: {case.title}")
        with tempfile.TemporaryDirectory(prefix="mere-bench-") as shared:
            bench = Bench(Path(shared), scale)
            try:
                done = run_case(
                    case, bench, min(blocks, case.blocks or blocks), calibration, lambda text: say(f"  {text}")
                )
            except NotInstalled as error:
                say(f"  skipped: {error}")
                continue
            except SideFailed as error:
                failed.append(f"{case.name} failed: {error}")
                say("  failed")
                continue
        result = figures(case, done, scale)
        save(result)
        for target in result["targets"]:
            verdict = "met" if target["met"] else "MISSED"
            say(f"  {target['metric']}: {target['figure']:.3g}, at most {target['at_most']:g}: {verdict}")
        say(f"  took {time.monotonic() - started:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
