"""Full disks: reports which one is full, and reads the catalog from a copy in memory."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mere.errors import LakeUnreadable

_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# SQLite says so only where it was writing rows; where it was growing the memory that readers share, it does not.
_CODES = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
}
REMEDY = "Free some space there and try again. Reading still works."


class Snapshot(sqlite3.Connection):
    """A database as it stood at one moment, in memory. It is for one transaction: the next one looks again."""


def is_lacking(error: BaseException) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) in _CODES
    return isinstance(error, OSError) and error.errno in _ERRNOS


def describe(path: Path | str) -> str:
    """A sentence on the disk on which there was no room to write this."""
    folder = Path(path).absolute()
    while not folder.is_dir():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    while not os.path.ismount(folder):
        folder = folder.parent
    return (
        f"There is no room to write {path}: the disk mounted at {folder} has {free / 1e6:,.1f} MB left, or a quota or a"
        " limit on the size of files is reached."
    )


def snapshot(path: Path, timeout: float) -> Snapshot:
    """Read the whole database. It is locked meanwhile, and whoever holds it alone needs no memory that is shared, for
    which there would have to be room on the disk. Somebody else who has it open has made that memory already."""
    uri = path.as_uri() + "?mode=rw"
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Snapshot)
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)) as source:
        source.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
        source.backup(copy)
    copy.execute("PRAGMA query_only = ON")
    return copy


@contextlib.contextmanager
def scratch(prefix: str) -> Iterator[str]:
    """A folder for temporary files, which is gone after the block."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=prefix)
    except OSError as error:
        raise LakeUnreadable(
            f"There is no room for temporary files: {error.strerror}.",
            remedy="Free some space, or name another folder for them in the variable TMPDIR.",
        ) from error
    with folder as name:
        yield name
