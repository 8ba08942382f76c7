"""The frame around every request: an id, a line in the audit log, and an answer whatever happens."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mere.serve.access.roles import Roles
from mere.serve.access.tokens import masked
from mere.serve.http.authentication import Authentication, Credentials
from mere.serve.http.errors import HttpError, of_any, response
from mere.serve.http.oauth import OAuth

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_TYPES = {404: "NotFoundException", 405: "UnsupportedOperationException"}


@dataclass(frozen=True)
class Answered:
    """A request and how it ended, for the audit log."""

    id: str
    user: str
    client: str
    method: str
    path: str
    status: int
    seconds: float
    about: Mapping[str, object]  # what the handler has told of it: the ref, the commit


def application(
    routes: Sequence[BaseRoute],
    credentials: Credentials,
    roles: Roles | None,
    tell: Callable[[Answered], None],
) -> ASGIApp:
    """The routes behind the authentication, in the frame."""
    return framed(routes, lambda inner: OAuth(Authentication(inner, credentials, roles), credentials), tell)


def framed(
    routes: Sequence[BaseRoute], behind: Callable[[ASGIApp], ASGIApp], tell: Callable[[Answered], None]
) -> ASGIApp:
    """`behind` what a request comes to them: there it is found out who asks."""
    handlers = {HTTPException: _no_route, Exception: _failed}
    inner = Starlette(routes=routes, exception_handlers={**handlers, HttpError: _failed})
    return Frame(behind(inner), tell)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}"
    message = f"There is no {what}." if error.status_code in _TYPES else str(error.detail)
    return response(HttpError(error.status_code, _TYPES.get(error.status_code, "BadRequestException"), message))


async def _failed(_: Request, error: Exception) -> Response:
    return response(of_any(error))


class Frame:
    def __init__(self, app: ASGIApp, tell: Callable[[Answered], None]) -> None:
        self._app = app
        self._tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started, status = time.monotonic(), 0
        id_ = _given_id(scope) or secrets.token_hex(8)
        about: dict[str, object] = {}
        scope["state"] = {"user": "", "request_id": id_, "about": about}

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (b"x-request-id", id_.encode())]}
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:  # noqa: BLE001 one request's trouble is nobody else's
            told = of_any(error)
            if not status:
                await response(told)(scope, receive, sent)
        finally:
            host, port = scope.get("client") or ("", 0)
            who = (scope["state"]["user"], f"{host}:{port}")
            path = scope["path"] + (f"?{query}" if (query := scope["query_string"].decode("latin-1")) else "")
            self._tell(Answered(id_, *who, scope["method"], masked(path), status, time.monotonic() - started, about))


def _given_id(scope: Scope) -> str:
    """The client's own, so that it can be found in both logs."""
    found = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return found.decode() if _ID.fullmatch(found) else ""
