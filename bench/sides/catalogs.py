"""A thousand tables in a catalog, asked and written through Iceberg's own catalogs in Java, by one client and by many.

Each client is a catalog of its own, with connections of its own, and a thread; asks again as soon as it was answered.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mere
from bench.sides import gateway
from bench.sides.answer import sized
from bench.sides.metadata import write_metadata
from mere.sparkconfig import SparkSettings

NAMESPACE, CLIENTS, TOGETHER = "gold", 16, 10
LOADS, LISTS, COMMITS, WIDE = 800, 48, 320, 32  # by all clients; one client does a quarter of them
KEY = "bench.round"


def names() -> list[str]:
    return [f"table{number:05d}" for number in range(sized(1000))]


def metadata_files(warehouse: Path) -> dict[str, str]:
    """A pointer for each table; there are no data behind them."""
    return {name: write_metadata(warehouse / NAMESPACE / name, 0, 1, 1000) for name in names()}


@dataclass(frozen=True)
class Java:
    """Iceberg's classes, in the JVM of a session."""

    view: Any
    gateway: Any
    hadoop: Any

    def catalog(self, properties: Mapping[str, str]) -> Any:
        found = self.view.java.util.HashMap()
        for name, value in properties.items():
            found.put(name, value)
        return self.view.org.apache.iceberg.CatalogUtil.buildIcebergCatalog("main", found, self.hadoop)

    @property
    def namespace(self) -> Any:
        levels = self.gateway.new_array(self.view.java.lang.String, 1)
        levels[0] = NAMESPACE
        return self.view.org.apache.iceberg.catalog.Namespace.of(levels)

    def identifier(self, name: str) -> Any:
        return self.view.org.apache.iceberg.catalog.TableIdentifier.of(self.namespace, name)


@contextmanager
def java(*drivers: Any) -> Iterator[Java]:
    """Of a session on a lake that has nothing to do with the catalogs."""
    with tempfile.TemporaryDirectory(prefix="mere-bench-") as folder, mere.Lake.create(Path(folder) / "lake") as lake:
        with mere.session(lake, settings=SparkSettings(), drivers=drivers) as session:
            spark: Any = session.spark
            yield Java(spark._jvm, spark._sc._gateway, spark._jsc.hadoopConfiguration())


Work = Callable[[Any, str], Any]  # by a catalog, with a table


def measured(java: Java, properties: Mapping[str, str], commit_together: bool) -> tuple[object, dict[str, float]]:
    """What it did, and the p50 and p99 of each kind of request, by one client and by all."""
    clients = [java.catalog(properties) for _ in range(CLIENTS)]
    all_of_them = names()
    rounds = itertools.count(1)

    def load(client: Any, name: str) -> Any:
        return client.loadTable(java.identifier(name))

    def list_(client: Any, _: str) -> object:
        return client.listTables(java.namespace).size()

    def commit(client: Any, name: str) -> object:
        return client.loadTable(java.identifier(name)).updateProperties().set(KEY, str(next(rounds))).commit()

    def wide(client: Any, name: str) -> object:
        first = all_of_them.index(name)
        chosen = [all_of_them[(first + each) % len(all_of_them)] for each in range(TOGETHER)]
        if not commit_together:
            return [commit(client, each) for each in chosen]
        commits = java.view.java.util.ArrayList()
        for each in chosen:
            commits.add(_change(java, client, each, str(next(rounds))))
        return client.commitTransaction(commits)

    # 7919 is a prime: neighbours are far apart. No two clients commit to one table at once.
    spread = [all_of_them[at * 7919 % len(all_of_them)] for at in range(LOADS)]
    once = spread[: min(COMMITS, len(all_of_them))]
    apart = [all_of_them[at * TOGETHER] for at in range(min(WIDE, len(all_of_them) // TOGETHER))]
    times: dict[str, float] = {}
    for name, work, tables in (
        ("load", load, spread),
        ("list", list_, spread[:LISTS]),
        ("commit", commit, once),
        ("commit_10", wide, apart),
    ):
        some = tables[: max(1, len(tables) // 4)]
        each_of(clients[:1], work, some)  # uncounted: both sides become warm
        times |= _told(name, each_of(clients[:1], work, some))
        times |= _told(f"{name}_16", each_of(clients, work, tables))
    committed = sum(1 for name in all_of_them if load(clients[0], name).properties().containsKey(KEY))
    listed = list_(clients[0], "")
    for client in clients:
        client.close()
    return [listed, committed], times


def _change(java: Java, client: Any, name: str, value: str) -> Any:
    identifier = java.identifier(name)
    before = client.loadTable(identifier).operations().current()
    properties = java.view.java.util.HashMap(before.properties())
    properties.put(KEY, value)
    after = before.replaceProperties(properties)
    return java.view.org.apache.iceberg.catalog.TableCommit.create(identifier, before, after)


def each_of(clients: Sequence[Any], work: Work, tables: Sequence[str]) -> list[float]:
    """The seconds of each."""
    waiting = iter(tables)

    def one(client: Any) -> list[float]:
        seconds = []
        for name in waiting:  # the next of all clients: an iterator over a list gives each item once
            begun = time.perf_counter()
            work(client, name)
            seconds.append(time.perf_counter() - begun)
        return seconds

    with ThreadPoolExecutor(len(clients)) as pool:
        return [each for found in pool.map(one, clients) for each in found]


def _told(name: str, seconds: Sequence[float]) -> dict[str, float]:
    return {f"{name}_p50": statistics.median(seconds), f"{name}_p99": gateway.slowest(seconds)}
