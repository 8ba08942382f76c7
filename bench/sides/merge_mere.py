"""`mere run` of a merge model of which 0.1 % of the keys are due, and then its table is read:
python merge_mere.py [--full-refresh].

Each time on a new branch, so that what is due stays so.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from pathlib import Path

import mere
from bench.sides.answer import answer
from bench.sides.rounds import timed
from bench.sides.taxi import shared
from mere.cli import main

READ = "SELECT count(*), sum(id), sum(version), sum(customer), sum(amount), max(status), max(note) FROM gold.orders"


def data_files(folder: Path) -> dict[Path, int]:
    """Data and delete files."""
    return {path: path.stat().st_size for path in folder.rglob("*.parquet")}


folder = shared("merge")
os.chdir(folder)
with mere.Lake.open(folder / "lake") as lake:
    branch = lake.branch(f"bench-{secrets.token_hex(4)}", at="due").name
    warehouse = Path(lake.warehouse)
    before = data_files(warehouse)
    started = time.perf_counter()
    main(["run", "--on", branch, *sys.argv[1:]], standalone_mode=False)
    seconds = time.perf_counter() - started
    written = sum(size for path, size in data_files(warehouse).items() if path not in before)

    def read() -> list[tuple[object, ...]]:
        with lake.sql(READ, branch) as found:
            return list(found)

    rows, times = timed("read", read)
answer(rows, run=seconds, data_written_bytes=written, **times)
