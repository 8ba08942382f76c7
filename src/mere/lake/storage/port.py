"""Where the files of a lake are kept. A tiny port: the local disk here, S3 and its like in s3.py."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from mere.config import S3Settings, is_s3
from mere.errors import LakeError, LakeUnreadable, MetadataMissing, UsageError
from mere.lake.storage import room

_FILE_SCHEME = re.compile(r"file:(//[^/]*)?(?=/)")
_S3_SCHEME = re.compile(r"s3[an]?://")
_SMALL = 1 << 16
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]")


@dataclass(frozen=True)
class StoredFile:
    location: str
    size: int
    modified_at: datetime
    etag: str | None = None  # where the storage has one


class Storage(Protocol):
    @property
    def s3(self) -> S3Settings | None:
        """What engines have to be told to reach the files; None where they need nothing."""

    def read(self, location: str) -> bytes: ...
    def read_range(self, location: str, start: int, length: int) -> bytes: ...
    def write_new(self, location: str, content: bytes) -> None:
        """The whole file or none, and never over another."""

    def replace(self, location: str, content: bytes) -> None:
        """The whole file or the one that was there."""

    def files(self, folder: str) -> Iterator[StoredFile]: ...
    def delete(self, *locations: str) -> None:
        """One that is not there is no error."""

    def exists(self, location: str) -> bool: ...
    def bring(self, path: Path, location: str) -> None:
        """Copy a file of this machine here, which never changes: a whole one that is there already is the same."""

    def fetch(self, location: str, path: Path) -> None:
        """Copy a file to this machine."""

    def remove_empty_folders(self, folder: str, before: datetime) -> None:
        """Those inside of the folder that have been empty since then, where folders are something of their own."""


class LocalStorage:
    """Files on this machine. Locations are plain paths or file: URIs; both name the same file."""

    s3: S3Settings | None = None

    def read(self, location: str) -> bytes:
        try:
            # A publish reads hundreds of small files: this takes a third of the time of open() and read().
            descriptor = os.open(_path(location), os.O_RDONLY)
            try:
                return _read_all(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _unreadable(location, error) from error

    def read_range(self, location: str, start: int, length: int) -> bytes:
        try:
            with local_path(location).open("rb", buffering=0) as file:
                return os.pread(file.fileno(), length, start)
        except OSError as error:
            raise _unreadable(location, error) from error

    def write_new(self, location: str, content: bytes) -> None:
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
            if room.is_lacking(error):
                raise LakeUnreadable(f"{room.describe(path)} No pointer was changed.", remedy=room.REMEDY) from error
            raise LakeUnreadable(f"{location} cannot be written: {error.strerror}. No pointer was changed.") from error

    def replace(self, location: str, content: bytes) -> None:
        draft = f"{location}.{secrets.token_hex(4)}"
        self.write_new(draft, content)
        try:
            local_path(draft).replace(local_path(location))
        except OSError as error:
            self.delete(draft)
            raise LakeUnreadable(f"{location} cannot be written: {error.strerror}.") from error

    def files(self, folder: str) -> Iterator[StoredFile]:
        for parent, _, names in os.walk(local_path(folder)):
            for name in names:
                path = Path(parent, name)
                try:
                    found = path.stat()
                except FileNotFoundError:
                    continue
                yield StoredFile(str(path), found.st_size, datetime.fromtimestamp(found.st_mtime, UTC))

    def delete(self, *locations: str) -> None:
        for location in locations:
            try:
                local_path(location).unlink(missing_ok=True)
            except OSError as error:
                raise LakeUnreadable(
                    f"{location} cannot be deleted: {error.strerror}.", remedy="Check the permissions of its folder."
                ) from error

    def exists(self, location: str) -> bool:
        return local_path(location).exists()

    def bring(self, path: Path, location: str) -> None:
        target = local_path(location)
        if target.is_file():
            return
        draft = target.with_name(f".{secrets.token_hex(4)}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with path.open("rb") as source, draft.open("xb") as copy:
                shutil.copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
            draft.replace(target)
        except OSError as error:
            draft.unlink(missing_ok=True)
            if room.is_lacking(error):
                raise LakeUnreadable(room.describe(target), remedy=room.REMEDY) from error
            raise LakeUnreadable(f"{location} cannot be written: {error.strerror}.") from error

    def fetch(self, location: str, path: Path) -> None:
        try:
            shutil.copyfile(local_path(location), path)
        except OSError as error:
            raise LakeUnreadable(f"{location} cannot be read: {error.strerror}.") from error

    def remove_empty_folders(self, folder: str, before: datetime) -> None:
        root = local_path(folder)
        # All times are read first: removing a folder changes the time of the one it was in.
        folders = [(Path(name), Path(name).stat().st_mtime) for name, _, _ in os.walk(root) if Path(name) != root]
        for each, changed_at in reversed(folders):
            if changed_at < before.timestamp():
                try:
                    each.rmdir()
                except OSError:
                    continue  # it is not empty


def _unreadable(location: str, error: OSError) -> LakeError:
    if isinstance(error, FileNotFoundError):
        return MetadataMissing(
            f"{location} is gone, though the lake points to it.",
            remedy="Put the file back from a backup, or go back to a commit that does not need it:"
            " mere revert --to COMMIT",
        )
    return LakeUnreadable(f"{location} cannot be read: {error.strerror}.")


def _read_all(descriptor: int) -> bytes:
    content = os.read(descriptor, _SMALL)
    if len(content) < _SMALL:  # of a file on a disk, that is all
        return content
    size = os.fstat(descriptor).st_size
    parts, length = [content], len(content)
    while length < size and (more := os.read(descriptor, size - length)):
        parts.append(more)  # one read gives at most 2 GB
        length += len(more)
    return b"".join(parts)


def local_path(location: str) -> Path:
    return Path(_path(location))


def _path(location: str) -> str:
    path = location if location.startswith("/") else split_scheme(location)[1]
    if "://" in path:
        raise LakeError(f"{location} is not on this machine's disk.")
    return path


def split_scheme(location: str) -> tuple[str, str]:
    """`file:` or `file://`, and the path. Engines take the path as it is: a %3A in it is part of a folder's name."""
    scheme = _FILE_SCHEME.match(location)
    return (scheme[0], location[scheme.end() :]) if scheme else ("", location)


