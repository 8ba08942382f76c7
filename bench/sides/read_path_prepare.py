"""A lake of real tables for the read path, written by PyIceberg: BENCH_SHARED/lake."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import mere
from bench.sides.answer import answer, sized

TABLES, APPENDS, ROWS = 20, 3, sized(10_000)

folder = Path(os.environ["BENCH_SHARED"], "lake")
mere.Lake.create(folder)
catalog = SqlCatalog(
    "main",
    uri=f"sqlite:///{folder}/catalog.db",
    warehouse=f"file://{folder}/warehouse",
    init_catalog_tables="false",
)
catalog.create_namespace("sales")
rows = pa.table({"id": pa.array(range(ROWS), pa.int64())})
for number in range(TABLES):
    table = catalog.create_table(f"sales.orders{number}", schema=rows.schema, properties={"gc.enabled": "false"})
    for _ in range(APPENDS):
        table.append(rows)
answer([TABLES, APPENDS, ROWS])
