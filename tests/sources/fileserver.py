"""A web server that gives out files, with ETags, ranges and HEAD, and that can fail in the ways that real ones do."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

MODIFIED = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


@dataclass
class Served:
    content: bytes
    etag: str | None = '"v1"'
    modified: datetime | None = MODIFIED


@dataclass(frozen=True)
class Trouble:
    """What the next GET meets: a status instead of the file, or an end of the connection after so many bytes."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class FileServer:
    port: int = 0
    files: dict[str, Served] = field(default_factory=dict)  # by their path, unescaped
    moved: dict[str, str] = field(default_factory=dict)  # by path: where they are now
    troubles: deque[Trouble] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    heads: int = 200  # else the status that every HEAD gets
    missing: int = 404  # the status for what is not there
    ranges: bool = True
    lengths: bool = True  # else the body comes in chunks
    user: str | None = None  # what `Authorization` has to be

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def count(self, method: str) -> int:
        return sum(each.method == method for each in self.asked)


@contextmanager
def running() -> Iterator[FileServer]:
    state = FileServer()

    class Handler(_Handler):
        served = state

    server = _Server(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # with the usual 5, the sixth at once waits for a second


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: FileServer

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.close_connection = True
        served, is_get = self.served, self.command == "GET"
        served.asked.append(Asked(self.command, self.path, dict(self.headers)))
        path = unquote(self.path.partition("?")[0])
        trouble = served.troubles.popleft() if is_get and served.troubles else Trouble()
        if served.user and self.headers.get("Authorization") != served.user:
            self._say(401)
        elif path in served.moved:
            self._say(302, {"Location": served.moved[path]})
        elif trouble.status or (not is_get and served.heads != 200):
            self._say(trouble.status or served.heads, trouble.headers)
        elif path not in served.files:
            self._say(served.missing)
        else:
            self._give(served.files[path], trouble.cut)

    def _say(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def _give(self, file: Served, cut: int | None) -> None:
        size, start, end = len(file.content), 0, len(file.content)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        same = self.headers.get("If-Range", file.etag) == file.etag
        status = 200
        if wanted and same and self.served.ranges:
            start = int(wanted[1])
            end = min(size, int(wanted[2]) + 1) if wanted[2] else size
            if start >= size:
                self._say(416, {"Content-Range": f"bytes */{size}"})
                return
            status = 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if self.served.lengths:
            self.send_header("Content-Length", str(end - start))
        elif self.command == "GET":
            self.send_header("Transfer-Encoding", "chunked")
        if file.etag:
            self.send_header("ETag", file.etag)
        if file.modified:
            self.send_header("Last-Modified", format_datetime(file.modified, usegmt=True))
        self.end_headers()
        if self.command == "GET":
            self._send(file.content[start:end], cut)

    def _send(self, body: bytes, cut: int | None) -> None:
        if self.served.lengths:
            self.wfile.write(body[:cut])
            return
        for at in range(0, len(body) if cut is None else cut, 1000):
            piece = body[at : at + 1000][: None if cut is None else cut - at]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if cut is None:
            self.wfile.write(b"0\r\n\r\n")
