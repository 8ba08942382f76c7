"""The user and the ref of a Flight call, which every call has in its headers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyarrow import flight

from mere.errors import MereError
from mere.serve.access.admission import Guesses, too_many_guesses
from mere.serve.access.scram import Verifier
from mere.serve.access.users import Users
from mere.serve.flight.errors import flight_error
from mere.serve.flight.seals import Seals, content
from mere.serve.language.errors import of_any
from mere.serve.protocol.port import PgError
from mere.serve.session.endpoint import Shared

KEY = "caller"  # of the middleware
_DATABASE = "database"  # the header that names the ref
_DEFAULT = "main"
_NOBODY = "anonymous"  # who gives no name where everybody is let in

Headers = Mapping[str, Sequence[str | bytes]]


class Caller(flight.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, user: str, database: str, verifier: Verifier | None, token: str | None = None) -> None:
        """`verifier`: of the password that it was let in with."""
        super().__init__()
        self.user = user
        self.database = database
        self.verifier = verifier
        self._token = token

    def at(self, database: str) -> Caller:
        return Caller(self.user, database, self.verifier)

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"} if self._token else {}


@dataclass(frozen=True)
class Login:
    """By name and password, or by the token that is the answer to these. It ends with the server's process, with the
    user, and with the password."""

    users: Users | None  # None: everybody is let in
    seals: Seals
    admit: Callable[[], None]  # PgError while nobody is
    guesses: Guesses = field(default_factory=Guesses)

    def caller(self, headers: Headers) -> Caller:
        """PgError 28P01 who is not let in."""
        database = _header(headers, _DATABASE) or _DEFAULT
        scheme, _, given = _header(headers, "authorization").partition(" ")
        if scheme.lower() == "bearer":
            name = self._by_token(_decoded(given))
            return Caller(name, database, self._held(name))
        if self.users is not None:
            self.users.admit()
        name, _, password = _decoded(given).decode(errors="replace").partition(":")
        if self.users is None:
            name = name or _NOBODY
        elif not name:
            raise PgError("28P01", "a user's name and password are needed")
        else:
            self._check(name, password)
        self.admit()
        token = self.seals.close(self._purpose(name), name.encode())
        return Caller(name, database, self._held(name), base64.b64encode(token).decode() if scheme else None)

    def _check(self, name: str, password: str) -> None:
        """Where a call comes from is not known yet. Its thread does not wait: others would wait for it."""
        if (seconds := self.guesses.left(name, "")) > 0:
            raise too_many_guesses(seconds)
        if not self._fits(name, password):
            self.guesses.failed(name, "")
            raise PgError("28P01", f'password authentication failed for user "{name}"')
        self.guesses.succeeded(name, "")

    def _fits(self, name: str, password: str) -> bool:
        # Of a user that does not exist it takes as long.
        return self.users is None or self.users.presented(name).fits(password)

    def _held(self, name: str) -> Verifier | None:
        return self.users.held(name) if self.users is not None else None

    def stays(self, caller: Caller) -> bool:
        return self._held(caller.user) == caller.verifier

    def _by_token(self, token: bytes) -> str:
        name = content(token).decode(errors="replace")
        if not self.seals.holds(self._purpose(name), token):
            raise PgError("28P01", "the token is no longer valid", hint="Log in again.")
        return name

    def _purpose(self, name: str) -> str:
        return f"token {self._held(name)}"


class LoginFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    def __init__(self, login: Login, shared: Shared) -> None:
        super().__init__()
        self._login = login
        self._shared = shared

    def start_call(self, _: flight.CallInfo, headers: Headers) -> Caller:
        try:
            return self._login.caller(headers)
        except (PgError, MereError) as error:
            caught = of_any(error)
            self._shared.refused(caught)
            raise flight_error(caught) from None


class Handshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Clients shake hands for a token. What is to be said was said in the headers."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        pass

    def is_valid(self, _: bytes) -> bytes:
        return b""


def _header(headers: Headers, name: str) -> str:
    found = headers.get(name)
    return str(found[0]).strip() if found else ""


def _decoded(given: str) -> bytes:
    try:
        return base64.b64decode(given + "=" * (-len(given) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
