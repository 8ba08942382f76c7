"""The HTTP port: uvicorn in a thread of its own, beside the Postgres wire and under the same server."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import uvicorn
from starlette.routing import BaseRoute

from mere.errors import ConfigError
from mere.serve.access.roles import Roles
from mere.serve.access.tokens import Tokens
from mere.serve.access.users import Users
from mere.serve.http.authentication import Credentials
from mere.serve.http.frame import Answered, application
from mere.serve.session.endpoint import Shared

_BACKLOG = 1024
_LARGEST_HEAD = 64 << 10  # bytes of a request before its body
_KEEP_ALIVE = 75  # seconds; longer than clients keep theirs


@dataclass
class HttpEndpoint:
    """Implements `session.endpoint.Endpoint`."""

    routes: Sequence[BaseRoute]
    users: Users | None  # None: everybody on this machine is let in
    roles: Roles | None
    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    tokens: Tokens | None = None
    held: bool = False
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self, shared: Shared) -> None:
        """`port` is then the one that it listens on."""
        listener = self._listener()
        self.port = int(listener.getsockname()[1])
        app = application(
            self.routes, Credentials(self.users, self.tokens, shared.guesses), self.roles, _recorder(shared)
        )
        tls = self.tls
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http="h11",
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=10,
                h11_max_incomplete_event_size=_LARGEST_HEAD,
                ssl_context_factory=(lambda *_: tls) if tls is not None else None,
            )
        )
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="http", daemon=True)
        self._thread.start()

    def _listener(self) -> socket.socket:
        try:
            (family, *_, address), *_ = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            listener = socket.socket(family, socket.SOCK_STREAM)
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
            f"Cannot listen on {self.host}:{self.port} for HTTP: {error.strerror or error}.",
            remedy="Choose another port, or none: mere serve --http-port 0",
        )

    async def stop(self, seconds: float) -> None:
        if self._thread is None:
            return
        self._server.config.timeout_graceful_shutdown = max(1, round(seconds))
        self._server.should_exit = True
        await asyncio.to_thread(self._thread.join)

    def expel(self) -> None:
        """Each request is let in by itself: nobody is in for longer than it takes."""

    def cut(self) -> None:
        if self._thread is not None:
            self._server.force_exit = True


def _recorder(shared: Shared) -> Callable[[Answered], None]:
    def record(answered: Answered) -> None:
        about = {
            "method": answered.method,
            "path": answered.path[:2000],
            "status": answered.status,
            "ms": round(answered.seconds * 1000, 3),
            "request": answered.id,
            **answered.about,
        }
        write = shared.log.event
        shared.loop.call_soon_threadsafe(lambda: write("request", answered.user, answered.client, **about))

    return record