def canonical(location: str) -> str:
    """One of the spellings of a file's name: a plain path for file:, and s3 for Hadoop's s3a and s3n."""
    return _S3_SCHEME.sub("s3://", split_scheme(location)[1], count=1) if is_s3(location) else split_scheme(location)[1]


def folders_around(location: str) -> Iterator[str]:
    """The folders that a place is in, from the outermost on. On S3 that is the bucket, and nothing is around it."""
    bucket, key = "", location.strip("/")
    if is_s3(location):
        name, _, key = canonical(location).removeprefix("s3://").partition("/")
        bucket = f"s3://{name}"
    names = key.split("/") if key else []
    for at in range(len(names)):
        yield "/".join((bucket, *names[:at]))


def place(path: str | os.PathLike[str]) -> str:
    """Where a lake is: an absolute folder without links, or s3://bucket/prefix."""
    text = os.fspath(path)
    if not is_s3(text):
        return str(Path(text).resolve())
    location = canonical(text).rstrip("/")
    bucket, *folders = location.removeprefix("s3://").split("/")
    if not _BUCKET.fullmatch(bucket) or any(name in ("", ".", "..") for name in folders):
        raise UsageError(f"{text} is not a place on S3.", remedy="Write s3://bucket or s3://bucket/prefix.")
    return location


@contextmanager
def readable(location: str) -> Iterator[None]:
    """What goes wrong in here is the fault of this file."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OSError) as error:
        raise LakeUnreadable(f"{location} cannot be read: {error}.") from error
