"""What psycopg asks of the gateway, and of Postgres: the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from bench.sides import gateway
from bench.sides.gateway import Look, Row, Trips
from bench.sides.rounds import timed

Answer = tuple[object, dict[str, float]]

LOOK_UP = gateway.LOOK_UP.format(moment="%s::timestamp", zone="%s")


def group_by(url: str) -> Answer:
    with psycopg.connect(url, autocommit=True) as connection:
        rows, times = timed("group_by", lambda: connection.execute(gateway.GROUP_BY).fetchall())
    return [list(map(str, row)) for row in rows], {"group_by": times["group_by"]}


def fetch(url: str) -> Answer:
    """As psycopg does it unless told otherwise, which is in text, and in the binary format."""
    query = gateway.FETCH.format(until=Trips.load().until)
    with psycopg.connect(url, autocommit=True) as connection:

        def rows(binary: bool) -> list[Row]:
            with connection.cursor(binary=binary) as cursor:
                return cursor.execute(query.encode()).fetchall()

        found, in_text = timed("fetch", lambda: rows(binary=False))
        result = gateway.in_order(found)
        found, in_binary = timed("fetch_binary", lambda: rows(binary=True))
        assert gateway.in_order(found) == result
    return result, {"fetch": in_text["fetch"], "fetch_binary": in_binary["fetch_binary"]}


def read_all(url: str) -> None:
    """All trips, as fast as they come."""
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY (SELECT * FROM {gateway.TABLE}) TO STDOUT") as copy:
            for _ in copy:
                pass
        assert cursor.rowcount == gateway.rows() // 12 * 12


@contextmanager
def looking(url: str) -> Iterator[Look]:
    with psycopg.connect(url, autocommit=True) as connection:

        def look(values: Sequence[object]) -> list[Row]:
            return connection.execute(LOOK_UP, values).fetchall()

        yield look


def look_up(url: str) -> Answer:
    trips = Trips.load()
    with looking(url) as look:
        rows, times = gateway.look_ups(look, trips)
    return gateway.in_order(rows), times | gateway.at_once(lambda: looking(url), trips)
