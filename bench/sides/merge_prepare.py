"""A table of 10 million orders by key, built by mere, and on the branch `due` new versions of 0.1 % of them, spread
over all files: BENCH_SHARED/merge."""

from __future__ import annotations

import os

import duckdb

import mere
from bench.sides.answer import answer, sized
from bench.sides.taxi import shared
from mere.cli import main

ROWS, AT_ONCE, ONE_IN = sized(10_000_000), 10, 1000
# Hashes of the row's number stand for chance: every run makes the same rows, on any number of threads.
ORDERS = """
    SELECT id, {version} AS version, (hash(id) % 1000000)::BIGINT AS customer,
        ((hash(id + {version}) % 100000) / 100)::DECIMAL(10, 2) AS amount,
        ['new', 'paid', 'sent', 'returned'][1 + (hash(id + 2) % 4)::INTEGER] AS status,
        'order ' || (hash(id + 3) % 5000) AS note
    FROM range({start}, {end}, {step}) AS r(id)
"""
MODEL = """\
-- kind: merge
-- key: id
-- latest_by: version
SELECT id, version, customer, amount, status, note FROM landing.orders
"""

folder = shared("merge")
(folder / "models" / "gold").mkdir(parents=True)
(folder / "mere.yaml").write_text("name: merge\n", encoding="utf-8")
(folder / "models" / "gold" / "orders.sql").write_text(MODEL, encoding="utf-8")
os.chdir(folder)
with mere.Lake.create(folder / "lake") as lake:
    lake.pyiceberg("main").create_namespace("landing")
    step = max(1, ROWS // AT_ONCE)
    for start in range(0, ROWS, step):
        rows = duckdb.sql(ORDERS.format(version=1, start=start, end=min(start + step, ROWS), step=1)).to_arrow_table()
        lake.pyiceberg("main").create_table_if_not_exists("landing.orders", schema=rows.schema).append(rows)
    main(["run"], standalone_mode=False)
    lake.branch("due")
    late = duckdb.sql(ORDERS.format(version=2, start=0, end=ROWS, step=ONE_IN)).to_arrow_table()
    lake.pyiceberg("due").load_table("landing.orders").append(late)
answer([ROWS, late.num_rows])
