"""A port on which an application is served: uvicorn, in a thread of its own."""

from __future__ import annotations

import socket
import ssl
import threading

import uvicorn
from starlette.types import ASGIApp

from mere.errors import ConfigError
from mere.serve.http.connection import Connection

_BACKLOG = 1024
_LARGEST_HEAD = 64 << 10  # bytes of a request before its body
_KEEP_ALIVE = 75  # seconds; longer than clients keep theirs


class Port:
    """`number` is 0 until it listens, if the system is to choose."""

    def __init__(
        self, app: ASGIApp, host: str = "127.0.0.1", number: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.number = number
        self._host = host
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=Connection,
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # clients' mistakes are in the audit log
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=10,
                h11_max_incomplete_event_size=_LARGEST_HEAD,
                ssl_context_factory=(lambda *_: tls) if tls is not None else None,
            )
        )
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        listener = self._listener()
        self.number = int(listener.getsockname()[1])
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="http", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Nobody new; what is being answered has so many seconds."""
        if self._thread is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(seconds))
        self._server.should_exit = True
        self._thread.join()

    def cut(self) -> None:
        self._server.force_exit = True

    def _listener(self) -> socket.socket:
        try:
            (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
                self._host, self.number, type=socket.SOCK_STREAM
            )
            # Only where TCP is named does asyncio send at once. Else the body of an answer waits until the client has
            # confirmed its head, which takes 40 ms.
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._refusal(error) from error
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            raise self._refusal(error) from error
        return listener

    def _refusal(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"Cannot listen on {self._host}:{self.number} for HTTP: {error.strerror or error}.",
            remedy="Choose another port, or none: mere serve --http-port 0",
        )
