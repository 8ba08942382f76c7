"""What the manifests of a snapshot list: metadata → manifest list → manifests → files.

Read strictly: a file of this tree that cannot be read, or that was cut short, is an error and never an empty branch.
What lies behind it may be somebody's data.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

from mere.errors import LakeUnreadable, MetadataMissing, QueryError
from mere.lake.iceberg import avro
from mere.lake.iceberg.deletes import PATH_ID
from mere.lake.iceberg.metadata import Json, Metadata, Snapshot
from mere.lake.storage.port import Storage, readable

EXISTING, ADDED, DELETED = range(3)  # the status of an entry; the last only says what a snapshot removed
DATA, POSITION_DELETES, EQUALITY_DELETES = range(3)  # the content of a file

# What files are, for who reads them: their format, or one of these.
BY_VALUE = "equality deletes"
LOST_PARTITION = "files by a dropped column"

_LISTED = ("manifest_path", "manifest_length", "content", "sequence_number", "added_snapshot_id", "partition_spec_id")
_STATUS = "status"
_KIND = ("data_file.content", "data_file.file_format")
FILE = (
    "sequence_number",
    "data_file.content",
    "data_file.file_path",
    "data_file.file_format",
    "data_file.file_size_in_bytes",
    "data_file.content_offset",
)
DELETE_FILE = (*FILE, "data_file.lower_bounds", "data_file.upper_bounds", "data_file.referenced_data_file")
_SMALL = 1_000_000  # bytes of a manifest whose thousands of entries are decoded in a quarter of a second

Identity = tuple[str, int, int | None]  # path, sequence number, and offset for one of several vectors in a file
Partition = tuple[int, tuple[Any, ...]]  # the id of its spec, and the values


@dataclass(frozen=True)
class Manifest:
    """A manifest as the list of a snapshot names it."""

    path: str
    length: int | None
    deletes: bool  # it lists delete files
    sequence: int
    snapshot: int  # that added it
    spec: int

    def identity(self, entry: avro.Record) -> Identity:
        found, sequence = entry["data_file"], entry.get("sequence_number")
        # A file that was added by its snapshot has the sequence number of its manifest.
        return found["file_path"], self.sequence if sequence is None else sequence, found.get("content_offset")


@dataclass(frozen=True)
class File:
    """A data or delete file, as far as it was asked for."""

    id: Identity
    content: int
    format: str
    partition: Partition
    rows: int
    size: int
    # The data files that position deletes name lie between these paths; None: they may be any.
    first: bytes | None = field(default=None, kw_only=True)
    last: bytes | None = field(default=None, kw_only=True)

    @property
    def path(self) -> str:
        return self.id[0]

    @property
    def kind(self) -> str:
        return BY_VALUE if self.content == EQUALITY_DELETES else self.format


F = TypeVar("F", bound=File)


class ByPath(Generic[F]):
    """Data files in the order of their paths, in which delete files find those that they name."""

    def __init__(self, files: Iterable[F]) -> None:
        found = sorted(((file.path.encode(), file) for file in files), key=lambda pair: pair[0])
        self.files = [file for _, file in found]
        self._paths = [path for path, _ in found]

    def named_by(self, delete: File) -> Sequence[F] | None:
        """None: it does not say which."""
        if delete.first is None or delete.last is None:
            return None
        return self.files[bisect_left(self._paths, delete.first) : bisect_right(self._paths, delete.last)]

    def touched_by(self, delete: File) -> Sequence[F]:
        """Those of which it may delete rows."""
        named = self.named_by(delete)
        return self.files if named is None else named


def file_of(entry: avro.Record, manifest: Manifest) -> File:
    found = entry["data_file"]
    content = found.get("content") or DATA
    named: tuple[bytes | None, bytes | None] = (None, None)
    if content == POSITION_DELETES:
        referenced = found.get("referenced_data_file")
        bounds = (_bound(found.get(side)) for side in ("lower_bounds", "upper_bounds"))
        first, last = (referenced.encode(),) * 2 if referenced else bounds
        named = first, last
    return File(
        manifest.identity(entry),
        content,
        found["file_format"].upper(),
        (manifest.spec, tuple((found.get("partition") or {}).values())),
        found.get("record_count", 0),
        found["file_size_in_bytes"],
        first=named[0],
        last=named[1],
    )


def _bound(bounds: list[avro.Record] | None) -> bytes | None:
    return next((each["value"] for each in bounds or [] if each["key"] == PATH_ID), None)


def listed(storage: Storage, snapshot: Snapshot) -> list[Manifest]:
    """The manifests in the list of a snapshot, which must have one."""
    return [
        Manifest(
            each["manifest_path"],
            each.get("manifest_length"),
            bool(each.get("content")),
            each.get("sequence_number") or 0,
            each.get("added_snapshot_id") or 0,
            each.get("partition_spec_id") or 0,
        )
        for each in list_records(storage, snapshot, *_LISTED)
    ]


def list_records(storage: Storage, snapshot: Snapshot, *wanted: str) -> list[avro.Record]:
    """The list of a snapshot, which must have one, with the fields that are wanted."""
    location = snapshot.manifest_list
    assert location
    content = storage.read(location)
    with readable(location):
        found = list(avro.records(content, *wanted))
    if not found and snapshot.count("total-data-files"):
        raise LakeUnreadable(f"{location} is cut short: it names no manifest, though its snapshot has data files.")
    return found


def entries(storage: Storage, location: str, length: int | None, *wanted: str) -> Iterator[avro.Record]:
    """All of a manifest, with their status: what a snapshot removed may still be live in an older one."""
    content = storage.read(location)
    with readable(location):
        # An Avro file that was cut between two blocks reads well, and only lacks entries.
        if length and length != len(content):
            raise avro.NotAvro(f"it has {len(content)} bytes instead of {length}")
        yield from avro.records(content, _STATUS, *wanted)


@dataclass(frozen=True)
class Manifests:
    """Those of one table, whose name stands in whatever goes wrong."""

    table: str
    storage: Storage

    def listed(self, snapshot: Snapshot) -> list[Manifest]:
        with named(self.table):
            return listed(self.storage, snapshot)

    def entries(self, manifest: Manifest, *wanted: str) -> Iterator[avro.Record]:
        with named(self.table):
            yield from entries(self.storage, manifest.path, manifest.length, *wanted)

    def live(self, manifest: Manifest, *wanted: str) -> Iterator[avro.Record]:
        return (entry for entry in self.entries(manifest, *wanted) if entry["status"] != DELETED)

    def files(self, metadata: Metadata) -> Iterator[File]:
        """All that are live in the current snapshot, delete files among them."""
        snapshot = metadata.current
        for manifest in self.listed(snapshot) if snapshot and snapshot.manifest_list else ():
            for entry in self.live(manifest, *FILE):
                yield file_of(entry, manifest)


def file_kinds(table: str, metadata: Metadata, storage: Storage, snapshot: Snapshot | None = None) -> set[str]:
    """What a snapshot's data and delete files are, by its manifests: all of them are read for it. Without one, those of
    the current one."""
    snapshot = snapshot or metadata.current
    if snapshot is None or snapshot.manifest_list is None:
        return set()
    kinds: set[str] = set()
    reader = Manifests(table, storage)
    lost = lost_partitionings(metadata)
    for manifest in reader.listed(snapshot):
        kinds.update({LOST_PARTITION} if manifest.spec in lost else ())
        live = (_kind(entry["data_file"]) for entry in reader.live(manifest, *_KIND))
        # Engines write all data files of a table in one format; delete files come in several.
        thorough = manifest.deletes or (manifest.length or 0) <= _SMALL
        kinds.update(live if thorough else islice(live, 1))
    return kinds


def _kind(file: avro.Record) -> str:
    format_: str = file["file_format"]
    return BY_VALUE if file.get("content") == EQUALITY_DELETES else format_.upper()


def lost_partitionings(metadata: Metadata) -> set[int]:
    """The ids of those that name a column which was dropped since."""
    known = set(_ids(metadata.schema))
    return {
        id_
        for id_, spec in metadata.specs.items()
        if any(each["source-id"] not in known for each in spec if "source-id" in each)
    }


def _ids(struct: Json) -> Iterator[int]:
    """Of all columns by which a table can be partitioned: those in lists and maps are none."""
    for column in struct["fields"]:
        yield column["id"]
        if isinstance(column["type"], dict) and column["type"].get("type") == "struct":
            yield from _ids(column["type"])


@contextmanager
def named(table: str) -> Iterator[None]:
    """What cannot be read in here is a file of this table."""
    try:
        yield
    except MetadataMissing as error:
        raise MetadataMissing(f"{table} cannot be read: {error.message}", remedy=error.remedy) from error
    except LakeUnreadable as error:
        raise damaged(table, error.message) from error


def damaged(table: str, why: str) -> QueryError:
    return QueryError(
        f"{table} cannot be read: {why}",
        remedy="Put the file back from a backup, or read an older commit of the table with --at.",
    )
