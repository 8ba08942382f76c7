"""Caches what was read from each file in <project>/.mere/cache, so that an unchanged project needs no sqlglot or Jinja.

The cache is only ever a shortcut: entries that are damaged, from another version or of other content are read again.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import pickle
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from mere.project.model import Model

FOLDER = ".mere"
MODELS, FINDINGS = "models", "findings"
_DIGEST_SIZE = hashlib.sha256().digest_size
# Anything may lie in a folder: nothing but plain data is ever made from it.
_PACKAGES = ("mere.project.", "mere.audits.", "mere.sources.", "mere.sql.")
_ALLOWED = {
    ("datetime", "datetime"), ("datetime", "date"), ("datetime", "timedelta"), ("datetime", "timezone"),
    ("decimal", "Decimal"), ("mere.names", "TableName"), ("mere.windows", "Grain"),
    ("mere.config", "S3Settings"),
}  # fmt: skip


@dataclass(frozen=True)
class Cached:
    key: str
    models: tuple[Model, ...] = ()
    # Other files that were looked at, with the digest of what was found in them; None: there was no such file.
    looked_at: Mapping[str, str | None] = field(default_factory=dict)


class _Entry(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def looked_at(self) -> Mapping[str, str | None]: ...


E = TypeVar("E", bound=_Entry)


class Cache(Generic[E]):
    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / FOLDER / "cache" / name
        self._old: dict[str, E] = self._read()
        self._new: dict[str, E] = {}

    def find(self, name: str, key: str, digest: Callable[[str], str | None]) -> E | None:
        cached = self._old.get(name)
        if cached is None or cached.key != key:
            return None
        if any(digest(other) != known for other, known in cached.looked_at.items()):
            return None
        self._new[name] = cached
        return cached

    def keep(self, name: str, cached: E) -> None:
        self._new[name] = cached

    def save(self, also: Iterable[str] = ()) -> None:
        """At once or not at all. A folder that cannot be written has no cache.

        What was neither found nor kept is forgotten, unless its name is in `also`.
        """
        self._new = {name: self._old[name] for name in also if name in self._old} | self._new
        if self._new == self._old:
            return
        written = io.BytesIO()
        _Writer(written, protocol=5).dump({"stamp": stamp(), "files": self._new})
        content = written.getvalue()
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            ignore = self._path.parent.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            unfinished.write_bytes(hashlib.sha256(content).digest() + content)
            unfinished.replace(self._path)

    def _read(self) -> dict[str, E]:
        try:
            raw = self._path.read_bytes()
        except OSError:
            return {}
        digest, content = raw[:_DIGEST_SIZE], raw[_DIGEST_SIZE:]
        if hashlib.sha256(content).digest() != digest:
            return {}
        try:
            found = _Plain(io.BytesIO(content)).load()
            return dict(found["files"]) if found["stamp"] == stamp() else {}
        except Exception:  # noqa: BLE001 - whatever lies there, the project itself is what counts
            return {}


class _Writer(pickle.Pickler):
    """Writes an enum by its value: some versions of Python write a call of getattr, which is not read again."""

    def reducer_override(self, written: object, /) -> Any:
        return (type(written), (written.value,)) if isinstance(written, Enum) else NotImplemented


class _Plain(pickle.Unpickler):
    """Makes data classes and enums of the project, and no other objects: a file from elsewhere cannot run code."""

    def find_class(self, module_name: str, name: str, /) -> Any:
        if (module_name, name) not in _ALLOWED and not (module_name.startswith(_PACKAGES) and name.isidentifier()):
            raise pickle.UnpicklingError(f"{module_name}.{name} is not data")
        found = getattr(importlib.import_module(module_name), name)
        if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module_name, name):
            raise pickle.UnpicklingError(f"{module_name}.{name} is not data")
        return found


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def stamp() -> str:
    """Stands for the code that reads a project: a newer mere or sqlglot may read something else in the same text."""
    home = Path(__file__).parents[1]
    rooms = ("project", "audits", "sources", "sql", "lake/iceberg", "lake/query", "text")
    files = [*home.glob("*.py"), *(path for room in rooms for path in (home / room).rglob("*.py"))]
    about = sorted((str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files)
    return hashlib.sha256(repr((about, _sqlglot_version())).encode()).hexdigest()


def _sqlglot_version() -> str:
    """From its file: to import it, or importlib.metadata, takes longer than all the rest."""
    from importlib.util import find_spec

    spec = find_spec("sqlglot")
    version = Path(spec.origin or "").with_name("_version.py") if spec else None
    if version is not None and version.is_file():
        return version.read_text(encoding="utf-8")
    from importlib.metadata import version as version_of

    return version_of("sqlglot")
