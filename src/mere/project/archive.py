"""The modules of a project in one file, for workers of Spark that do not have its folder.

Functions go to workers as they are, with what they refer to. What a function imports when it is called has to be found
there: that is what the archive is for.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from mere.config import mere_home

_TIME = (1980, 1, 1, 0, 0, 0)  # equal modules make equal files
_KEPT = 20


class Workers(Protocol):
    def add_python(self, archive: Path) -> None: ...


def send_modules(folder: Path, workers: Workers) -> None:
    if (found := archive(folder)) is not None:
        workers.add_python(found)


def archive(folder: Path) -> Path | None:
    """Made once for each content; None if there is no module."""
    modules = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _modules(folder)}
    if not modules:
        return None
    digest = hashlib.sha256()
    for name, content in sorted(modules.items()):
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    place = mere_home() / "archives"
    target = place / f"modules_{digest.hexdigest()[:16]}.zip"
    if not target.is_file():
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(place.glob("modules_*.zip"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
        unfinished = target.with_suffix(f".{os.getpid()}.part")
        with zipfile.ZipFile(unfinished, "w") as file:
            for name, content in sorted(modules.items()):
                file.writestr(zipfile.ZipInfo(name, _TIME), content)
        unfinished.replace(target)
    return target


def _modules(folder: Path) -> Iterator[Path]:
    """Not those of a virtual environment, of hidden folders, or of another project inside."""
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith((".", "__"))
            and not (here / each / "pyvenv.cfg").exists()
            and not (here / each / "mere.yaml").exists()
        )
        yield from (here / each for each in sorted(files) if each.endswith(".py"))
