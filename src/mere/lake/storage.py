"""Where the files of a lake are kept. A tiny port: the local disk now, S3 and its like behind the same five methods."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from mere.errors import LakeError, LakeUnreadable, MetadataMissing

_FILE_SCHEME = re.compile(r"file:(//[^/]*)?(?=/)")


@dataclass(frozen=True)
class StoredFile:
    location: str
    size: int
    modified_at: datetime


class Storage(Protocol):
    def read(self, location: str) -> bytes: ...
    def write_new(self, location: str, content: bytes) -> None: ...
    def files(self, folder: str) -> Iterator[StoredFile]: ...
    def delete(self, location: str) -> None: ...
    def exists(self, location: str) -> bool: ...


class LocalStorage:
    """Files on this machine. Locations are plain paths or file: URIs; both name the same file."""

    def read(self, location: str) -> bytes:
        try:
            # A publish reads hundreds of small files: this takes half the time of open() and read().
            descriptor = os.open(_path(location), os.O_RDONLY)
            try:
                return _read_all(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            raise MetadataMissing(
                f"{location} is gone, though the lake points to it.",
                remedy="Put the file back from a backup, or go back to a commit that does not need it:"
                " mere revert --to COMMIT",
            ) from error
        except OSError as error:
            raise LakeUnreadable(f"{location} cannot be read: {error.strerror}.") from error

    def write_new(self, location: str, content: bytes) -> None:
        """The whole file or none, and never over another."""
        path = local_path(location)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                try:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    path.unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise LakeUnreadable(f"{location} cannot be written: {error.strerror}. No pointer was changed.") from error

    def files(self, folder: str) -> Iterator[StoredFile]:
        for parent, _, names in os.walk(local_path(folder)):
            for name in names:
                path = Path(parent, name)
                try:
                    found = path.stat()
                except FileNotFoundError:
                    continue
                yield StoredFile(str(path), found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))

    def delete(self, location: str) -> None:
        local_path(location).unlink(missing_ok=True)

    def exists(self, location: str) -> bool:
        return local_path(location).exists()


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    content = os.read(descriptor, size)
    while len(content) < size and (more := os.read(descriptor, size - len(content))):
        content += more  # one read gives at most 2 GB
    return content


def local_path(location: str) -> Path:
    return Path(_path(location))


def _path(location: str) -> str:
    _, path = split_scheme(location)
    if "://" in path:
        raise LakeError(f"{location} is not on this machine's disk.")
    return path


def split_scheme(location: str) -> tuple[str, str]:
    """`file:` or `file://`, and the path. Engines take the path as it is: a %3A in it is part of a folder's name."""
    scheme = _FILE_SCHEME.match(location)
    return (scheme[0], location[scheme.end() :]) if scheme else ("", location)
