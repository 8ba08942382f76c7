"""The catalog for the Spark of one session: on this machine, for whoever shows the session's token, one ref a token.

It is the engine's own way to the database (see mere.engine.door), so what holds there holds here: engines do not drop,
and a run that has lost its tables or its branch writes nothing any more.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mere.errors import MereError
from mere.names import RefExpression, TableName
from mere.serve.access.roles import ALL, Role, Writes
from mere.serve.http.access import Access, Caller
from mere.serve.http.errors import forbidden, of_any, response, unauthorized
from mere.serve.http.frame import framed
from mere.serve.http.port import Port
from mere.serve.iceberg.routes import PATH, mounted

if TYPE_CHECKING:
    from mere.lake.lake import Lake

_WRITES = ("POST", "DELETE")
_SECONDS = 5.0  # for requests that are being answered when the session ends


@dataclass(frozen=True)
class OwnAccess(Access):
    """To one ref, and there to all that the catalog's database would allow."""

    ref: str
    signs: bool

    def may_read_at(self, ref: RefExpression) -> bool:
        return ref.text == self.ref

    def may_have_signatures(self, table: TableName) -> bool:  # noqa: ARG002
        return self.signs

    def check_drop(self, what: TableName) -> None:
        raise forbidden(f"Other refs may need the files of {what}, so engines do not drop; use: mere drop {what}")


class OwnServer:
    """Implements `engine.door.Server`."""

    def __init__(self, lake: Lake, *, author: str, signs: bool, check: Callable[[], None]) -> None:
        self._author = author
        self._signs = signs
        self._check = check
        self._tokens: dict[tuple[str, str], str] = {}  # by ref and author
        # By the hash of a token: how long a look-up takes tells nothing of it.
        self._refs: dict[bytes, tuple[str, str]] = {}
        self._port = Port(framed([mounted(lake)], lambda app: _Admission(app, self._access), lambda _: None))
        self._port.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._port.number}{PATH}"

    def token(self, ref: str, author: str | None = None) -> str:
        known = ref, author or self._author
        if known not in self._tokens:
            token = secrets.token_urlsafe(32)
            self._refs[_hash(token)] = known
            self._tokens[known] = token
        return self._tokens[known]

    def close(self) -> None:
        self._port.stop(_SECONDS)

    def _access(self, scope: Scope) -> Access:
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        known = self._refs.get(_hash(token.strip())) if scheme.lower() == "bearer" else None
        if known is None:
            raise unauthorized("The token is not one of this session's.")
        ref, author = known
        if scope["method"] in _WRITES:
            self._check_writes()
        caller = Caller(author, "127.0.0.1")
        return OwnAccess(caller, Role(author, writes=Writes((ref,), (ALL,))), ref, self._signs)

    def _check_writes(self) -> None:
        try:
            self._check()
        except MereError as error:  # a server's trouble would be tried again
            raise forbidden(" ".join(str(error).split("\n"))) from error


class _Admission:
    """What is behind it finds an `Access` in the request's state, and never runs without one."""

    def __init__(self, app: ASGIApp, access: Callable[[Scope], Access]) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            access = await anyio.to_thread.run_sync(self._access, scope)
        except Exception as error:  # noqa: BLE001 whatever it is, nobody is let in
            await response(of_any(error))(scope, receive, send)
            return
        scope["state"]["access"] = access
        scope["state"]["user"] = access.caller.name
        await self._app(scope, receive, send)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
