"""Lakes with histories of so many months of trips, built by mere, and on the branch `one-more` one month more to build.

python history_prepare.py MONTHS …
"""

from __future__ import annotations

import os
import sys

import duckdb

import mere
from bench.sides.answer import answer, sized
from bench.sides.history import start_of, write_project
from bench.sides.taxi import SOURCE, shared, trips
from mere.cli import main

A_MONTH = sized(100_000)


def append(lake: mere.Lake, ref: str, month: int) -> None:
    rows = duckdb.sql(trips(str(start_of(month)), A_MONTH, month * A_MONTH)).to_arrow_table()
    catalog = lake.pyiceberg(ref)
    catalog.create_namespace_if_not_exists(SOURCE.partition(".")[0])
    catalog.create_table_if_not_exists(SOURCE, schema=rows.schema).append(rows)


for months in map(int, sys.argv[1:]):
    folder = shared(f"history_{months}")
    write_project(folder)
    with mere.Lake.create(folder / "lake") as lake:
        for month in range(months):
            append(lake, "main", month)
        os.chdir(folder)
        main(["run"], standalone_mode=False)
        lake.branch("one-more")
        append(lake, "one-more", months)
answer(sys.argv[1:])
