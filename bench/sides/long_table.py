"""Sends the metadata of a table of 1,000 snapshots again and again: python long_table.py rest|file.

`rest`: `mere serve` answers a client that loads the table. `file`: the same server software sends the same bytes as a
file of a folder.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import mere
from bench.sides import gateway, served
from bench.sides.answer import answer, hash_of, sized
from bench.sides.metadata import write_metadata

LOADS, WARM_UP = 400, 50
INSERT = "INSERT INTO iceberg_tables VALUES ('main', 'gold', 'long', ?, NULL, 'TABLE')"
STATIC = """\
import sys, uvicorn
from starlette.staticfiles import StaticFiles
uvicorn.run(StaticFiles(directory=sys.argv[1]), port=int(sys.argv[2]), http="h11", log_level="error")
"""


@contextmanager
def by_rest(pointer: str, lake: Path) -> Iterator[str]:
    with closing(sqlite3.connect(lake / "catalog.db", timeout=30)) as connection, connection:
        connection.execute(INSERT, [pointer])
    with served.rest(lake) as uri:
        yield f"{uri}/v1/main/namespaces/gold/tables/long"


@contextmanager
def as_file(pointer: str) -> Iterator[str]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = Path(pointer)
    with subprocess.Popen([sys.executable, "-c", STATIC, str(file.parent), str(port)]) as server:
        try:
            while socket.socket().connect_ex(("127.0.0.1", port)):
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/{file.name}"
        finally:
            server.terminate()


def loaded(url: str) -> tuple[bytes, list[float]]:
    parts, seconds, body = urlsplit(url), [], b""
    with closing(HTTPConnection(str(parts.hostname), parts.port)) as connection:
        for _ in range(WARM_UP + sized(LOADS)):
            begun = time.perf_counter()
            connection.request("GET", parts.path)
            response = connection.getresponse()
            body = response.read()
            seconds.append(time.perf_counter() - begun)
            assert response.status == 200, body
    return body, seconds[WARM_UP:]


folder = Path("lake").absolute()
with mere.Lake.create(folder) as made:
    pointer = write_metadata(Path(made.warehouse) / "gold" / "long", 0, 1000, 1000)
with by_rest(pointer, folder) if sys.argv[1] == "rest" else as_file(pointer) as url:
    body, seconds = loaded(url)
sent = json.loads(body)
answer(
    hash_of(len(sent.get("metadata", sent)["snapshots"])),
    long_p50=statistics.median(seconds),
    long_p99=gateway.slowest(seconds),
)
