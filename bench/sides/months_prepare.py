"""Twelve files of trips in BENCH_SHARED/months."""

from __future__ import annotations

import duckdb

from bench.sides.answer import answer
from bench.sides.months import MONTHS, file, folder, rows_a_month
from bench.sides.taxi import trips

folder().mkdir()
for number, month in enumerate(MONTHS):
    query = trips(month.isoformat(), rows_a_month(), number * rows_a_month())
    duckdb.sql(f"COPY ({query}) TO '{file(month)}' (FORMAT parquet, COMPRESSION zstd)")
answer(len(MONTHS))
