"""Raw files of sources, kept beside the lake: each version as it was fetched, in a place that says whose it is.

    <landing>/<schema>/<table>/<window, or all>/<version>/<name>

A file is written once and never changed: another version has another place. So a cluster can read what only the machine
that runs mere could fetch, and a file can be loaded again when it is long gone from where it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mere.lake.storage.port import Storage, canonical
from mere.names import TableName
from mere.sources import cache as copies
from mere.sources.pattern import Pattern
from mere.sources.source import Files, Loaded, Portion
from mere.windows import Span, stamp

_ALL = "all"
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+|^[._]+")  # Spark passes over names that begin with a dot or _


def _named(name: str) -> str:
    return _UNSAFE.sub("-", name)[-100:]


@dataclass(frozen=True)
class Landing:
    """`signed`: Spark has no keys for S3, so that it cannot read here."""

    storage: Storage
    folder: str
    signed: bool = False

    def keep(self, table: TableName, portion: Portion, path: Path, checksum: str | None) -> str:
        """Where the file is kept; it is brought there unless it is there already."""
        location = f"{self._version(table, portion.name, portion.span, portion.version, checksum)}/{_named(path.name)}"
        self.storage.bring(path, location)
        return location

    def portions(self, table: TableName, files: Files, gone: Iterable[Loaded]) -> Iterator[Portion]:
        """Those of the files that were loaded and are gone from their place that are kept here."""
        pattern = Pattern.parse(files.location)
        for each in gone:
            folder = self._version(table, each.portion, each.span, each.version, each.checksum)
            kept = next(iter(self.storage.files(f"{folder}/")), None)
            if kept is not None:
                found = pattern.match(each.portion)
                values: Mapping[str, str] = found.values if found else {}
                portion = Portion(each.portion, each.location, each.version, each.size, each.modified, values)
                yield replace(portion, span=each.span, landed=canonical(kept.location), checksum=each.checksum)

    def fetched(self, landed: str, cache: Path) -> Path:
        """A copy on this machine, where the columns and the lines of a file are looked up."""

        def make(part: Path) -> copies.Made:
            self.storage.fetch(landed, part)
            return copies.Made(part, landed.rpartition("/")[2])

        return copies.cached(cache, copies.key("landed", landed), make)

    def _version(self, table: TableName, name: str, span: Span | None, version: str, checksum: str | None) -> str:
        window = stamp(span.start).replace(" ", "T").replace(":", "") if span else _ALL
        key = copies.key(name, version, checksum or "")
        return f"{self.folder}/{table.namespace}/{table.name}/{window}/{key}"
