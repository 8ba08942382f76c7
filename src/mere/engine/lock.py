"""A lock between processes, for work that only one of them should do, such as fetching jars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file for the length of the block; with wait=False the block gets False if it is taken.

    The system frees the lock when its holder dies. Where files cannot be locked (some network file systems) the
    block runs at once: whatever it makes is moved into place atomically, so at worst the work is done twice.
    """
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        held = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            held = False
        except OSError:
            pass
        yield held
    finally:
        os.close(descriptor)
