"""The tables in a bucket, behind a server over HTTP: python catalog_s3.py mere|nessie.

The clients make the tables, which is not timed. A branch of all tables is made besides.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mere
from bench.sides import catalogs, gateway, nessie, served, server
from bench.sides.answer import answer, sized
from mere.engine.jvm.jars import AWS
from tests.services.s3 import S3Server

BRANCHES = 40
SETTINGS = """\
name: bench
profiles:
  local:
    lake: {lake}
    catalog: ${{BENCH_CATALOG}}
    s3:
      endpoint: {endpoint}
      access_key: ${{BENCH_ACCESS}}
      secret_key: ${{BENCH_SECRET}}
"""
Served = tuple[dict[str, str], Callable[[str], object]]  # the properties of a catalog, and what makes a branch


@contextmanager
def by_mere(s3: S3Server) -> Iterator[Served]:
    location = f"{s3.new_bucket('bench')}/lake"
    with server.running() as database:
        with mere.Lake.create(location, catalog=database, s3=s3.settings) as lake:
            lake.branch("dev")
        Path("mere.yaml").write_text(SETTINGS.format(lake=location, endpoint=s3.endpoint), encoding="utf-8")
        secrets = {
            "BENCH_CATALOG": database,
            "BENCH_ACCESS": s3.settings.access_key,
            "BENCH_SECRET": s3.settings.secret_key,
        }
        with served.rest(None, secrets) as uri:
            yield (
                {"uri": uri, "warehouse": "dev"},
                lambda name: ask(uri, "/api/v1/branches", {"name": name, "at": "dev"}),
            )


@contextmanager
def by_nessie(s3: S3Server) -> Iterator[Served]:
    with nessie.running(Path.cwd(), f"{s3.new_bucket('bench')}/nessie", s3.endpoint) as port:
        uri = f"http://127.0.0.1:{port}"

        def branch(name: str) -> object:
            main = ask(uri, "/api/v2/trees/main")["reference"]
            return ask(uri, f"/api/v2/trees?name={name}&type=BRANCH", main)

        yield {"uri": f"{uri}/iceberg/main", "warehouse": "bench"}, branch


def ask(uri: str, path: str, body: object = None) -> Any:
    connection = HTTPConnection(str(urlsplit(uri).hostname), urlsplit(uri).port)
    try:
        kind = {"Content-Type": "application/json"}
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, kind)
        response = connection.getresponse()
        content = response.read()
        assert response.status < 300, content
        return json.loads(content)
    finally:
        connection.close()


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


s3 = S3Server(Path.cwd() / "s3")
s3.start()
try:
    with (by_mere if sys.argv[1] == "mere" else by_nessie)(s3) as (address, make), catalogs.java(AWS) as java:
        properties = {"type": "rest", "rest-metrics-reporting-enabled": "false", **address}
        make_tables(java, properties)
        result, times = catalogs.measured(java, properties, commit_together=True)
        times |= branches(make)
finally:
    s3.stop()
answer(result, **times)
