"""What one table or view is, told by its metadata file alone: no manifest and no data file is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mere.errors import LakeError
from mere.lake.iceberg.keys import KEY, key_names
from mere.lake.iceberg.metadata import Json, Metadata, MetadataReader, Snapshot
from mere.lake.log.commits import Change, Commit, Entry, Key, Kind, Stats
from mere.lake.refs.guards import current_version
from mere.names import TableName

if TYPE_CHECKING:
    from mere.lake.lake import Lake
    from mere.lake.query.tables import TableSet

STATE = "mere.state"  # the property in which a model keeps what it was built from
LINEAGE = "mere.lineage"  # and what the columns of a PySpark model are made of
OWN = (STATE, LINEAGE, KEY)  # what mere keeps for itself, and tells in other words


@dataclass(frozen=True)
class Field:
    """A column, or a field inside of one: then its name is its whole path, such as `address.city`."""

    id: int
    name: str
    type: str
    required: bool
    comment: str | None


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


@dataclass(frozen=True)
class Moment:
    """The table at one commit that changed it."""

    commit: Commit
    change: Change
    schema_changed: bool | None  # None: a metadata file that would tell is gone
    rows: int | None  # after it
    size: int | None


def describe(tables: TableSet, table: str) -> Description:
    metadata = tables.metadata(table)
    describe_it = _view if tables.is_view(table) else _table
    return describe_it(table, metadata)


def _table(table: str, metadata: Metadata) -> Description:
    schema, current = schema_of(metadata), metadata.current
    return Description(
        table=table,
        kind=Kind.TABLE,
        pointer=metadata.location,
        location=metadata.raw.get("location"),
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
        location=metadata.raw.get("location"),
        uuid=metadata.uuid,
        format_version=metadata.format_version,
        columns=tuple(fields(schema_of(metadata))),
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


# The parts of a metadata file, in the words of Iceberg's SQL


def schema_of(metadata: Metadata) -> Json:
    schemas: list[Json] = metadata.raw.get("schemas") or [metadata.raw.get("schema", {"fields": []})]
    wanted = metadata.raw.get("current-schema-id", 0)
    if "versions" in metadata.raw:
        wanted = current_version(metadata).get("schema-id", 0)
    return next((schema for schema in schemas if schema.get("schema-id", 0) == wanted), schemas[-1])


def fields(schema: Json, prefix: str = "") -> Iterator[Field]:
    """All fields of a schema, each followed by those inside of it."""
    for field in schema.get("fields", []):
        name = prefix + field["name"]
        yield Field(field["id"], name, type_text(field["type"]), field.get("required", False), field.get("doc"))
        yield from _inner(field["type"], f"{name}.")


def _inner(type_: Any, prefix: str) -> Iterator[Field]:
    if not isinstance(type_, dict):
        return
    if type_["type"] == "struct":
        yield from fields(type_, prefix)
    for part in ("element", "key", "value"):
        if part in type_:
            required = part == "key" or type_.get(f"{part}-required", False)
            yield Field(type_[f"{part}-id"], prefix + part, type_text(type_[part]), required, None)
            yield from _inner(type_[part], f"{prefix}{part}.")


def type_text(type_: Any) -> str:
    if not isinstance(type_, dict):
        return str(type_)
    if type_["type"] == "list":
        return f"list<{type_text(type_['element'])}>"
    if type_["type"] == "map":
        return f"map<{type_text(type_['key'])}, {type_text(type_['value'])}>"
    inner = ", ".join(f"{field['name']}: {type_text(field['type'])}" for field in type_.get("fields", []))
    return f"struct<{inner}>"


def key_of(metadata: Metadata) -> tuple[str, ...]:
    """As the property `mere.key` says, or else the identifier fields; none if one of them is no column of its own."""
    schema = schema_of(metadata)
    names = tuple(key_names(metadata.properties)) or identifier(schema)
    return names if {field["name"] for field in schema["fields"]}.issuperset(names) else ()


def identifier(schema: Json) -> tuple[str, ...]:
    names = {field.id: field.name for field in fields(schema)}
    return tuple(names[id_] for id_ in schema.get("identifier-field-ids", []) if id_ in names)


def partitioning(metadata: Metadata) -> tuple[str, ...]:
    return partitionings(metadata).get(metadata.raw.get("default-spec-id", 0), ())


def partitionings(metadata: Metadata) -> dict[int, tuple[str, ...]]:
    """Of all files, those of before a change too: by the id of the spec."""
    oldest = {"spec-id": 0, "fields": metadata.raw.get("partition-spec", [])}
    specs: list[Json] = metadata.raw.get("partition-specs") or [oldest]
    names = _names(metadata)
    return {
        spec.get("spec-id", 0): tuple(
            _transform(each, names) for each in spec.get("fields", []) if each.get("transform") != "void"
        )
        for spec in specs
    }


def sort_order(metadata: Metadata) -> tuple[str, ...]:
    current = metadata.raw.get("default-sort-order-id", 0)
    orders: list[Json] = metadata.raw.get("sort-orders", [])
    order = next((each for each in orders if each.get("order-id") == current), None)
    names = _names(metadata)
    return tuple(_ordered(each, names) for each in (order or {}).get("fields", []))


def _ordered(part: Json, names: Mapping[int, str]) -> str:
    words = [_transform(part, names), part.get("direction", "asc"), part.get("null-order", "").replace("-", " ")]
    return " ".join(filter(None, words))


def _names(metadata: Metadata) -> dict[int, str]:
    """Of all schemas: an order may stand on a column that was dropped."""
    schemas: Sequence[Json] = metadata.raw.get("schemas", [])
    older = {field.id: field.name for schema in schemas for field in fields(schema)}
    return older | {field.id: field.name for field in fields(schema_of(metadata))}


def _transform(part: Json, names: Mapping[int, str]) -> str:
    ids = part.get("source-ids") or [part.get("source-id")]
    column = ", ".join(names.get(id_, f"field {id_}") for id_ in ids)
    transform = str(part.get("transform", "identity"))
    return column if transform == "identity" else f"{transform}({column})"


def view_sql(metadata: Metadata) -> tuple[str | None, str | None]:
    """The SQL of a view and its dialect; the first of its representations if there are several."""
    found = current_version(metadata).get("representations") or [{}]
    return found[0].get("sql"), found[0].get("dialect")


# Through time


def history(lake: Lake, table: str, ref: str) -> Iterator[Moment]:
    """The table at each commit that changed it, newest first."""
    key = Key.of(TableName.parse(table))
    for commit in lake.log(ref, table):
        for change in commit.changes:
            if change.key == key:
                yield _moment(lake.reader, commit, change)


def _moment(reader: MetadataReader, commit: Commit, change: Change) -> Moment:
    old, new = (_readable(reader, entry) for entry in (change.old, change.new))
    unread = (change.old and old is None) or (change.new and new is None)
    changed = (
        None if unread else list(fields(schema_of(old)) if old else ()) != list(fields(schema_of(new)) if new else ())
    )
    is_table = new is not None and change.new is not None and change.new.kind is Kind.TABLE
    return Moment(
        commit, change, changed, new.rows if new and is_table else None, new.size if new and is_table else None
    )


def _readable(reader: MetadataReader, entry: Entry | None) -> Metadata | None:
    """A commit is shown even where its files were swept."""
    try:
        return reader.read(entry.value) if entry else None
    except LakeError:
        return None
