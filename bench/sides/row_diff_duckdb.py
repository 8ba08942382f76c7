"""The floor: one full join by hand, of the touched files or of the whole tables, with the lists of files at hand."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import duckdb

from bench.sides.answer import answer
from bench.sides.rounds import timed

OTHERS = ("day", "customer", "amount", "status", "note")
DIFFERS = {name: f"o.{name} IS DISTINCT FROM n.{name}" for name in OTHERS}
BOTH = "o.id IS NOT NULL AND n.id IS NOT NULL"
QUERY = f"""
    SELECT count(*) FILTER (o.id IS NULL), count(*) FILTER (n.id IS NULL),
        count(*) FILTER ({BOTH} AND ({" OR ".join(DIFFERS.values())})),
        [{", ".join(f"count(*) FILTER ({BOTH} AND {differs})" for differs in DIFFERS.values())}]
    FROM read_parquet($old) o FULL JOIN read_parquet($new) n ON o.id = n.id
"""


def join() -> tuple[int, int, int, list[int]]:
    with duckdb.connect() as connection:
        (found,) = connection.execute(QUERY, {"old": old, "new": new}).fetchall()
    return found


old, new = json.loads(Path(os.environ["BENCH_SHARED"], "files.json").read_text(encoding="utf-8"))[sys.argv[1]]
(added, removed, changed, counts), timings = timed("diff", join)
by_column = {name: count for name, count in zip(OTHERS, counts, strict=True) if count}
answer([added, removed, changed, by_column], **timings)
