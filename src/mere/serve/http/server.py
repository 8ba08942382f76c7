"""HTTP beside the Postgres wire and under the same server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.routing import BaseRoute

from mere.serve.access.roles import Roles
from mere.serve.access.tokens import Tokens
from mere.serve.access.users import Users
from mere.serve.http.authentication import Credentials
from mere.serve.http.frame import Answered, application
from mere.serve.http.port import Port
from mere.serve.session.endpoint import Shared


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
    _listening: Port | None = field(default=None, init=False)

    def start(self, shared: Shared) -> None:
        """`port` is then the one that it listens on."""
        app = application(
            self.routes, Credentials(self.users, self.tokens, shared.guesses), self.roles, _recorder(shared)
        )
        self._listening = Port(app, self.host, self.port, self.tls)
        self._listening.start()
        self.port = self._listening.number

    async def stop(self, seconds: float) -> None:
        if self._listening is not None:
            await asyncio.to_thread(self._listening.stop, seconds)

    def expel(self) -> None:
        """Each request is let in by itself: nobody is in for longer than it takes."""

    def cut(self) -> None:
        if self._listening is not None:
            self._listening.cut()


def _recorder(shared: Shared) -> Callable[[Answered], None]:
    def record(answered: Answered) -> None:
        about = {
            "method": answered.method,
            "path": answered.path[:2000],
            "status": answered.status,
            "ms": round(answered.seconds * 1000, 3),
            "request": answered.id,
            **{name: value[:1000] if isinstance(value, str) else value for name, value in answered.about.items()},
        }
        write = shared.log.event
        shared.loop.call_soon_threadsafe(lambda: write("request", answered.user, answered.client, **about))

    return record
