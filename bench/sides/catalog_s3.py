"""The tables in a bucket, behind a server over HTTP: python catalog_s3.py mere|nessie|nessie_rocksdb.

The clients make the tables, which is not timed. A branch of all tables is made besides.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench.sides import catalogs, gateway, lake_s3, nessie, server
from bench.sides.answer import answer, sized
from bench.sides.lake_s3 import ask
from mere.engine.jvm.jars import AWS
from tests.services.s3 import S3Server

BRANCHES = 40
Served = tuple[dict[str, str], Callable[[str], object]]  # the properties of a catalog, and what makes a branch


@contextmanager
def by_mere(s3: S3Server) -> Iterator[Served]:
    with lake_s3.running(s3) as uri:
        yield (
            {"uri": uri, "warehouse": "dev"},
            lambda name: ask(uri, "/api/v1/branches", {"name": name, "at": "dev"}),
        )


@contextmanager
def by_nessie(s3: S3Server) -> Iterator[Served]:
    with server.running() as database, by_nessie_rocksdb(s3, database) as served:
        yield served


@contextmanager
def by_nessie_rocksdb(s3: S3Server, database: str | None = None) -> Iterator[Served]:
    with nessie.running(Path.cwd(), f"{s3.new_bucket('bench')}/nessie", s3.endpoint, database) as port:
        uri = f"http://127.0.0.1:{port}"

        def branch(name: str) -> object:
            main = ask(uri, "/api/v2/trees/main")["reference"]
            return ask(uri, f"/api/v2/trees?name={name}&type=BRANCH", main)

        yield {"uri": f"{uri}/iceberg/main", "warehouse": "bench"}, branch


def make_tables(java: catalogs.Java, properties: dict[str, str]) -> None:
    client = java.catalog(properties)
    client.createNamespace(java.namespace)
    types = java.view.org.apache.iceberg.types.Types
    columns = java.view.java.util.ArrayList()
    columns.add(types.NestedField.optional(1, "id", types.LongType.get()))
    schema = java.view.org.apache.iceberg.Schema(columns)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: client.createTable(java.identifier(name), schema), catalogs.names()))


def branches(make: Callable[[str], object]) -> dict[str, float]:
    seconds = []
    for number in range(-5, max(2, sized(BRANCHES))):
        begun = time.perf_counter()
        make(f"branch-{number + 10}")
        if number >= 0:
            seconds.append(time.perf_counter() - begun)
    return {"branch_p50": statistics.median(seconds), "branch_p99": gateway.slowest(seconds)}


SIDES = {"mere": by_mere, "nessie": by_nessie, "nessie_rocksdb": by_nessie_rocksdb}
s3 = S3Server(Path.cwd() / "s3")
s3.start()
try:
    with SIDES[sys.argv[1]](s3) as (address, make), catalogs.java(AWS) as java:
        properties = {"type": "rest", "rest-metrics-reporting-enabled": "false", **address}
        make_tables(java, properties)
        result, times = catalogs.measured(java, properties, commit_together=True)
        times |= branches(make)
finally:
    s3.stop()
answer(result, **times)
