"""The floor: DuckDB in this process, on the Parquet files of the lake's table.

python gateway_duckdb.py group_by|look_up. Like the gateway, it keeps in mind what the files say of themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb

from bench.sides import gateway
from bench.sides.answer import answer
from bench.sides.gateway import Look, Row, Trips
from bench.sides.rounds import timed

LOOK_UP = gateway.LOOK_UP.format(moment="?::TIMESTAMP", zone="?")

trips = Trips.load()
connection = duckdb.connect()
connection.execute("SET GLOBAL parquet_metadata_cache = true; CREATE SCHEMA gold")
connection.execute(f"CREATE VIEW {gateway.TABLE} AS FROM read_parquet({trips.files}, hive_partitioning = false)")


@contextmanager
def looking() -> Iterator[Look]:
    with connection.cursor() as cursor:

        def look(values: Sequence[object]) -> list[Row]:
            return cursor.execute(LOOK_UP, values).fetchall()

        yield look


match sys.argv[1]:
    case "group_by":
        rows, times = timed("group_by", lambda: connection.execute(gateway.GROUP_BY).fetchall())
        answer([list(map(str, row)) for row in rows], group_by=times["group_by"])
    case "look_up":
        with looking() as one:
            found, seconds = gateway.look_ups(one, trips)
        answer(gateway.in_order(found), **seconds, **gateway.at_once(looking, trips))
