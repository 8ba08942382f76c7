"""Commits over ten tables, or to one, of a lake in a bucket that is 15 ms away: python transactions.py ten|one.

The bucket is an S3 server on this machine, behind a proxy that keeps each request waiting as a network would.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from bench.sides import gateway, lake_s3
from bench.sides.answer import answer, sized
from tests.services.proxy import Proxy
from tests.services.s3 import S3Server

AWAY = 0.015  # seconds
COMMITS, WARM_UP = 60, 5
TABLES = [f"table{number}" for number in range(10)]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
DEV = "/iceberg/v1/dev"


def measured(uri: str, tables: list[str]) -> list[float]:
    lake_s3.ask(uri, f"{DEV}/namespaces", {"namespace": ["gold"]})
    for name in TABLES:
        lake_s3.ask(uri, f"{DEV}/namespaces/gold/tables", {"name": name, "schema": SCHEMA})
    seconds, rounds = [], itertools.count()
    with closing(HTTPConnection(str(urlsplit(uri).hostname), urlsplit(uri).port)) as connection:
        for _ in range(WARM_UP + sized(COMMITS)):
            updates = [{"action": "set-properties", "updates": {"bench.round": str(next(rounds))}}]
            changes = [
                {"identifier": {"namespace": ["gold"], "name": name}, "requirements": [], "updates": updates}
                for name in tables
            ]
            body = json.dumps({"table-changes": changes})
            begun = time.perf_counter()
            connection.request("POST", f"{DEV}/transactions/commit", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            response.read()
            seconds.append(time.perf_counter() - begun)
            assert response.status == 204, response.status
    return seconds[WARM_UP:]


s3 = S3Server(Path.cwd() / "s3")
s3.start()
proxy = Proxy(s3.port)
proxy.cut = lambda _: time.sleep(AWAY)
try:
    with lake_s3.running(s3, endpoint=f"http://127.0.0.1:{proxy.port}") as uri:
        seconds = measured(uri, TABLES if sys.argv[1] == "ten" else TABLES[:1])
finally:
    proxy.close()
    s3.stop()
answer(len(seconds), p50=statistics.median(seconds), p99=gateway.slowest(seconds))
