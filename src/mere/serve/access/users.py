"""Who may log in to the gateway: a file of names and SCRAM verifiers that only its owner can read."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from mere.errors import UsageError
from mere.serve.access import scram
from mere.serve.access.scram import Verifier
from mere.serve.access.secretfile import SecretFile, check_owner, create
from mere.serve.access.watched import Watched

_LOG = logging.getLogger(__name__)

FILE_NAME = "users.json"
LONGEST_NAME = 63  # bytes, as Postgres


class Users:
    """The file is read again when it has changed: a new user need not wait for a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SecretFile(path, "move it away and add the users again: mere user add NAME", str)
        self._watched: Watched[Mapping[str, Verifier]] = Watched(path, self._load, {})

    def verifier(self, name: str) -> Verifier | None:
        """ConfigError where the file cannot be used."""
        return self._watched.now().get(name)

    def presented(self, name: str) -> Verifier:
        """Of a user that is not there, one that no password fits, and that looks as the others do."""
        known = self._watched.now()
        return known.get(name) or scram.nobody(name, self.secret, known.values())

    def held(self, name: str) -> Verifier | None:
        """The one of a user who is in already: while the file cannot be used, what it was before."""
        return self._watched.last().get(name)

    def admit(self) -> None:
        """PgError while the file cannot be used."""
        self._watched.admit()

    @cached_property
    def secret(self) -> bytes:
        """It stays the same, so that what unknown users are shown does not change when the server is started again."""
        path = self.path.with_suffix(".secret")
        try:
            if not path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                unfinished = path.with_suffix(f".{secrets.token_hex(8)}")
                create(unfinished, secrets.token_hex(32))
                with suppress(FileExistsError):  # another process was quicker
                    os.link(unfinished, path)
                unfinished.unlink()
            check_owner(path, path.stat())
            return path.read_bytes()
        except OSError as error:
            why = "%s cannot be kept: %s. After a restart, it can be guessed who is a user"
            _LOG.warning(why, path, error.strerror)
            return secrets.token_bytes(32)

    def names(self) -> list[str]:
        return sorted(self._watched.now())

    def add(self, name: str, password: str) -> bool:
        """Or give an existing user another password. True if the user is new."""
        check_name(name)
        if not password:
            raise UsageError("An empty password would admit anybody.", remedy="Choose a password.")
        with self._file.changed() as entries:
            new = name not in entries
            entries[name] = str(Verifier.of(password))
        return new

    def remove(self, name: str) -> bool:
        with self._file.changed() as entries:
            return entries.pop(name, None) is not None

    def _load(self, _: Path) -> dict[str, Verifier]:
        return {name: self._verifier(name, text) for name, text in self._file.read().items()}

    def _verifier(self, name: str, text: str) -> Verifier:
        try:
            return Verifier.read(text)
        except ValueError as error:
            raise self._file.unfit(f"the entry of {name!r} is not a SCRAM-SHA-256 verifier") from error


def check_name(name: str) -> None:
    if not name or len(name.encode()) > LONGEST_NAME or not name.isprintable() or name.startswith("-"):
        raise UsageError(
            f"{name!r} cannot be a user's name.", remedy=f"Choose 1 to {LONGEST_NAME} printable characters."
        )
