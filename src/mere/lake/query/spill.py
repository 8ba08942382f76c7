"""Where queries spill to disk: folders that only this user can enter, removed with the process."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

_PREFIX = "mere-sql-"


class Spill:
    """A folder of this process. It holds a lock on it for as long as it lives, so that others know whether it does."""

    def __init__(self, parent: Path) -> None:
        self._owner = os.getpid()
        self._numbers = count()
        while True:
            self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))  # 0700
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with suppress(OSError):  # a file system without locks: nobody can sweep there, either
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            if self.folder.exists():
                return
            os.close(self._lock)  # somebody who swept was quicker than the lock

    def place(self) -> str:
        """For one database: two of them would write over each other's files. DuckDB makes it when it needs it."""
        return str(self.folder / str(next(self._numbers)))

    def is_mine(self) -> bool:
        """A forked process has the object of its parent, but may not use or remove its folder."""
        return self._owner == os.getpid() and self.folder.exists()

    def remove(self) -> None:
        if self._owner == os.getpid():
            shutil.rmtree(self.folder, ignore_errors=True)


_present: Spill | None = None


def place() -> str:
    """A place for another database of this process. Most need none, so it is no error if there is none: ''."""
    global _present
    if _present is None or not _present.is_mine():
        try:
            parent = Path(tempfile.gettempdir())
            sweep(parent)
            _present = Spill(parent)
        except OSError:  # there is no folder in which we can write
            return ""
        atexit.register(_present.remove)
    return _present.place()


def sweep(parent: Path) -> None:
    """Remove what processes have left that were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_unless_used(folder)


def _remove_unless_used(folder: Path) -> None:
    # Whose it is matters: in the system's folder anybody can make one of this name, or a link.
    about = folder.lstat()
    if about.st_uid != os.getuid():
        return
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
