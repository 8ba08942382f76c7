"""Ten million trips, read by clients: what they ask. The same for the gateway, Postgres, Trino and DuckDB by hand."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.sides.answer import sized
from bench.sides.taxi import COLUMNS, shared

ROWS = 10_000_000
FETCHED = 1_000_000
TABLE = "gold.trips"
# Other moments than those that are counted, so that every statement is compiled and nothing is answered from a cache.
WARM_UP, LOOK_UPS = 20, 300
CLIENTS, OF_EACH = 50, 20

GROUP_BY = f"""\
SELECT CAST(picked_up_at AS date) AS day, payment, count(*) AS trips, sum(fare + tip + tolls) AS revenue,
  sum(distance) AS distance
FROM {TABLE}
GROUP BY 1, 2
ORDER BY 1, 2"""
FETCH = f"SELECT {', '.join(COLUMNS)} FROM {TABLE} WHERE picked_up_at < '{{until}}'"
LOOK_UP = f"SELECT {', '.join(COLUMNS)} FROM {TABLE} WHERE picked_up_at = {{moment}} AND from_zone = {{zone}}"

Row = tuple[Any, ...]
Look = Callable[[Sequence[object]], list[Row]]  # the rows of one look-up, by its moment and zone


@dataclass(frozen=True)
class Trips:
    """What the preparation tells the sides."""

    files: list[str]  # of the lake's table
    until: str  # the trips before it are as many as are fetched
    looked_up: list[tuple[str, int]]  # moments and zones of trips from all over the table

    def save(self) -> None:
        folder().joinpath("trips.json").write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls) -> Trips:
        return cls(**json.loads(folder().joinpath("trips.json").read_text(encoding="utf-8")))


def folder() -> Path:
    return shared("gateway")


def postgres_folder() -> Path:
    return shared("postgres")


def trino_folder() -> Path:
    return shared("trino")


def rows() -> int:
    return sized(ROWS)


def fetched() -> int:
    return sized(FETCHED)


def in_order(found: Sequence[Row]) -> str:
    """The rows for a hash: no side promises an order."""
    return "\n".join(sorted(map(repr, found)))


def look_ups(look: Look, trips: Trips) -> tuple[list[Row], dict[str, float]]:
    """One after the other: the median, and the slowest of a hundred."""
    for each in trips.looked_up[:WARM_UP]:
        look(each)
    seconds, found = [], []
    for each in trips.looked_up[WARM_UP : WARM_UP + LOOK_UPS]:
        started = time.perf_counter()
        found += look(each)
        seconds.append(time.perf_counter() - started)
    return found, {"look_up": statistics.median(seconds), "look_up_p99": slowest(seconds)}


def at_once(connect: Callable[[], AbstractContextManager[Look]], trips: Trips) -> dict[str, float]:
    """By as many clients as there are, each with a connection of its own; all begin together."""
    seconds: list[float] = []
    failed: list[Exception] = []
    begin = threading.Barrier(CLIENTS + 1)

    def client(number: int) -> None:
        try:
            with connect() as look:
                # Each is asked for once, so that nothing is answered because somebody has asked before.
                new = trips.looked_up[WARM_UP + LOOK_UPS :]
                mine = [new[(number * OF_EACH + at) % len(new)] for at in range(OF_EACH)]
                look(trips.looked_up[number])
                begin.wait()
                for each in mine:
                    started = time.perf_counter()
                    look(each)
                    seconds.append(time.perf_counter() - started)
        except Exception as error:  # noqa: BLE001 (they are counted)
            failed.append(error)
            begin.abort()

    threads = [threading.Thread(target=client, args=[number]) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        begin.wait()
    except threading.BrokenBarrierError:
        raise failed[0] from None
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    whole = time.perf_counter() - started
    return {
        "clients": whole,
        "clients_p50": statistics.median(seconds),
        "clients_p99": slowest(seconds),
        "errors": len(failed),
    }


def slowest(seconds: Sequence[float]) -> float:
    """Of a hundred."""
    return statistics.quantiles(seconds, n=100)[-1]
