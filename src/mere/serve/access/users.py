"""Who may log in to the gateway: a file of names and SCRAM verifiers that only its owner can read."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from mere.errors import ConfigError, UsageError
from mere.serve.access import scram
from mere.serve.access.scram import Verifier
from mere.serve.access.watched import Watched
from mere.syntax import not_json

_LOG = logging.getLogger(__name__)

FILE_NAME = "users.json"
LONGEST_NAME = 63  # bytes, as Postgres


class Users:
    """The file is read again when it has changed: a new user need not wait for a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
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
                self._create(unfinished, secrets.token_hex(32))
                with suppress(FileExistsError):  # another process was quicker
                    os.link(unfinished, path)
                unfinished.unlink()
            self._check_owner(path, path.stat())
            return path.read_bytes()
        except OSError as error:
            why = "%s cannot be kept: %s. After a restart, it can be guessed who is a user"
            _LOG.warning(why, path, error.strerror)
            return secrets.token_bytes(32)

    def names(self) -> list[str]:
        return sorted(self._watched.now())

    def add(self, name: str, password: str) -> bool:
        """Or give an existing user another password. True if the user is new."""
        _check_name(name)
        if not password:
            raise UsageError("An empty password would let anybody in.", remedy="Choose a password.")
        with self._changed() as entries:
            new = name not in entries
            entries[name] = str(Verifier.of(password))
        return new

    def remove(self, name: str) -> bool:
        with self._changed() as entries:
            return entries.pop(name, None) is not None

    def _load(self, path: Path) -> dict[str, Verifier]:
        try:
            about = path.stat()
        except FileNotFoundError:
            return {}
        self._check_owner(path, about)
        return {name: self._verifier(name, text) for name, text in self._read().items()}

    @contextmanager
    def _changed(self) -> Iterator[dict[str, str]]:
        """The entries, to be changed by one at a time; a reader sees the old file or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = self._read() if self.path.exists() else {}
            before = dict(entries)
            yield entries
            if entries != before:
                self._write(entries)
        finally:
            os.close(lock)

    def _write(self, entries: Mapping[str, str]) -> None:
        unfinished = self.path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        self._create(unfinished, json.dumps(dict(sorted(entries.items())), indent=2) + "\n")
        unfinished.replace(self.path)

    @staticmethod
    def _create(path: Path, content: str) -> None:
        """For its owner alone."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self._unfit(error.strerror or "it cannot be read") from error
        except json.JSONDecodeError as error:
            raise not_json(error, str(self.path), "move it away and add the users again: mere user add NAME") from None
        except ValueError as error:
            raise self._unfit(f"it is not UTF-8 text: {error}") from error
        if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
            raise self._unfit("it is not an object of names and verifiers")
        return found

    def _verifier(self, name: str, text: str) -> Verifier:
        try:
            return Verifier.read(text)
        except ValueError as error:
            raise self._unfit(f"what stands at {name!r} is no SCRAM-SHA-256 verifier") from error

    @staticmethod
    def _check_owner(path: Path, about: os.stat_result) -> None:
        if stat.S_IMODE(about.st_mode) & 0o077:
            raise ConfigError(f"{path} can be read by others than its owner.", remedy=f"Close it: chmod 600 {path}")

    def _unfit(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be used: {why}.", remedy="Move it away and add the users again: mere user add NAME"
        )


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > LONGEST_NAME or not name.isprintable() or name.startswith("-"):
        raise UsageError(
            f"{name!r} cannot be a user's name.", remedy=f"Choose 1 to {LONGEST_NAME} printable characters."
        )
