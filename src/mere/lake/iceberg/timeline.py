"""The files of one table, each with the instants of the table's time column that it may contain.

Partition values tell them first, then the bounds of the column, both from manifests; no data file is opened here.
Every manifest is read once: snapshots share them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from mere.errors import LakeError, UsageError
from mere.lake.iceberg import avro, manifests
from mere.lake.iceberg.manifests import (
    ADDED,
    DELETE_FILE,
    DELETED,
    EQUALITY_DELETES,
    Manifest,
    Manifests,
    Partition,
    file_of,
)
from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.storage.port import Storage
from mere.names import near
from mere.windows import Span, Spans

TIME_TYPES = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_ENTRY = (
    *DELETE_FILE,
    "snapshot_id",
    "data_file.partition",
    "data_file.record_count",
    "data_file.null_value_counts",
    "data_file.equality_ids",
)


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
class File(manifests.File):
    times: Spans | None  # that may be in it; of an equality delete, of the rows it deletes. None: nobody knows
    nulls: int | None  # rows without a time; None: nobody knows


@dataclass(frozen=True)
class Step:
    """What one snapshot added and removed."""

    added: tuple[File, ...]
    removed: tuple[File, ...]


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
        self._reader = Manifests(table, storage)
        self._manifests: dict[int, list[Manifest]] = {}
        self._entries: dict[str, list[_Entry]] = {}

    def live(self, snapshot: Snapshot | None) -> list[File]:
        """The data and delete files of a snapshot."""
        return [
            entry.file
            for manifest in (self._listed(snapshot) if snapshot else ())
            for entry in self._read(manifest)
            if entry.status != DELETED
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
            tuple(entry.file for entry in entries if entry.status == ADDED),
            tuple(entry.file for entry in entries if entry.status == DELETED),
        )

    @cached_property
    def unpartitioned(self) -> frozenset[int]:
        """The specs by which a table is not partitioned: deletes by value that were written so hold everywhere."""
        return frozenset(
            id_ for id_, fields in self.metadata.specs.items() if all(field["transform"] == "void" for field in fields)
        )

    def _listed(self, snapshot: Snapshot) -> list[Manifest]:
        if snapshot.id not in self._manifests:
            if not snapshot.manifest_list:
                raise LakeError(f"Snapshot {snapshot.id} of {self.table} has no manifest list.")
            self._manifests[snapshot.id] = self._reader.listed(snapshot)
        return self._manifests[snapshot.id]

    def _read(self, manifest: Manifest) -> list[_Entry]:
        if manifest.path not in self._entries:
            found = self._reader.entries(manifest, *_ENTRY)
            self._entries[manifest.path] = [self._entry(each, manifest) for each in found]
        return self._entries[manifest.path]

    def _entry(self, entry: avro.Record, manifest: Manifest) -> _Entry:
        file, snapshot = file_of(entry, manifest), entry.get("snapshot_id")
        times, nulls = self._times(entry["data_file"], file.partition)
        timed = File(
            *(file.id, file.content, file.format, file.partition, file.rows, file.size, times, nulls),
            first=file.first,
            last=file.last,
        )
        return _Entry(entry["status"], manifest.snapshot if snapshot is None else snapshot, timed)

    def _times(self, file: avro.Record, partition: Partition) -> tuple[Spans | None, int | None]:
        column, rows = self.column, file["record_count"]
        if rows == 0:
            return Spans(), 0
        if column is None:
            return None, None
        lower, upper = (_by_id(file.get(side)) for side in ("lower_bounds", "upper_bounds"))
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
        fields = self.metadata.specs.get(spec, [])
        if self.column is None or len(fields) != len(values):
            return None
        found: Spans | None = None
        for field, value in zip(fields, values, strict=True):
            if (field.get("source-ids") or [field.get("source-id")]) != [self.column.id]:
                continue
            span = _of_transform(field["transform"], value, self.column)
            found = span if found is None or span is None else found & span
        return found


def time_column(table: str, metadata: Metadata, name: str) -> TimeColumn:
    """By its present name, whatever it was called before; without regard to case if that leaves no doubt, as in SQL."""
    fields = metadata.schema["fields"]
    found = [field for field in fields if field["name"] == name]
    found = found or [field for field in fields if field["name"].casefold() == name.casefold()]
    if len(found) != 1:
        raise UsageError(
            f"{table} has no column {name} to use as its time.{near(name, [field['name'] for field in fields])}",
            remedy="A time column is a column of the table itself, not a nested one.",
        )
    type_ = found[0]["type"]
    if type_ not in TIME_TYPES:
        shown = type_ if isinstance(type_, str) else type_["type"]
        raise UsageError(
            f"{table}.{name} cannot be a time column: it is a {shown}.",
            remedy="A time column is a date or a timestamp.",
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
