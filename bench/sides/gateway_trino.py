"""The trips from Trino, on the Parquet files of the lake's table: python gateway_trino.py group_by|fetch|look_up.

Asked over its REST protocol on one connection that is kept. It is a server that stays: before anything is timed, it has
answered as often as its compiler needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from bench.sides import gateway
from bench.sides.answer import answer
from bench.sides.gateway import Look, Row, Trips
from bench.sides.rounds import timed
from bench.sides.trino import Connection, running

FETCH = gateway.FETCH.replace("'{until}'", "TIMESTAMP '{until}'")
LOOK_UP = "EXECUTE IMMEDIATE '" + gateway.LOOK_UP.format(moment="?", zone="?") + "' USING TIMESTAMP '{}', {}"
WARM_UP, WARM_UP_LOOK_UPS = 8, 500


@contextmanager
def looking(port: int) -> Iterator[Look]:
    with closing(Connection(port)) as connection:

        def look(values: Sequence[object]) -> list[Row]:
            return connection.fetchall(LOOK_UP.format(*values))

        yield look


def rows_of(port: int, name: str, query: str) -> tuple[list[Row], float]:
    with closing(Connection(port)) as connection:
        for _ in range(WARM_UP):
            connection.fetchall(query)
        rows, times = timed(name, lambda: connection.fetchall(query))
    return rows, times[name]


trips = Trips.load()
result: object
with running(Path.cwd(), gateway.trino_folder() / "catalog.db") as server:
    match sys.argv[1]:
        case "group_by":
            rows, seconds = rows_of(server, "group_by", gateway.GROUP_BY)
            result, times = [list(map(str, row)) for row in rows], {"group_by": seconds}
        case "fetch":
            rows, seconds = rows_of(server, "fetch", FETCH.format(until=trips.until))
            result, times = gateway.in_order(rows), {"fetch": seconds}
        case "look_up":
            with looking(server) as one:
                for at in range(WARM_UP_LOOK_UPS):
                    one(trips.looked_up[at % len(trips.looked_up)])
                found, times = gateway.look_ups(one, trips)
            result, times = gateway.in_order(found), times | gateway.at_once(lambda: looking(server), trips)
answer(result, **times)
