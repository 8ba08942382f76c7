"""Answers requests in a few threads: each has its own connection to the catalog's database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
import anyio.to_thread
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import Receive, Scope, Send

from mere.errors import NamespaceNotFound, RefNotFound, TableNotFound
from mere.names import without_near
from mere.serve.http import body
from mere.serve.http.errors import HttpError

_BUSY = 500  # requests that wait or are being answered

Answer = Callable[[Request, bytes], Response]  # of a request and its body


class Threads:
    """Makes endpoints of functions that answer."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._limiter: anyio.CapacityLimiter | None = None
        self._room = body.Room()

    def endpoint(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            if self._limiter is None:  # it belongs to the loop
                self._limiter = anyio.CapacityLimiter(self._threads)
            if self._limiter.statistics().tasks_waiting >= _BUSY:
                raise HttpError(503, "ServiceUnavailableException", "The server is busy.", {"Retry-After": "1"})
            if request.method != "POST":
                return await anyio.to_thread.run_sync(_discreet, answer, request, b"", limiter=self._limiter)
            async with body.Received(request, self._room) as content:
                return await anyio.to_thread.run_sync(_discreet, answer, request, content, limiter=self._limiter)

        return answered


def _discreet(answer: Answer, request: Request, content: bytes) -> Response:
    """What the lake does not find it compares with all names that it has, whoever asks."""
    try:
        return answer(request, content)
    except (TableNotFound, NamespaceNotFound, RefNotFound) as error:
        if request.state.access.role.reads_everything:
            raise
        raise type(error)(without_near(error.message), remedy=error.remedy) from error


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers and dict(headers), "application/json")


class Encoded:
    """Routes by the path as it was sent: a slash in the name of a table stands there as %2F."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._router = Router(routes, redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send)
