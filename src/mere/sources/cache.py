"""Local copies of fetched or unpacked files for Spark to read, each in a folder named after its origin.

All of them can be recreated. When there are too many, the least recently used go first.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from mere.config import mere_home
from mere.engine.lock import exclusive
from mere.errors import ConfigError

VARIABLE = "MERE_SOURCE_CACHE"
DEFAULT_BYTES = 10 * 2**30
# A copy that was used so short a time ago may be being read.
IN_USE = 3600.0
_PART = ".part"
_LOCK = ".lock"
_AMOUNT = re.compile(r"([0-9]+)([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def cache_folder() -> Path:
    return mere_home() / "sources"


def keep_bytes() -> int:
    """How much is kept: MERE_SOURCE_CACHE, as `20g`."""
    text = os.environ.get(VARIABLE)
    if not text:
        return DEFAULT_BYTES
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{VARIABLE} is not an amount of memory.", remedy="Write for example `20g` or `800m`.")
    return int(found[1]) * _UNITS[found[2].lower()]


def key(*identity: str) -> str:
    """Of a copy, from all that tells it from others."""
    return hashlib.blake2b("\0".join(identity).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Made:
    path: Path  # where it is now, in the folder of the copy
    name: str  # what it shall be called


def cached(cache: Path, key: str, make: Callable[[Path], Made]) -> Path:
    """The copy with this key. If there is none, `make` gets a path to write to, where a part of it may be from a try
    before; whoever wants the same one waits meanwhile."""
    folder = cache / key
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with exclusive(cache / _LOCK):
        folder.mkdir(mode=0o700, exist_ok=True)
        os.utime(folder)
    with exclusive(folder / _LOCK):
        found = _copy_in(folder)
        if found is None:
            part = folder / _PART
            made = make(part)
            found = made.path.replace(folder / made.name)
            part.unlink(missing_ok=True)
        os.utime(folder)
    return found


def release(cache: Path, paths: Iterable[Path]) -> None:
    """What was read may go, if it has to. Files that are not in the cache are left alone."""
    for folder in {path.parent for path in paths if path.parent.parent == cache}:
        try:
            at = folder.stat().st_mtime - IN_USE
            os.utime(folder, (at, at))
        except FileNotFoundError:
            continue


def prune(cache: Path, keep: int | None = None) -> int:
    """Remove the copies that were not used for longest, until there are no more bytes than `keep`; none that may be
    in use. Returns how many bytes went."""
    keep = keep_bytes() if keep is None else keep
    if not cache.is_dir():
        return 0
    removed = 0
    with exclusive(cache / _LOCK):
        copies = sorted(_copies(cache), key=lambda copy: copy.used)
        excess = sum(copy.size for copy in copies) - keep
        now = time.time()
        for copy in copies:
            if removed >= excess or copy.used > now - IN_USE:
                break
            shutil.rmtree(copy.folder, ignore_errors=True)
            removed += copy.size
    return removed


@dataclass(frozen=True)
class _Copy:
    folder: Path
    size: int
    used: float


def _copies(cache: Path) -> Iterable[_Copy]:
    with os.scandir(cache) as entries:
        folders = list(entries)
    for folder in folders:
        if not folder.is_dir(follow_symlinks=False):
            continue
        size, used = 0, folder.stat().st_mtime
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # a part that became the whole meanwhile
                size += status.st_size
                if entry.name == _PART:
                    used = max(used, status.st_mtime)
        yield _Copy(Path(folder.path), size, used)


def _copy_in(folder: Path) -> Path | None:
    return next((path for path in folder.iterdir() if not path.name.startswith(".")), None)
