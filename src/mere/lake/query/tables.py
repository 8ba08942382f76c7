"""All tables and views of the lake at one commit, consistent with each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from mere.errors import MetadataMissing, TableNotFound
from mere.lake.iceberg.metadata import Metadata, MetadataReader
from mere.lake.log.commits import Commit, Entries, Entry, Key, Kind, Space
from mere.lake.refs.premises import Premises
from mere.lake.store.port import Store
from mere.names import MAIN, TableName, near
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted, moment, size

if TYPE_CHECKING:
    from mere.lake.query import Limits
    from mere.lake.query.table import Table


@dataclass(frozen=True)
class TableSet:
    """All tables and views at one commit, as `lake.at(ref)` returns them. It stays there when the ref moves."""

    ref: str  # as it was asked for
    commit: Commit
    entries: Entries
    reader: MetadataReader
    store: Store | None = field(default=None, repr=False, compare=False)  # of the log; None: it has no such tables
    past: Mapping[TableName, int] = field(default_factory=dict)  # tables that are read at an earlier snapshot

    @cached_property
    def tables(self) -> dict[TableName, Entry]:
        """Tables and views with their pointers, by name."""
        found = {key.table: entry for key, entry in self.entries.items() if key.space is Space.RELATION}
        return dict(sorted(found.items()))

    @property
    def namespaces(self) -> list[str]:
        return sorted({key.namespace for key in self.entries})

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.tables)

    def __contains__(self, table: object) -> bool:
        return self._key(table) in self.entries if isinstance(table, str | TableName) else False

    def pointer(self, table: str | TableName) -> str:
        """The location of the table's metadata file."""
        return self.entry(table).value

    def entry(self, table: str | TableName) -> Entry:
        key = self._key(table)
        if key not in self.entries:
            names = [str(name) for name in self.tables]
            raise TableNotFound(f"There is no table {key} on {self.ref}.{near(str(key), names)}")
        return self.entries[key]

    def metadata(self, table: str | TableName) -> Metadata:
        found = self.reader.read(self.pointer(table))
        snapshot = self.past.get(self._key(table).table) if self.past else None
        return found if snapshot is None else found.as_of(snapshot) or found

    def at_snapshot(self, table: TableName, snapshot: int) -> TableSet | None:
        """The same, with one table as it was at a snapshot of its own; None if that is gone."""
        if self.metadata(table).as_of(snapshot) is None:
            return None
        return replace(self, past={**self.past, table: snapshot})

    def table(self, table: str | TableName, limits: Limits | None = None) -> Table:
        """One table or view, for reading into Arrow, Polars, pandas or DuckDB."""
        from mere.lake.query.table import Table

        name = TableName.parse(table) if isinstance(table, str) else table
        if name not in self:
            from mere.lake.query.bindings import Directory

            found = Directory(self).find_any((name.namespace, name.name))
            if found is None or found in self:
                self.entry(name)
            else:
                name = found
        return Table(self, name, limits)

    def is_view(self, table: str | TableName) -> bool:
        return self.entry(table).kind is Kind.VIEW

    def __repr__(self) -> str:
        return f"<TableSet {self.ref} at commit {self.commit.short_id}: {counted(len(self.tables), 'table')}>"

    def to_dict(self) -> dict[str, Any]:
        """What `mere tables --json` prints."""
        return {"ref": self.ref, "commit": self.commit.id, "tables": [self._about(name) for name in self]}

    def _about(self, name: TableName) -> dict[str, Any]:
        entry = self.entry(name)
        sizes: dict[str, int | None] = {"rows": None, "files": None, "bytes": None}
        kind: str = entry.kind
        try:
            metadata = self.metadata(name)
            if not self.is_view(name):
                sizes = {"rows": metadata.rows, "files": metadata.files, "bytes": metadata.size}
        except MetadataMissing:
            kind = f"{entry.kind}, metadata file gone"
        return {"table": str(name), "kind": kind, "pointer": entry.value, **sizes}

    @property
    def summary(self) -> tuple[Sequence[Column], list[Sequence[object]]]:
        """What `mere tables` prints, as columns and rows."""
        columns = (Column("table"), Column("kind"), Column("rows", True), Column("files", True), Column("size", True))
        return columns, [_cells(each) for each in self.to_dict()["tables"]]

    def _repr_html_(self) -> str:
        at = f"{self.ref} at commit {self.commit.short_id} of {moment(self.commit.at)}"
        return notebook.shown(at if self.tables else f"no tables on {at}", notebook.table(*self.summary))

    @staticmethod
    def _key(table: str | TableName) -> Key:
        return Key.of(TableName.parse(table) if isinstance(table, str) else table)


def _cells(about: Mapping[str, Any]) -> Sequence[object]:
    counts = [f"{about[each]:,}" if about["rows"] is not None else "" for each in ("rows", "files")]
    return about["table"], about["kind"], *counts, size(about["bytes"]) if about["rows"] is not None else ""


class ReadableLake(Premises, Protocol):
    """What returns the tables of its refs."""

    def at(self, ref: str = MAIN) -> TableSet: ...
    def at_each(self, refs: Collection[str]) -> dict[str, TableSet]: ...
