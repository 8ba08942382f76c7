"""The files that differ between two snapshots of one table, each side as a small table of its own.

A data file that both snapshots have, and to which the same deletes apply, holds the same rows in both: it need not be
read to compare them. What remains on one side is written as a metadata file with manifests of its own, into a folder of
this machine, that name only these files: so engines read them as they read any table, with its deletes, its renamed
columns and its defaults. No data file is copied.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from mere.lake.iceberg import avro, files, manifests
from mere.lake.iceberg.deletes import PATH_ID
from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.storage.port import Storage

_EQUALITY_DELETES = 2
_FIELDS = (
    "status",
    "sequence_number",
    "data_file.content",
    "data_file.file_path",
    "data_file.file_format",
    "data_file.file_size_in_bytes",
)
_DELETE_FIELDS = (
    *_FIELDS,
    "data_file.lower_bounds",
    "data_file.upper_bounds",
    "data_file.referenced_data_file",
    "data_file.content_offset",
)
_NAME_MAPPING = "schema.name-mapping.default"
_STATUSES = {0: "existing", 1: "added", files.DELETED: "deleted"}

Identity = tuple[str, int, int | None]  # path, sequence number, and offset for one of several vectors in a file


@dataclass(frozen=True)
class _File:
    """A live data or delete file."""

    id: Identity
    kind: str
    content: int
    size: int
    # The data files that a position delete may name lie between these paths; None: it may be any.
    first: bytes | None = None
    last: bytes | None = None

    @property
    def bounds(self) -> tuple[bytes, bytes] | None:
        if self.content == _EQUALITY_DELETES or self.first is None or self.last is None:
            return None
        return self.first, self.last

    def may_touch(self, paths: Sequence[bytes]) -> bool:
        """Whether it may delete rows of one of these data files, which come in order."""
        if self.bounds is None:
            return bool(paths)
        first, last = self.bounds
        at = bisect_left(paths, first)
        return at < len(paths) and paths[at] <= last


@dataclass(frozen=True)
class _Manifest:
    path: str
    length: int
    sequence: int
    deletes: bool
    partitioning: int | None


@dataclass
class _Side:
    table: str
    metadata: Metadata
    snapshot: Snapshot
    storage: Storage
    manifests: list[_Manifest] = field(default_factory=list)
    data: Counter[Identity] = field(default_factory=Counter)
    deletes: dict[Identity, _File] = field(default_factory=dict)
    kinds: dict[Identity, str] = field(default_factory=dict)
    sizes: dict[Identity, int] = field(default_factory=dict)

    def list_manifests(self) -> None:
        wanted = ("manifest_path", "manifest_length", "content", "sequence_number", "partition_spec_id")
        assert self.snapshot.manifest_list
        for each in manifests.records(self.table, self.storage, self.snapshot.manifest_list, None, *wanted):
            deletes = each.get("content", 0) == 1
            sequence = each.get("sequence_number") or 0
            path, length, partitioning = each["manifest_path"], each["manifest_length"], each.get("partition_spec_id")
            self.manifests.append(_Manifest(path, length, sequence, deletes, partitioning))

    def read_deletes(self) -> None:
        for manifest in self.manifests:
            if manifest.deletes:
                self.deletes.update((each.id, each) for each in self._files(manifest, _DELETE_FIELDS))

    def read_data(self, known: set[str]) -> None:
        for manifest in self.manifests:
            if not manifest.deletes and manifest.path not in known:
                for each in self._files(manifest, _FIELDS):
                    self.data[each.id] += 1
                    self.kinds[each.id] = each.kind
                    self.sizes[each.id] = each.size

    def _files(self, manifest: _Manifest, wanted: Sequence[str]) -> Iterator[_File]:
        for entry in manifests.records(self.table, self.storage, manifest.path, manifest.length, *wanted):
            if entry["status"] != files.DELETED:
                yield _file(entry, manifest)


def _file(entry: avro.Record, manifest: _Manifest) -> _File:
    found = entry["data_file"]
    content = found.get("content") or 0
    referenced = found.get("referenced_data_file")
    if referenced:
        first = last = referenced.encode()
    else:
        first, last = _bound(found.get("lower_bounds")), _bound(found.get("upper_bounds"))
    return _File(_identity(entry, manifest), manifests.kind(found), content, found["file_size_in_bytes"], first, last)


def _identity(entry: avro.Record, manifest: _Manifest) -> Identity:
    sequence = entry.get("sequence_number")
    found = entry["data_file"]
    # A file that was added by its snapshot has the sequence number of its manifest.
    return found["file_path"], manifest.sequence if sequence is None else sequence, found.get("content_offset")


def _bound(bounds: list[avro.Record] | None) -> bytes | None:
    return next((each["value"] for each in bounds or [] if each["key"] == PATH_ID), None)


@dataclass(frozen=True)
class Part:
    """The touched files of one side. `location` is that of its metadata file, or None if there are no such files."""

    location: str | None
    kinds: set[str]
    count: int
    size: int  # in bytes, with that of the delete files that apply to them


def touched(table: str, old: Metadata, new: Metadata, storage: Storage, folder: Path) -> tuple[Part, Part] | str:
    """What differs, old and new; or in words, why all of both has to be read."""
    if old.uuid is None or old.uuid != new.uuid:
        return "they are two tables of one name"
    if old.properties.get(_NAME_MAPPING) != new.properties.get(_NAME_MAPPING):
        return "the mapping from names to columns was changed"
    if old.current is None or new.current is None:
        return "one of them is empty"
    if not old.current.manifest_list or not new.current.manifest_list:
        return "a snapshot has no manifest list"
    sides = _Side(table, old, old.current, storage), _Side(table, new, new.current, storage)
    for side in sides:
        side.list_manifests()
    if any(
        each.partitioning in manifests.lost_partitionings(side.metadata) for side in sides for each in side.manifests
    ):
        return "files are partitioned by a column that was dropped"
    for side in sides:
        side.read_deletes()
    first, second = sides
    differing = [
        side.deletes[id_]
        for side in sides
        for id_ in first.deletes.keys() ^ second.deletes.keys()
        if id_ in side.deletes
    ]
    # Where the deletes are the same, the files of a manifest that both have are the same, too.
    known = set() if differing else {each.path for each in first.manifests} & {each.path for each in second.manifests}
    for side in sides:
        side.read_data(known)
    shared = {id_ for id_, count in first.data.items() if second.data[id_] == count}
    untouched = shared - _hit(differing, shared)
    return _write(first, untouched, known, folder), _write(second, untouched, known, folder)


def _hit(deletes: Sequence[_File], data: set[Identity]) -> set[Identity]:
    """The data files of which one of these delete files may delete rows."""
    in_order = sorted((id_[0].encode(), id_) for id_ in data) if deletes else []
    paths = [path for path, _ in in_order]
    hit: set[Identity] = set()
    for each in deletes:
        if each.bounds is None:
            return data
        span = slice(bisect_left(paths, each.bounds[0]), bisect_right(paths, each.bounds[1]))
        hit.update(id_ for _, id_ in in_order[span])
    return hit


def _write(side: _Side, untouched: set[Identity], known: set[str], folder: Path) -> Part:
    wanted = {id_ for id_ in side.data if id_ not in untouched}
    if not wanted:
        return Part(None, set(), 0, 0)
    paths = sorted({id_[0].encode() for id_ in wanted})
    deletes = {id_ for id_, each in side.deletes.items() if each.may_touch(paths)}
    kinds = {side.kinds[id_] for id_ in wanted} | {side.deletes[id_].kind for id_ in deletes}
    parts = {
        each.path: _write_manifest(side, each, wanted | deletes, folder)
        for each in side.manifests
        if each.path not in known
    }

    def listed(record: avro.Record) -> avro.Record | None:
        changes = parts.get(record["manifest_path"])
        return {**record, **{name: value for name, value in changes.items() if name in record}} if changes else None

    assert side.snapshot.manifest_list
    content = avro.rewrite(side.storage.read(side.snapshot.manifest_list), listed)
    location = _new(folder, "avro", content)
    count = sum(side.data[id_] for id_ in wanted)
    size = sum(side.sizes[id_] for id_ in wanted) + sum(side.deletes[id_].size for id_ in deletes)
    return Part(_new(folder, "metadata.json", _metadata(side, location)), kinds, count, size)


def _write_manifest(side: _Side, manifest: _Manifest, wanted: set[Identity], folder: Path) -> avro.Record | None:
    """The manifest with these files alone: what has to be said of it in the manifest list; None if it has none."""
    counts: Counter[str] = Counter()

    def kept(entry: avro.Record) -> avro.Record | None:
        if entry["status"] == files.DELETED or _identity(entry, manifest) not in wanted:
            return None
        status = _STATUSES[entry["status"]]
        counts[f"{status}_files_count"] += 1
        counts[f"{status}_rows_count"] += entry["data_file"]["record_count"]
        return entry

    content = avro.rewrite(side.storage.read(manifest.path), kept)
    if not counts:
        return None
    names = [f"{status}_{what}_count" for status in _STATUSES.values() for what in ("files", "rows")]
    location = _new(folder, "avro", content)
    return {"manifest_path": location, "manifest_length": len(content)} | {name: counts[name] for name in names}


def _metadata(side: _Side, manifest_list: str) -> bytes:
    raw = side.metadata.raw
    snapshots = [each for each in raw["snapshots"] if each["snapshot-id"] == side.snapshot.id]
    without = {"statistics", "partition-statistics", "snapshot-log", "metadata-log", "refs"}
    kept = {name: value for name, value in raw.items() if name not in without}
    return orjson.dumps({**kept, "snapshots": [{**snapshots[0], "manifest-list": manifest_list}]})


def _new(folder: Path, ending: str, content: bytes) -> str:
    path = folder / f"{uuid.uuid4()}.{ending}"
    path.write_bytes(content)
    return str(path)
