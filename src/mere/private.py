"""Files that only their owner can read, whatever the umask is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def appended(path: Path) -> BinaryIO:
    """A file to write more to. One that is there already keeps the permissions that somebody gave it."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
