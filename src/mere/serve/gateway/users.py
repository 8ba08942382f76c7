"""Who may log in to the gateway: a file of names and SCRAM verifiers that only its owner can read."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mere.errors import ConfigError, UsageError
from mere.serve.gateway.scram import Verifier
from mere.syntax import not_json

FILE_NAME = "users.json"
LONGEST_NAME = 63  # bytes, as Postgres


class Users:
    """The file is read again when it has changed: a new user need not wait for a restart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._verifiers: dict[str, Verifier] = {}

    def verifier(self, name: str) -> Verifier | None:
        return self._current().get(name)

    def names(self) -> list[str]:
        return sorted(self._current())

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

    def _current(self) -> Mapping[str, Verifier]:
        try:
            about = self.path.stat()
        except FileNotFoundError:
            return {}
        version = (about.st_mtime_ns, about.st_ino)
        if version != self._seen:
            self._check_owner(about)
            self._verifiers = {name: self._verifier(name, text) for name, text in self._read().items()}
            self._seen = version
        return self._verifiers

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
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(dict(sorted(entries.items())), file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)

    def _read(self) -> dict[str, str]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
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

    def _check_owner(self, about: os.stat_result) -> None:
        if stat.S_IMODE(about.st_mode) & 0o077:
            raise ConfigError(
                f"{self.path} can be read by others than its owner.", remedy=f"Close it: chmod 600 {self.path}"
            )

    def _unfit(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be used: {why}.", remedy="Move it away and add the users again: mere user add NAME"
        )


def _check_name(name: str) -> None:
    if not name or len(name.encode()) > LONGEST_NAME or not name.isprintable() or name.startswith("-"):
        raise UsageError(
            f"{name!r} cannot be a user's name.", remedy=f"Choose 1 to {LONGEST_NAME} printable characters."
        )
