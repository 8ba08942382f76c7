"""A month of taxi trips in BENCH_SHARED, as one Parquet file and as an Iceberg table."""

from __future__ import annotations

import duckdb
import pyarrow.parquet as pq

import mere
from bench.sides.answer import answer
from bench.sides.taxi import SOURCE, month_rows, shared, trips

rows = duckdb.connect().sql(trips("2024-01-01", month_rows())).to_arrow_table()
pq.write_table(rows, shared("trips.parquet"), compression="zstd")
with mere.Lake.create(shared("source")) as lake:
    catalog = lake.pyiceberg("main")
    catalog.create_namespace(SOURCE.partition(".")[0])
    catalog.create_table(SOURCE, schema=rows.schema).append(rows)
    shared("source.txt").write_text(lake.at("main").pointer(SOURCE), encoding="utf-8")
answer(len(rows))
