"""The files of one table, each with the instants of the table's time column that may be in it.

Partition values tell them first, then the bounds of the column, both from manifests; no data file is opened here.
Every manifest is read once: snapshots share them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from mere.errors import LakeError, UsageError
from mere.lake.iceberg import avro, files, manifests
from mere.lake.iceberg.deletes import PATH_ID
from mere.lake.iceberg.metadata import Json, Metadata, Snapshot
from mere.lake.iceberg.schema import schema_of
from mere.lake.storage.port import Storage
from mere.names import near
from mere.windows import Span, Spans

DATA, POSITION_DELETES, EQUALITY_DELETES = range(3)
TIME_TYPES = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")

_ADDED = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_LISTED = ("manifest_path", "manifest_length", "content", "sequence_number", "added_snapshot_id", "partition_spec_id")
_ENTRY = (
    "status",
    "snapshot_id",
    "sequence_number",
    "data_file.content",
    "data_file.file_path",
    "data_file.file_format",
    "data_file.partition",
    "data_file.record_count",
    "data_file.file_size_in_bytes",
    "data_file.referenced_data_file",
    "data_file.content_offset",
)
_METRICS = ("null_value_counts", "lower_bounds", "upper_bounds", "equality_ids")

Identity = tuple[str, int, int | None]  # path, sequence number, and offset for one of several vectors in a file
Partition = tuple[int, tuple[Any, ...]]  # the id of its spec, and the values


@dataclass(frozen=True)
class TimeColumn:
    id: int
    name: str
    type: str

    @property
    def ticks(self) -> int:
        """How many of its units make a microsecond."""
        return 1000 if self.type.endswith("_ns") else 1


@dataclass(frozen=True)
class File:
    id: Identity
    content: int
    format: str
    partition: Partition
    rows: int
    size: int
    times: Spans | None  # that may be in it; of an equality delete, of the rows it deletes. None: nobody knows
    nulls: int | None  # rows without a time; None: nobody knows
    # The data files that position deletes name lie between these paths; None: they may be any.
    first: bytes | None = None
    last: bytes | None = None

    @property
    def path(self) -> str:
        return self.id[0]


@dataclass(frozen=True)
class Step:
    """What one snapshot added and removed."""

    added: tuple[File, ...]
    removed: tuple[File, ...]


@dataclass(frozen=True)
class _Manifest:
    path: str
    length: int
    sequence: int
    snapshot: int
    spec: int


@dataclass(frozen=True)
class _Entry:
    status: int
    snapshot: int
    file: File


class Timeline:
    """`column` of None: only which files there are is of interest."""

    def __init__(self, table: str, metadata: Metadata, column: str | None, storage: Storage) -> None:
        self.table = table
        self.metadata = metadata
        self.storage = storage
        self.column = time_column(table, metadata, column) if column is not None else None
        self._manifests: dict[int, list[_Manifest]] = {}
        self._entries: dict[str, list[_Entry]] = {}

    def live(self, snapshot: Snapshot | None) -> list[File]:
        """The data and delete files of a snapshot."""
        return [
            entry.file
            for manifest in (self._listed(snapshot) if snapshot else ())
            for entry in self._read(manifest)
            if entry.status != files.DELETED
        ]

    def step(self, snapshot: Snapshot) -> Step:
        entries = [
            entry
            for manifest in self._listed(snapshot)
            if manifest.snapshot == snapshot.id
            for entry in self._read(manifest)
            if entry.snapshot == snapshot.id
        ]
        return Step(
            tuple(entry.file for entry in entries if entry.status == _ADDED),
            tuple(entry.file for entry in entries if entry.status == files.DELETED),
        )

    @cached_property
    def unpartitioned(self) -> frozenset[int]:
        """The specs by which a table is not partitioned: deletes by value that were written so hold everywhere."""
        return frozenset(
            id_ for id_, fields in self._specs.items() if all(field["transform"] == "void" for field in fields)
        )

    def _listed(self, snapshot: Snapshot) -> list[_Manifest]:
        if snapshot.id not in self._manifests:
            if not snapshot.manifest_list:
                raise LakeError(f"Snapshot {snapshot.id} of {self.table} has no manifest list.")
            self._manifests[snapshot.id] = [
                _Manifest(
                    each["manifest_path"],
                    each["manifest_length"],
                    each.get("sequence_number") or 0,
                    each.get("added_snapshot_id") or 0,
                    each.get("partition_spec_id") or 0,
                )
                for each in manifests.records(self.table, self.storage, snapshot.manifest_list, None, *_LISTED)
            ]
        return self._manifests[snapshot.id]

    def _read(self, manifest: _Manifest) -> list[_Entry]:
        if manifest.path not in self._entries:
            wanted = (*_ENTRY, *(f"data_file.{name}" for name in _METRICS))
            found = manifests.records(self.table, self.storage, manifest.path, manifest.length, *wanted)
            self._entries[manifest.path] = [self._entry(each, manifest) for each in found]
        return self._entries[manifest.path]

    def _entry(self, entry: avro.Record, manifest: _Manifest) -> _Entry:
        found, sequence, snapshot = entry["data_file"], entry.get("sequence_number"), entry.get("snapshot_id")
        content = found.get("content") or 0
        lower, upper = (_by_id(found.get(side)) for side in ("lower_bounds", "upper_bounds"))
        referenced = found.get("referenced_data_file")
        named = (referenced.encode(),) * 2 if referenced else (lower.get(PATH_ID), upper.get(PATH_ID))
        partition = manifest.spec, tuple((found.get("partition") or {}).values())
        times, nulls = self._times(found, partition, lower, upper)
        file = File(
            # A file that was added by its snapshot has the sequence number of its manifest.
            (found["file_path"], manifest.sequence if sequence is None else sequence, found.get("content_offset")),
            content,
            found["file_format"].upper(),
            partition,
            found["record_count"],
            found["file_size_in_bytes"],
            times,
            nulls,
            *(named if content == POSITION_DELETES else (None, None)),
        )
        return _Entry(entry["status"], manifest.snapshot if snapshot is None else snapshot, file)

    def _times(
        self, file: avro.Record, partition: Partition, lower: Mapping[int, bytes], upper: Mapping[int, bytes]
    ) -> tuple[Spans | None, int | None]:
        column, rows = self.column, file["record_count"]
        if rows == 0:
            return Spans(), 0
        if column is None:
            return None, None
        if file.get("content") == EQUALITY_DELETES and column.id not in (file.get("equality_ids") or ()):
            lower, upper = {}, {}
        by_partition = self._by_partition(partition)
        counts = _by_id(file.get("null_value_counts"))
        nulls = 0 if by_partition else counts.get(column.id)
        if by_partition == Spans() or (nulls is not None and nulls >= rows):
            return Spans(), rows
        bounds = _between(lower.get(column.id), upper.get(column.id), column)
        if by_partition is None or bounds is None:
            return bounds if by_partition is None else by_partition, nulls
        return (by_partition & bounds) or by_partition, nulls

    def _by_partition(self, partition: Partition) -> Spans | None:
        """Empty: a partition of rows without a time."""
        spec, values = partition
        fields = self._specs.get(spec, [])
        if self.column is None or len(fields) != len(values):
            return None
        found: Spans | None = None
        for field, value in zip(fields, values, strict=True):
            if (field.get("source-ids") or [field.get("source-id")]) != [self.column.id]:
                continue
            span = _of_transform(field["transform"], value, self.column)
            found = span if found is None or span is None else found & span
        return found

    @cached_property
    def _specs(self) -> dict[int, list[Json]]:
        raw = self.metadata.raw
        specs = raw.get("partition-specs") or [{"spec-id": 0, "fields": raw.get("partition-spec", [])}]
        return {spec["spec-id"]: spec["fields"] for spec in specs}


def time_column(table: str, metadata: Metadata, name: str) -> TimeColumn:
    """By its present name, whatever it was called before; without regard to case if that leaves no doubt, as in SQL."""
    fields = schema_of(metadata)["fields"]
    found = [field for field in fields if field["name"] == name]
    found = found or [field for field in fields if field["name"].casefold() == name.casefold()]
    if len(found) != 1:
        raise UsageError(
            f"{table} has no column {name} to tell time by.{near(name, [field['name'] for field in fields])}",
            remedy="The time column is a column of the table itself, not one inside of another.",
        )
    type_ = found[0]["type"]
    if type_ not in TIME_TYPES:
        shown = type_ if isinstance(type_, str) else type_["type"]
        raise UsageError(
            f"{table}.{name} cannot tell time: it is a {shown}.", remedy="A time column is a date or a timestamp."
        )
    return TimeColumn(found[0]["id"], found[0]["name"], type_)


def _by_id(pairs: list[avro.Record] | None) -> dict[int, Any]:
    return {each["key"]: each["value"] for each in pairs or ()}


# Values as spans. What lies beyond Python's calendar is not known to lie anywhere.


def _between(lower: bytes | None, upper: bytes | None, column: TimeColumn) -> Spans | None:
    first, last = _of_bound(lower, column), _of_bound(upper, column)
    return Spans.of([Span(first.start, last.end)]) if first and last and first.start < last.end else None


def _of_bound(value: bytes | None, column: TimeColumn) -> Span | None:
    if value is None or len(value) not in (4, 8):
        return None
    number = int.from_bytes(value, "little", signed=True)
    # A column that was a date may have become a timestamp since.
    return _day(number) if len(value) == 4 else _tick(number, column)


def _of_transform(transform: str, value: int | None, column: TimeColumn) -> Spans | None:
    if transform not in ("identity", "hour", "day", "month", "year"):
        return None
    if value is None:
        return Spans()
    match transform:
        case "identity":
            span = _day(value) if column.type == "date" else _tick(value, column)
        case "hour":
            span = _since_epoch(value, _HOUR)
        case "day":
            span = _day(value)
        case "month":
            span = _months(value, value + 1)
        case _:
            span = _months(12 * value, 12 * (value + 1))
    return None if span is None else Spans((span,))


def _tick(value: int, column: TimeColumn) -> Span | None:
    return _since_epoch(value // column.ticks, _MICROSECOND)


def _day(value: int) -> Span | None:
    return _since_epoch(value, _DAY)


def _since_epoch(value: int, unit: timedelta) -> Span | None:
    try:
        return _usable(_EPOCH + value * unit, _EPOCH + (value + 1) * unit)
    except OverflowError:
        return None


def _months(first: int, last: int) -> Span | None:
    try:
        start, end = (datetime(1970 + month // 12, month % 12 + 1, 1, tzinfo=UTC) for month in (first, last))
    except ValueError:
        return None
    return _usable(start, end)


def _usable(start: datetime, end: datetime) -> Span | None:
    """The windows at either end of the calendar have no next or no first instant."""
    return Span(start, end) if start.year > datetime.min.year and end.year < datetime.max.year else None
