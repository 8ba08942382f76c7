"""Which of several metadata files in a folder is the table, when no catalog says so.

A folder in a lake's warehouse has the files of all branches. `main.json` next to the warehouse tells what main had.
Anything newer may belong to main, if an engine wrote to it, or to any branch: mere does not guess.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mere.errors import LakeError, UsageError
from mere.lake.iceberg.files import read_metadata
from mere.lake.iceberg.metadata import Metadata
from mere.lake.place.mainfile import MainFile
from mere.lake.storage.port import Storage, canonical

METADATA_FILE = re.compile(r"(?:v(?P<hadoop>\d+)|(?P<number>\d+)-[^/]*)(?:\.gz)?\.metadata\.json(?:\.gz)?")
_SHOWN = 10


@dataclass(frozen=True)
class Choice:
    """What the user has said."""

    files: frozenset[str] = field(default_factory=frozenset)
    newest: bool = False

    @classmethod
    def of(cls, files: Collection[str], *, newest: bool) -> Choice:
        return cls(frozenset(map(_place, files)), newest)

    def among(self, table: str, names: Iterable[str]) -> str | None:
        """The one of a table's files that was named."""
        meant = sorted({f"{table}/metadata/{name}" for name in names} & self.files)
        if len(meant) > 1:
            raise UsageError(f"Of {table} two metadata files are named: {' and '.join(meant)}.", remedy="Name one.")
        return meant[0] if meant else None


def _place(file: str) -> str:
    return canonical(file if "://" in file or file.startswith("file:") else os.path.abspath(file))  # noqa: PTH100


@dataclass(frozen=True)
class Version:
    metadata: Metadata

    @property
    def location(self) -> str:
        return self.metadata.location

    @property
    def name(self) -> str:
        return posixpath.basename(self.location)

    @property
    def number(self) -> int:
        match = METADATA_FILE.fullmatch(self.name)
        return int(match["hadoop"] or match["number"]) if match else 0

    @property
    def at(self) -> datetime:
        return self.metadata.updated_at

    @property
    def before(self) -> frozenset[str]:
        """The names of those that it goes on from."""
        return frozenset(posixpath.basename(each["metadata-file"]) for each in self.metadata.log)


@dataclass(frozen=True)
class Doubt:
    """Several files may be the table: why, and the one to name if nothing else is known."""

    why: str
    suggested: str


def versions(storage: Storage, table: str, names: Iterable[str]) -> list[Version]:
    """Newest first. One that cannot be read is no candidate: it was never finished, or is damaged."""
    found = []
    for name in names:
        try:
            found.append(Version(read_metadata(storage, f"{table}/metadata/{name}")))
        except LakeError:
            continue
    return sorted(found, key=lambda each: (each.at, each.number, each.name), reverse=True)


def of_main(
    storage: Storage, table: str, names: Sequence[str], main: MainFile | None, pointer: str | None
) -> str | Doubt:
    """What main had, or who else it may be. `pointer`: where it was when `main` was written."""
    found = versions(storage, table, names)
    if not found:
        return pointer or f"{table}/metadata/{names[0]}"  # whoever reads it says what is wrong with it
    if main is None or pointer is None:
        return _doubt("only the lost catalog knew which of these main had, if any", found, {})
    if not any(each.at >= main.at and each.location != pointer for each in found):
        return pointer
    notes = {pointer: f"main had it at {main.at:%Y-%m-%d %H:%M:%SZ}, commit {main.commit[:10]}"}
    why = "it was written to after mere last saw main, on main or on another branch; it is one of these"
    return _doubt(why, found, notes)


def of_one_number(storage: Storage, table: str, names: Sequence[str], newest: Sequence[str]) -> str | Doubt:
    found = versions(storage, table, names)
    if not any(each.name in newest for each in found):
        return f"{table}/metadata/{newest[0]}"  # whoever reads it says what is wrong with it
    return _doubt("only its catalog knows which of these is the table", found, {})


def _doubt(why: str, found: Sequence[Version], notes: dict[str, str]) -> Doubt:
    followed = {name for each in found for name in each.before}
    shown = [each for each in found if each.name not in followed or each.location in notes]
    lines = [_line(each, found, notes.get(each.location)) for each in shown[:_SHOWN]]
    if more := len(found) - len(lines):
        lines.append(f"and {more:,} earlier {'one' if more == 1 else 'ones'}, which these continue")
    return Doubt("\n      ".join([f"{why}:", *lines]), next(iter(notes), shown[0].location))


def _line(version: Version, found: Sequence[Version], note: str | None) -> str:
    rows = "a view" if version.metadata.is_view else f"rows: {version.metadata.rows:,}"
    return f"{version.name}  {version.at:%Y-%m-%d %H:%M:%SZ}  {rows}" + "".join(
        f"  {each}" for each in (_chain(version, found), note and f"({note})") if each
    )


def _chain(version: Version, found: Sequence[Version]) -> str | None:
    last = next((each for each in found if each.name in version.before), None)
    return f"continues {last.name}" if last else None


def metadata_files(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if METADATA_FILE.fullmatch(name))
