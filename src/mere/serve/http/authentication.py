"""The layer that authenticates every request: behind it, the caller is known."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mere.config import default_author
from mere.serve.access.admission import Guesses, too_many_guesses
from mere.serve.access.roles import Everybody, Roles
from mere.serve.access.tokens import Token, Tokens
from mere.serve.access.users import LONGEST_NAME, Users
from mere.serve.engine.recent import Recent
from mere.serve.http.access import Access, Caller
from mere.serve.http.errors import forbidden, of_any, response, unauthorized

_LOOPBACK = ("127.", "[::1]", "[::ffff:127.")
_NAMES = ("localhost", "127.0.0.1", "[::1]")  # under which a program on this machine asks for this machine
_NO_TOKEN = ("", "None")  # as PyIceberg says that it has none
_REMEMBERED = 1000


class Credentials:
    """Tokens, by the scheme Bearer; users with passwords, by Basic; or everybody on this machine, where there are no
    users. Who shows a token is let in by it, or not at all."""

    def __init__(self, users: Users | None, tokens: Tokens | None, guesses: Guesses) -> None:
        self._users = users
        self._tokens = tokens
        self._guesses = guesses
        self._salt = secrets.token_bytes(16)
        self._fitting: Recent[tuple[str, str, bytes], bool] = Recent(_REMEMBERED)  # a check takes milliseconds

    def caller(self, headers: Mapping[str, str], address: str) -> Caller:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and given.strip() not in _NO_TOKEN:
            token = self.token(given.strip())
            return Caller(token.user, address, token.role, token.id)
        name, _, password = _decoded(given).partition(":") if scheme.lower() == "basic" else ("", "", "")
        if self._users is None:
            if not address.startswith(_LOOPBACK):
                raise forbidden("Without a password, only clients on this machine are allowed.")
            _refuse_pages(headers)
            return Caller(_name(name) or default_author(), address)
        self._users.admit()
        if not name:
            raise unauthorized("Log in with a token, or with a user's name and password.")
        self._check(self._users, name, password, address)
        return Caller(name, address)

    def token(self, text: str) -> Token:
        """HttpError 401 if nobody has it, or if its time is over."""
        if self._tokens is not None:
            self._tokens.admit()
        found = self._tokens.of(text) if self._tokens is not None else None
        if found is None:
            raise unauthorized("The token is not valid on this server: it is unknown, has expired or was revoked.")
        return found

    def _check(self, users: Users, name: str, password: str, address: str) -> None:
        if (seconds := self._guesses.left(name, address)) > 0:
            raise too_many_guesses(seconds)
        verifier = users.presented(name)
        key = (name, str(verifier), hashlib.sha256(self._salt + password.encode()).digest())
        if self._fitting.get(key):
            return
        if not verifier.fits(password):
            self._guesses.failed(name, address)
            message = f"Wrong password for {name[:LONGEST_NAME]}, or no such user."
            raise unauthorized(message)
        self._guesses.succeeded(name, address)
        self._fitting.keep(key, True)


class Authentication:
    """What is behind it finds an `Access` in the request's state, and never runs without one."""

    def __init__(self, app: ASGIApp, credentials: Credentials, roles: Roles | None) -> None:
        self._app = app
        self._credentials = credentials
        self._roles = roles or Everybody()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            access = await anyio.to_thread.run_sync(self._access, scope)
        except Exception as error:  # noqa: BLE001 whatever it is, nobody is let in
            await response(of_any(error))(scope, receive, send)
            return
        scope["state"]["access"] = access
        await self._app(scope, receive, send)

    def _access(self, scope: Scope) -> Access:
        host, port = scope.get("client") or ("", 0)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        caller = self._credentials.caller(Headers(scope=scope), address)
        scope["state"]["user"] = caller.name
        if caller.token is not None:
            scope["state"]["about"]["token"] = caller.token
        self._roles.admit()
        role = self._roles.of(caller.name) if caller.role is None else self._roles.named(caller.role)
        if role is None:
            raise forbidden(
                f"{caller.name} has no role." if caller.role is None else f"There is no role {caller.role}."
            )
        return Access(caller, role)


def _refuse_pages(headers: Mapping[str, str]) -> None:
    """A page of the web in a browser on this machine is not somebody on this machine. It cannot hide where it is from,
    nor can the name of its server, where that was made to lead here."""
    host = headers.get("host", "")
    origin = headers.get("origin")
    elsewhere = origin is not None and origin.partition("://")[2] != host
    if elsewhere or (host.rpartition(":")[0] or host) not in _NAMES:
        raise forbidden("Requests from web pages are refused. Programs must use the name localhost or 127.0.0.1.")


def _decoded(given: str) -> str:
    try:
        return base64.b64decode(given.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _name(given: str) -> str:
    """A name that stands in the log as it was said, or none."""
    return given if given.isprintable() and len(given.encode()) <= LONGEST_NAME else ""
