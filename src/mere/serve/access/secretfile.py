"""A JSON object in a file that only its owner can read, and that one at a time changes."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mere.errors import ConfigError
from mere.syntax import not_json


@dataclass(frozen=True)
class SecretFile:
    path: Path
    otherwise: str  # what can be done where it cannot be used
    values: type  # of which all values are

    def read(self) -> dict[str, Any]:
        """Empty where there is no file; ConfigError where it cannot be used, or where others can read it."""
        try:
            check_owner(self.path, self.path.stat())
        except FileNotFoundError:
            return {}
        return self._read()

    @contextmanager
    def changed(self) -> Iterator[dict[str, Any]]:
        """The entries, to be changed by one at a time; a reader sees the old file or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(_beside(self.path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = self._read() if self.path.exists() else {}
            before = dict(entries)
            yield entries
            if entries != before:
                self._write(entries)
        finally:
            os.close(lock)

    def unfit(self, why: str) -> ConfigError:
        return ConfigError(
            f"{self.path} cannot be used: {why}.", remedy=f"{self.otherwise[:1].upper()}{self.otherwise[1:]}"
        )

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except OSError as error:
            raise self.unfit(error.strerror or "it cannot be read") from error
        except json.JSONDecodeError as error:
            raise not_json(error, str(self.path), self.otherwise) from None
        except ValueError as error:
            raise self.unfit(f"it is not UTF-8 text: {error}") from error
        if not isinstance(found, dict) or not all(isinstance(each, self.values) for each in found.values()):
            raise self.unfit("it is not an object of names and what they stand for")
        return found

    def _write(self, entries: Mapping[str, Any]) -> None:
        unfinished = _beside(self.path, "new")
        unfinished.unlink(missing_ok=True)
        create(unfinished, json.dumps(dict(sorted(entries.items())), indent=2) + "\n")
        unfinished.replace(self.path)


def create(path: Path, content: str) -> None:
    """For its owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def check_owner(path: Path, about: os.stat_result) -> None:
    if stat.S_IMODE(about.st_mode) & 0o077:
        raise ConfigError(f"{path} can be read by others than its owner.", remedy=f"Close it: chmod 600 {path}")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}.{suffix}")
