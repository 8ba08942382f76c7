"""The files that differ between two snapshots of a table, each side as a small table of its own.

A data file that both snapshots have, and to which the same deletes apply, holds the same rows in both: it need not be
read to compare them. What remains on one side is written as a metadata file with manifests of its own, into a folder of
this machine, that name only these files: so engines read them as they read any table, with its deletes, its renamed
columns and its defaults. No data file is copied.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from mere.lake.iceberg import avro
from mere.lake.iceberg.manifests import (
    ADDED,
    DELETE_FILE,
    DELETED,
    EXISTING,
    FILE,
    ByPath,
    File,
    Identity,
    Manifest,
    Manifests,
    file_of,
    lost_partitionings,
)
from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.storage.port import Storage

_NAME_MAPPING = "schema.name-mapping.default"
_STATUSES = {EXISTING: "existing", ADDED: "added", DELETED: "deleted"}


@dataclass
class _Side:
    metadata: Metadata
    snapshot: Snapshot
    reader: Manifests
    manifests: list[Manifest] = field(default_factory=list)
    data: dict[Identity, File] = field(default_factory=dict)
    times: Counter[Identity] = field(default_factory=Counter)  # that a data file is listed
    deletes: dict[Identity, File] = field(default_factory=dict)

    def list_manifests(self) -> None:
        self.manifests = self.reader.listed(self.snapshot)

    def read_deletes(self) -> None:
        for manifest in self.manifests:
            if manifest.deletes:
                self.deletes.update((each.id, each) for each in self._files(manifest, DELETE_FILE))

    def read_data(self, known: set[str]) -> None:
        for manifest in self.manifests:
            if not manifest.deletes and manifest.path not in known:
                for each in self._files(manifest, FILE):
                    self.times[each.id] += 1
                    self.data[each.id] = each

    def _files(self, manifest: Manifest, wanted: Sequence[str]) -> Iterator[File]:
        return (file_of(entry, manifest) for entry in self.reader.live(manifest, *wanted))


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
    reader = Manifests(table, storage)
    sides = _Side(old, old.current, reader), _Side(new, new.current, reader)
    for side in sides:
        side.list_manifests()
    if any(lost_partitionings(side.metadata) & {each.spec for each in side.manifests} for side in sides):
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
    shared = {id_ for id_, times in first.times.items() if second.times[id_] == times}
    data = ByPath(first.data[id_] for id_ in shared)
    untouched = shared - {file.id for each in differing for file in data.touched_by(each)}
    return _write(first, untouched, known, folder), _write(second, untouched, known, folder)


def _write(side: _Side, untouched: set[Identity], known: set[str], folder: Path) -> Part:
    wanted = {id_ for id_ in side.data if id_ not in untouched}
    if not wanted:
        return Part(None, set(), 0, 0)
    data = ByPath(side.data[id_] for id_ in wanted)
    deletes = {id_ for id_, each in side.deletes.items() if data.touched_by(each)}
    read = [*data.files, *(side.deletes[id_] for id_ in deletes)]
    parts = {
        each.path: _write_manifest(side, each, wanted | deletes, folder)
        for each in side.manifests
        if each.path not in known
    }

    def listed(record: avro.Record) -> avro.Record | None:
        changes = parts.get(record["manifest_path"])
        return {**record, **{name: value for name, value in changes.items() if name in record}} if changes else None

    assert side.snapshot.manifest_list
    content = avro.rewrite(side.reader.storage.read(side.snapshot.manifest_list), listed)
    location = _new(folder, "avro", content)
    kinds, count, size = {file.kind for file in read}, sum(side.times[id_] for id_ in wanted), sum(f.size for f in read)
    return Part(_new(folder, "metadata.json", _metadata(side, location)), kinds, count, size)


def _write_manifest(side: _Side, manifest: Manifest, wanted: set[Identity], folder: Path) -> avro.Record | None:
    """The manifest with these files alone: what has to be said of it in the manifest list; None if it has none."""
    counts: Counter[str] = Counter()

    def kept(entry: avro.Record) -> avro.Record | None:
        if entry["status"] == DELETED or manifest.identity(entry) not in wanted:
            return None
        status = _STATUSES[entry["status"]]
        counts[f"{status}_files_count"] += 1
        counts[f"{status}_rows_count"] += entry["data_file"]["record_count"]
        return entry

    content = avro.rewrite(side.reader.storage.read(manifest.path), kept)
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
