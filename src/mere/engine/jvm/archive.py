"""Class data archives: what the JVM worked out about Spark's 17,000 classes, stored for the next start.

An archive fits one Java, one class path and one mere, so its name is a hash of the three. It is built once, in the
background, after the first session has ended (`rehearsal`); until then, and if it does not fit, Spark starts without.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mere.config import mere_home
from mere.engine.jvm.classpath import identity
from mere.engine.jvm.process import Launch
from mere.engine.lock import exclusive

# An archive has some 200 MB; more than these are left behind by upgrades.
KEPT = 4
DAY = 24 * 60 * 60

# Python warns of a process that is forgotten while it runs. These are meant to outlive us.
_running: list[subprocess.Popen[bytes]] = []


def find(launch: Launch) -> Path | None:
    """The archive for such a JVM, if it was built."""
    path = _path(launch)
    if _switched_off() or not path.is_file():
        return None
    if time.time() - path.stat().st_mtime > DAY:
        # Its time says when it was last used; `_forget_old` goes by that. The JVM does not look at it.
        _touch(path)
    return path


def build(launch: Launch, train: Callable[[Path], None]) -> Path | None:
    """Build the archive for such a JVM, unless another process does; `train` runs a JVM that writes it to a path."""
    path = _path(launch)
    with exclusive(path.with_suffix(".lock"), wait=False) as mine:
        if path.is_file():
            return path
        if not mine:
            return None
        # The mark stays if this process dies or fails, and keeps every start from trying again.
        mark = path.with_suffix(".tried")
        mark.touch()
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        try:
            train(unfinished)
            if not unfinished.is_file():
                return None
            unfinished.replace(path)
            mark.unlink(missing_ok=True)
        finally:
            unfinished.unlink(missing_ok=True)
        _forget_old(path.parent)
    return path


def build_in_background(launch: Launch) -> None:
    """Start the training with the lowest priority, detached from this process and its terminal."""
    path = _path(launch)
    if _switched_off() or path.is_file() or _tried_today(path):
        return
    arguments = [*(["--ml"] if launch.ml else []), *map(str, launch.extra)]
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "mere.engine.rehearsal", "--background", *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return
    _running.append(process)


def _path(launch: Launch) -> Path:
    parts = (launch.java.identity(), identity(launch.jars), _version(), str(launch.ml))
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return mere_home() / "cds" / f"{key}.jsa"


def _version() -> str:
    try:
        return version("mere")
    except PackageNotFoundError:
        return "unknown"


def _switched_off() -> bool:
    return os.environ.get("MERE_ARCHIVE", "").lower() in ("off", "0", "false")


def _tried_today(path: Path) -> bool:
    try:
        return time.time() - path.with_suffix(".tried").stat().st_mtime < DAY
    except OSError:
        return False


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return


def _forget_old(folder: Path) -> None:
    archives = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[KEPT:]:
        # A JVM that has it mapped keeps it.
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)
