"""Describes a table or view from its metadata file alone: reads no manifests and no data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mere.lake.iceberg.metadata import Metadata, MetadataReader, Snapshot
from mere.lake.iceberg.properties import OWN, STATE
from mere.lake.iceberg.schema import Field, fields, key_of, partitioning, sort_order, view_sql
from mere.lake.log.commits import Change, Commit, Key, Kind, Stats
from mere.lake.refs.describe import readable
from mere.lake.refs.premises import Premises
from mere.names import TableName
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import size

if TYPE_CHECKING:
    from mere.lake.query.tables import TableSet


@dataclass(frozen=True)
class SnapshotLine:
    id: int
    parent: int | None
    at: datetime
    operation: str
    growth: Stats
    rows: int  # after it
    current: bool


@dataclass(frozen=True)
class Description:
    """Counts are those of the current snapshot's summary; a view has none, and SQL instead."""

    table: str
    kind: Kind
    pointer: str
    location: str | None
    uuid: str | None
    format_version: int
    columns: tuple[Field, ...]
    key: tuple[str, ...]
    partitioning: tuple[str, ...]
    sort_order: tuple[str, ...]
    properties: Mapping[str, str]
    state: str | None
    rows: int | None = None
    rows_are_exact: bool = True  # equality deletes are not counted by row
    size: int | None = None
    data_files: int | None = None
    delete_files: int | None = None
    snapshots: tuple[SnapshotLine, ...] = ()  # newest first
    sql: str | None = None
    dialect: str | None = None

    def to_dict(self, snapshots: int | None = None) -> dict[str, Any]:
        """What `mere show --json` prints, with so many of the snapshots."""
        data = asdict(self)
        lines = zip(data["snapshots"], self.snapshots[:snapshots], strict=False)
        told = [
            raw | {"at": line.at.isoformat(timespec="milliseconds"), "growth": line.growth._asdict()}
            for raw, line in lines
        ]
        return data | {"snapshots": told, "snapshot_count": len(self.snapshots)}

    def _repr_html_(self) -> str:
        size_ = "" if self.size is None else f", {self.rows or 0:,} rows, {size(self.size)}"
        columns = [Column("column"), Column("type"), Column("null"), Column("comment")]
        rows = [(each.name, each.type, "no" if each.required else "yes", each.comment) for each in self.columns]
        facts = {"key": self.key, "partitioned by": self.partitioning, "sorted by": self.sort_order}
        lines = [f"{name}: {', '.join(value)}" for name, value in facts.items() if value]
        sql = [self.sql.strip()] if self.sql else []
        title = f"{self.kind} {self.table}{size_}"
        return notebook.shown(title, notebook.table(columns, rows), notebook.lines([*lines, *sql]))


@dataclass(frozen=True)
class Moment:
    """The table at one commit that changed it."""

    commit: Commit
    change: Change
    schema_changed: bool | None  # None: a metadata file that would tell is gone
    rows: int | None  # after it
    size: int | None

    def to_dict(self) -> dict[str, Any]:
        """What `mere show --history --json` prints of it."""
        commit = {name: value for name, value in self.commit.to_dict().items() if name != "changes"}
        about = {"schema_changed": self.schema_changed, "rows": self.rows, "bytes": self.size}
        return {"commit": commit, **self.change.to_dict(), **about}


def describe(tables: TableSet, table: str) -> Description:
    metadata = tables.metadata(table)
    describe_it = _view if tables.is_view(table) else _table
    return describe_it(table, metadata)


def _table(table: str, metadata: Metadata) -> Description:
    schema, current = metadata.schema, metadata.current
    return Description(
        table=table,
        kind=Kind.TABLE,
        pointer=metadata.location,
        location=metadata.folder,
        uuid=metadata.uuid,
        format_version=metadata.format_version,
        columns=tuple(fields(schema)),
        key=key_of(metadata),
        partitioning=partitioning(metadata),
        sort_order=sort_order(metadata),
        properties=_settings(metadata),
        state=metadata.properties.get(STATE),
        rows=metadata.rows,
        rows_are_exact=current is None or current.count("total-equality-deletes") == 0,
        size=metadata.size,
        data_files=metadata.files,
        delete_files=current.count("total-delete-files") if current else 0,
        snapshots=tuple(_line(snapshot, metadata) for snapshot in reversed(metadata.snapshots)),
    )


def _view(view: str, metadata: Metadata) -> Description:
    sql, dialect = view_sql(metadata)
    return Description(
        table=view,
        kind=Kind.VIEW,
        pointer=metadata.location,
        location=metadata.folder,
        uuid=metadata.uuid,
        format_version=metadata.format_version,
        columns=tuple(fields(metadata.schema)),
        key=key_of(metadata),
        partitioning=(),
        sort_order=(),
        properties=_settings(metadata),
        state=metadata.properties.get(STATE),
        sql=sql,
        dialect=dialect,
    )


def _settings(metadata: Metadata) -> dict[str, str]:
    """Properties, without what mere itself keeps there."""
    return {name: value for name, value in sorted(metadata.properties.items()) if name not in OWN}


def _line(snapshot: Snapshot, metadata: Metadata) -> SnapshotLine:
    at = datetime.fromtimestamp(snapshot.at_ms / 1000, UTC)
    is_current = metadata.current is not None and metadata.current.id == snapshot.id
    return SnapshotLine(snapshot.id, snapshot.parent, at, snapshot.operation, snapshot.stats, snapshot.rows, is_current)


# Through time


def history(lake: Premises, table: str, ref: str) -> Iterator[Moment]:
    """The table at each commit that changed it, newest first."""
    key = Key.of(TableName.parse(table))
    for commit in lake.log(ref, table):
        for change in commit.changes:
            if change.key == key:
                yield _moment(lake.reader, commit, change)


def _moment(reader: MetadataReader, commit: Commit, change: Change) -> Moment:
    old, new = (readable(reader, entry) for entry in (change.old, change.new))
    unread = (change.old and old is None) or (change.new and new is None)
    changed = None if unread else list(fields(old.schema) if old else ()) != list(fields(new.schema) if new else ())
    is_table = new is not None and change.new is not None and change.new.kind is Kind.TABLE
    return Moment(
        commit, change, changed, new.rows if new and is_table else None, new.size if new and is_table else None
    )
