"""The rows that differ between two refs of a table, timed inside the process."""

from __future__ import annotations

import os
from pathlib import Path

import mere
from bench.sides.answer import answer
from bench.sides.rounds import timed
from mere.lake.diff.rows import RowDiff


def diff() -> RowDiff:
    (found,) = lake.diff("main", "dev").rows(key=["id"])
    return found


with mere.Lake.open(Path(os.environ["BENCH_SHARED"], "lake")) as lake:
    found, timings = timed("diff", diff)
answer([found.added, found.removed, found.changed, found.by_column], **timings)
