"""The destination of COPY … TO: written completely, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mere.config import is_s3


@contextmanager
def all_or_nothing(destination: str | None) -> Iterator[None]:
    """DuckDB takes back what it has begun only when nobody knows of the failure any more: too late for a process that
    ends with it. A folder that was there before keeps what has come into it."""
    if destination is None or is_s3(destination):
        yield
        return
    target = Path(destination).expanduser()
    draft = target.with_name(f"tmp_{target.name}")  # what DuckDB writes first, where there is something already
    made = [path for path in (target, draft) if not os.path.lexists(path)]
    try:
        yield
    except BaseException:
        for path in made:
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise
