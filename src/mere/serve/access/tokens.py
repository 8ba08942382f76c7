"""Tokens: what programs show instead of a name and a password. The file has their hashes; each is shown once."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mere.errors import UsageError
from mere.serve.access.secretfile import SecretFile
from mere.serve.access.users import check_name
from mere.serve.access.watched import Watched

PREFIX = "mere"
_TEXT = re.compile(rf"{PREFIX}_([0-9a-f]{{8}})_([A-Za-z0-9_-]{{43}})")
_HASH = re.compile(r"[0-9a-f]{64}")
_KEYS = frozenset({"user", "role", "hash", "created", "expires"})


@dataclass(frozen=True)
class Token:
    """`hash`: of the secret part, which is random, and so long that a plain hash cannot be turned around."""

    id: str
    user: str
    role: str | None  # None: the one that the user has
    hash: str
    created: datetime
    expires: datetime

    def expired(self, now: datetime) -> bool:
        return now >= self.expires


_NOBODY = Token("", "", None, "0" * 64, datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC))


class Tokens:
    """The file is read again when it has changed: what is revoked lets nobody in any more, at once."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._clock = clock
        self._file = SecretFile(path, "move it away and create the tokens again: mere token create NAME", dict)
        self._watched: Watched[Mapping[str, Token]] = Watched(path, self._load, {})

    @staticmethod
    def beside(users: Path) -> Path:
        """The file of the tokens that belong to a file of users."""
        return users.with_suffix(".tokens")

    def admit(self) -> None:
        """PgError while the file cannot be used."""
        self._watched.admit()

    def of(self, text: str) -> Token | None:
        """The token that was shown, unless there is none such or its time is over."""
        parts = _TEXT.fullmatch(text)
        id_, secret = parts.groups() if parts else ("", "")
        known = self._watched.now().get(id_, _NOBODY)
        fits = hmac.compare_digest(known.hash, _hash(secret))
        return known if fits and not known.expired(self._clock()) else None

    def all(self) -> list[Token]:
        return sorted(self._watched.now().values(), key=lambda token: (token.user, token.created, token.id))

    def is_expired(self, token: Token) -> bool:
        return token.expired(self._clock())

    def create(self, user: str, role: str | None, lifetime: timedelta) -> tuple[Token, str]:
        """The token, and its text, which is nowhere kept."""
        check_name(user)
        if lifetime <= timedelta(0):
            raise UsageError("A token that expires at once is of no use.", remedy="Choose a longer time: --expires 90d")
        now = self._clock().replace(microsecond=0)
        try:
            expires = now + lifetime
        except OverflowError as error:
            raise UsageError("No token lasts that long.", remedy="Choose a shorter time: --expires 90d") from error
        secret = secrets.token_urlsafe(32)
        with self._file.changed() as entries:
            while (id_ := secrets.token_hex(4)) in entries:
                pass
            token = Token(id_, user, role, _hash(secret), now, expires)
            entries[id_] = _written(token)
        return token, f"{PREFIX}_{id_}_{secret}"

    def revoke(self, *ids: str) -> list[Token]:
        """All of them, or none if one is not there."""
        known = self._watched.now()
        for id_ in ids:
            if id_ not in known:
                raise UsageError(f"There is no token {id_} in {self.path}.", remedy="See them with: mere token list")
        with self._file.changed() as entries:
            for id_ in ids:
                entries.pop(id_, None)
        return [known[id_] for id_ in ids]

    def revoke_of(self, user: str) -> list[Token]:
        return self.revoke(*(token.id for token in self.all() if token.user == user)) if self.path.exists() else []

    def _load(self, _: Path) -> dict[str, Token]:
        return {id_: self._token(id_, entry) for id_, entry in self._file.read().items()}

    def _token(self, id_: str, entry: Mapping[str, Any]) -> Token:
        try:
            if set(entry) != _KEYS or not all(isinstance(entry[key], str) for key in _KEYS - {"role"}):
                raise ValueError
            role = entry["role"]
            if not (role is None or isinstance(role, str)) or not _HASH.fullmatch(entry["hash"]):
                raise ValueError
            created, expires = (_time(entry[key]) for key in ("created", "expires"))
        except ValueError:
            raise self._file.unfit(f"the entry of {id_!r} is no token") from None
        return Token(id_, entry["user"], role, entry["hash"], created, expires)


def masked(text: str) -> str:
    """Without the secrets of tokens that stand in it."""
    return _TEXT.sub(rf"{PREFIX}_\1_…", text)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _written(token: Token) -> dict[str, str | None]:
    return {
        "user": token.user,
        "role": token.role,
        "hash": token.hash,
        "created": token.created.isoformat(),
        "expires": token.expires.isoformat(),
    }


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError
    return found
