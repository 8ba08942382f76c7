"""A table of 10 million rows on main, and on dev the same after late data: BENCH_SHARED/lake.

A day is a file. Late data is clustered: it came for the last ten of a hundred days, whose files are written anew with
0.1 % of the table's rows changed, removed or added. The peers are handed the lists of files: files.json.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

import mere
from bench.sides.answer import answer, sized

DAYS, LATE, AT_ONCE = 100, 10, 10
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "customer", LongType(), required=False),
    NestedField(4, "amount", DoubleType(), required=False),
    NestedField(5, "status", StringType(), required=False),
    NestedField(6, "note", StringType(), required=False),
)
ROWS = """
    SELECT id, DATE '2026-01-01' + (id // {a_day})::INTEGER AS day, (hash(id) % 1000000)::BIGINT AS customer,
        (hash(id + 1) % 100000) / 100.0 AS amount, ['new', 'paid', 'sent', 'returned'][1 + (hash(id + 2) % 4)::INTEGER]
        AS status, 'order ' || (hash(id + 3) % 5000) AS note
    FROM range({start}, {end}) AS r(id)
"""
# Of every 1,000 rows of a late day one is gone, one is new and eight differ: 1 % of 10 % of the table.
LATE_ROWS = """
    SELECT id, day, customer, CASE WHEN id % 1000 BETWEEN 1 AND 8 THEN amount + 1 ELSE amount END AS amount,
        CASE WHEN id % 1000 = 8 THEN 'returned late' ELSE status END AS status, note
    FROM rows WHERE id % 1000 <> 0
    UNION ALL
    SELECT id + 1000000000 AS id, day, customer, amount, 'late' AS status, note FROM rows WHERE id % 1000 = 0
"""


def files(table: Table) -> set[str]:
    return {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}


a_day = sized(100_000)
folder, connection = Path(os.environ["BENCH_SHARED"]), duckdb.connect()
with mere.Lake.create(folder / "lake") as lake:
    main = lake.pyiceberg("main")
    main.create_namespace("sales")
    by_day = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="day"))
    orders = main.create_table("sales.orders", SCHEMA, partition_spec=by_day)
    for first in range(0, DAYS, AT_ONCE):
        query = ROWS.format(a_day=a_day, start=first * a_day, end=(first + AT_ONCE) * a_day)
        orders.append(connection.sql(query).to_arrow_table())
    lake.branch("dev")
    late = lake.pyiceberg("dev").load_table("sales.orders")
    rows = connection.sql(ROWS.format(a_day=a_day, start=(DAYS - LATE) * a_day, end=DAYS * a_day))
    late.dynamic_partition_overwrite(connection.sql(LATE_ROWS).to_arrow_table())
old, new = files(orders), files(late)
lists = {"whole": [sorted(old), sorted(new)], "touched": [sorted(old - new), sorted(new - old)]}
(folder / "files.json").write_text(json.dumps(lists), encoding="utf-8")
answer([DAYS * a_day, len(old), len(old - new), len(new - old)])
