"""Statements that cost next to nothing, prepared once and asked by ten clients at once.

libpq itself asks, driven by one thread: of a driver in Python one would measure more than of the server.
"""

from __future__ import annotations

import selectors
import statistics
import time
from collections.abc import Sequence
from typing import cast

from psycopg import pq

from bench.sides import gateway
from bench.sides.answer import sized

CLIENTS, STATEMENTS, WARM_UP = 10, 8000, 1000
ZONES = 265
TABLE = "gold.zones"
ONE = b"SELECT 1"
LOOK_UP = f"SELECT id, borough, zone, service FROM {TABLE} WHERE id = $1".encode()
ONCE = LOOK_UP + b" AND id < $2"
_NAME = b"small"

Row = tuple[bytes | None, ...]
Answer = tuple[object, dict[str, float]]


class Client:
    """One connection, with a statement that was prepared once."""

    def __init__(self, url: str, query: bytes) -> None:
        self.connection = pq.PGconn.connect(url.encode())
        assert self.connection.status == pq.ConnStatus.OK, self.connection.error_message
        found = self.connection.prepare(_NAME, query)
        assert found.status == pq.ExecStatus.COMMAND_OK, found.error_message
        self.connection.nonblocking = 1
        self.asked = 0.0

    def fileno(self) -> int:
        return self.connection.socket

    def ask(self, values: Sequence[bytes]) -> None:
        self.asked = time.perf_counter()
        self.connection.send_query_prepared(_NAME, values)
        self.connection.flush()

    def answered(self) -> list[Row] | None:
        """None while there is more to come."""
        self.connection.consume_input()
        if self.connection.is_busy():
            return None
        found = self.connection.get_result()
        assert found is not None
        assert found.status == pq.ExecStatus.TUPLES_OK, found.error_message
        rows = [tuple(found.get_value(row, at) for at in range(found.nfields)) for row in range(found.ntuples)]
        while self.connection.get_result() is not None:
            pass
        return rows

    def close(self) -> None:
        self.connection.finish()


def ask_all(clients: Sequence[Client], values: Sequence[Sequence[bytes]]) -> tuple[list[list[Row]], list[float]]:
    """Each client asks as soon as it was answered. The rows, in the order of the values, and how long each took."""
    rows: list[list[Row]] = [[] for _ in values]
    seconds: list[float] = []
    waiting = iter(enumerate(values))
    at: dict[Client, int] = {}
    with selectors.DefaultSelector() as selector:

        def next_of(client: Client) -> None:
            number, mine = next(waiting, (None, ()))
            if number is None:
                selector.unregister(client)
                del at[client]
            else:
                at[client] = number
                client.ask(mine)

        for client in clients:
            selector.register(client, selectors.EVENT_READ)
            next_of(client)
        while at:
            for key, _ in selector.select():
                asking = cast(Client, key.fileobj)
                found = asking.answered()
                if found is not None:
                    seconds.append(time.perf_counter() - asking.asked)
                    rows[at[asking]] = found
                    next_of(asking)
    return rows, seconds


def measured(url: str, name: str, query: bytes, values: Sequence[Sequence[bytes]]) -> Answer:
    clients = [Client(url, query) for _ in range(CLIENTS)]
    try:
        ask_all(clients, values[:WARM_UP])
        started = time.perf_counter()
        rows, seconds = ask_all(clients, values)
        whole = time.perf_counter() - started
    finally:
        for client in clients:
            client.close()
    return list(map(str, rows)), {
        name: whole / len(values),
        f"{name}_p50": statistics.median(seconds),
        f"{name}_p99": gateway.slowest(seconds),
    }


def small(url: str) -> Answer:
    many = sized(STATEMENTS)
    ones, times = measured(url, "select_1", ONE, [()] * many)
    # 7919 is a prime: neighbours are asked for far apart.
    zones = [(str(at * 7919 % ZONES + 1).encode(),) for at in range(many)]
    found, more = measured(url, "zone", LOOK_UP, zones)
    # No answer can have been kept.
    once = [(*each, str(ZONES + 1 + at).encode()) for at, each in enumerate(zones)]
    again, others = measured(url, "once", ONCE, once)
    assert again == found
    return [ones, found], times | more | others
