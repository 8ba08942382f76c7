"""A real HTTP server in this process, which answers what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]  # by their names in small letters
    connection: int  # requests over one connection have the same


@dataclass(frozen=True)
class Reply:
    """`body`: bytes, or what becomes JSON; `length`: what the header says, if that is not the truth."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    hang_up: bool = False  # without an answer
    drop: bool = False  # after the answer, which does not announce it


class WebServer:
    """Use it as a context manager. `answer` is asked at each request; all that were made are in `requests`."""

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.requests: list[Request] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                params = dict(parse_qsl(parts.query, keep_blank_values=True))
                request = Request(parts.path, params, headers, self.client_address[1])
                server.requests.append(request)
                reply = answer(request)
                if reply.hang_up:
                    self.close_connection = True
                    return
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) if reply.length is None else reply.length))
                self.end_headers()
                self.wfile.write(body)
                if reply.length is not None or reply.drop:
                    self.close_connection = True

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> WebServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
