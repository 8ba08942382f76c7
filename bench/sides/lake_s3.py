"""A lake in a bucket, with its catalog in a Postgres, behind `mere serve`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mere
from bench.sides import served, server
from tests.services.s3 import S3Server

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


@contextmanager
def running(s3: S3Server, database: str | None = None, endpoint: str | None = None) -> Iterator[str]:
    """The address of its REST catalog; it has a branch `dev`. `endpoint`: by which the server reaches the bucket."""
    location = f"{s3.new_bucket('bench')}/lake"
    if database is None:
        with server.running() as own:
            with _served(s3, location, own, endpoint) as uri:
                yield uri
        return
    with _served(s3, location, database, endpoint) as uri:
        yield uri


@contextmanager
def _served(s3: S3Server, location: str, database: str, endpoint: str | None) -> Iterator[str]:
    with mere.Lake.create(location, catalog=database, s3=s3.settings) as lake:
        lake.branch("dev")
    Path("mere.yaml").write_text(SETTINGS.format(lake=location, endpoint=endpoint or s3.endpoint), encoding="utf-8")
    secrets = {
        "BENCH_CATALOG": database,
        "BENCH_ACCESS": s3.settings.access_key,
        "BENCH_SECRET": s3.settings.secret_key,
    }
    with served.rest(None, secrets) as uri:
        yield uri


def ask(uri: str, path: str, body: object = None) -> Any:
    connection = HTTPConnection(str(urlsplit(uri).hostname), urlsplit(uri).port)
    try:
        kind = {"Content-Type": "application/json"}
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, kind)
        response = connection.getresponse()
        content = response.read()
        assert response.status < 300, content
        return json.loads(content) if content else None
    finally:
        connection.close()
