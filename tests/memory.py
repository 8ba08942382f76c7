"""Where the files of tests are: in memory, if there is room.

Most tests make a lake: dozens of small files, and a database that waits for the disk at every commit. In memory that
takes half of the time of the processors, and nothing waits.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

_PLACE = Path("/dev/shm")
_ROOM = 4 << 30
_NAME = "mere-tests-"  # and the id of the process that made it


def use_memory() -> None:
    """For all temporary files of this process and of those that it starts, unless somebody has chosen a place."""
    if os.environ.get("TMPDIR") or not _PLACE.is_dir():
        return
    for old in _PLACE.glob(f"{_NAME}*"):
        # Of a run that failed, or was killed: it can be looked at until the next one starts.
        if not psutil.pid_exists(int(old.name.removeprefix(_NAME))):
            shutil.rmtree(old, ignore_errors=True)
    # Tests write programs and start them, which containers forbid there.
    if shutil.disk_usage(_PLACE).free < _ROOM or os.statvfs(_PLACE).f_flag & os.ST_NOEXEC:
        return
    folder = _mine()
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)  # the Postgres of the tests runs as somebody else
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def give_back() -> None:
    """What the process that made the folder calls when no test has failed."""
    shutil.rmtree(_mine(), ignore_errors=True)


def _mine() -> Path:
    return _PLACE / f"{_NAME}{os.getpid()}"
