"""Fixes a lake whose files were moved or copied (`mere relocate`) to another folder, bucket or prefix.

Iceberg keeps absolute paths: in metadata files, manifest lists, manifests and delete files. Each of them that names a
path under the old folder is written again, under a new name beside the old file; data files stay as they are. Then one
transaction swaps all pointers. Until then the lake is what it was, and a crash leaves only files that nothing points
to, for the sweep.
"""

from __future__ import annotations

import gzip
import json
import posixpath
import re
import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from mere.config import S3Settings, is_s3
from mere.errors import LakeError, MetadataMissing
from mere.lake import faults
from mere.lake.iceberg import avro
from mere.lake.iceberg.deletes import PATH_ID, moved_positions, moved_vectors
from mere.lake.iceberg.files import read_metadata, snapshots
from mere.lake.iceberg.manifests import DELETED, POSITION_DELETES
from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.place.mainfile import remember
from mere.lake.place.places import DATABASE, claim, disown, open_store, require_own
from mere.lake.storage import storage_at
from mere.lake.storage.port import Storage, canonical, place, readable, split_scheme
from mere.lake.store.port import Store
from mere.lake.store.sqlite.store import SqliteStore

Progress = Callable[[int, int], None]  # metadata files done, and to be done

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True)
class Relocation:
    """What was mended."""

    old_root: str
    root: str
    lake_id: str
    copied: bool  # the lake is still at its old place too, so that this one got an id of its own
    pointers: int
    files: int  # written
    size: int  # of these, in bytes

    @property
    def moved(self) -> bool:
        return self.old_root != self.root


@dataclass(frozen=True)
class Move:
    """From the old folder to the new one; what lies elsewhere stays where it is."""

    old: str
    new: str

    def __call__(self, location: str) -> str:
        path = canonical(location)
        if path == self.old or path.startswith(f"{self.old}/"):
            # Who wrote file: may want to read it; of S3 there is one spelling that all engines know.
            scheme = "" if is_s3(self.new) else split_scheme(location)[0]
            return scheme + self.new + path[len(self.old) :]
        return location


def relocate(
    path: str | PathLike[str],
    *,
    catalog: str | None = None,
    s3: S3Settings | None = None,
    progress: Progress | None = None,
) -> Relocation:
    """Make a lake that was moved or copied whole again, where it now is. One that was not moved is left alone."""
    root = place(path)
    storage = storage_at(root, s3)
    store = open_store(root, storage, catalog)
    try:
        old_root, lake_id = store.root, store.lake_id
        if old_root == root:
            return Relocation(old_root, old_root, lake_id, copied=False, pointers=0, files=0, size=0)
        require_own(storage, root, lake_id)
        # A catalog in another place is not copied with the folder.
        copied = catalog is None and _is_at(Path(old_root) / DATABASE, Path(root) / DATABASE, lake_id)
        lake_id = secrets.token_hex(16) if copied else lake_id
        rewriter = Rewriter(storage, Move(old_root, root))
        pointers = store.pointers()
        moved = rewriter.move(pointers, progress)
        faults.point("relocate.written")
        if store.pointers() != pointers:
            raise LakeError(
                "Somebody wrote to this lake while its paths were being fixed. No pointer was changed.",
                remedy="Stop the writer and run mere relocate again.",
            )
        if copied:
            disown(storage, root)
        store.repoint(_named(store, rewriter.relocated) | moved, root, lake_id)
        claim(storage, root, lake_id)
        remember(storage, root, store)
        return Relocation(old_root, root, lake_id, copied, len(moved), rewriter.files, rewriter.size)
    finally:
        store.close()


def _is_at(old: Path, new: Path, lake_id: str) -> bool:
    """Whether the same lake is still at its old place, and that is not just another name of the new place."""
    try:
        if not old.is_file() or old.samefile(new):
            return False
        original = SqliteStore.open(old)
    except (LakeError, OSError):
        return False
    original.close()
    return original.lake_id == lake_id


def _named(store: Store, move: Move) -> dict[str, str]:
    """All else in the database that names a place: properties of namespaces, and pointers that have expired."""
    changes = [change for commit in store.with_changes(store.all_commits()) for change in commit.changes]
    values = {entry.value for change in changes for entry in (change.old, change.new) if entry}
    return {value: move(value) for value in values if move(value) != value}


@dataclass(frozen=True)
class _Copy:
    """Where a file is now, and how long it is."""

    location: str
    length: int


class Rewriter:
    """Writes every file again that names a moved path, each once however many others share it."""

    def __init__(self, storage: Storage, relocated: Move) -> None:
        self.relocated = relocated
        self.files = 0
        self.size = 0
        self._storage = storage
        self._lists: dict[str, str] = {}
        self._manifests: dict[str, _Copy] = {}
        self._deletes: dict[str, Mapping[str, Any]] = {}
        self._present: set[str] = set()

    def move(self, pointers: set[str], progress: Progress | None = None) -> dict[str, str]:
        """The new location of each metadata file that had to change. The names are chosen first: logs use them."""
        names = {pointer: _fresh(self.relocated(pointer)) for pointer in sorted(pointers)}
        moved = {}
        for done, (pointer, name) in enumerate(names.items()):
            if progress:
                progress(done, len(names))
            if self._metadata(pointer, name, names):
                moved[pointer] = name
        if progress:
            progress(len(names), len(names))
        return moved

    def _metadata(self, pointer: str, name: str, names: Mapping[str, str]) -> bool:
        at = self.relocated(pointer)
        metadata = read_metadata(self._storage, at)
        raw = {**metadata.raw, **self._changes(metadata, names)}
        if raw == metadata.raw and at == pointer:
            return False
        content = json.dumps(raw, separators=(",", ":")).encode()
        # Engines know by its name whether a file is compressed, and the new name ends like the old.
        self._write(name, gzip.compress(content) if ".gz" in posixpath.basename(name) else content)
        return True

    def _changes(self, metadata: Metadata, names: Mapping[str, str]) -> Json:
        """The parts of a metadata file that name places."""
        raw = metadata.raw
        changed: Json = {}
        with readable(metadata.location):
            if "location" in raw:
                changed["location"] = self.relocated(raw["location"])
            if "properties" in raw:
                changed["properties"] = {key: self.relocated(value) for key, value in raw["properties"].items()}
            if "metadata-log" in raw:
                changed["metadata-log"] = [
                    {**each, "metadata-file": names.get(each["metadata-file"], self.relocated(each["metadata-file"]))}
                    for each in raw["metadata-log"]
                ]
            for kind in {"statistics", "partition-statistics"} & raw.keys():
                changed[kind] = [
                    {**each, "statistics-path": self.relocated(each["statistics-path"])} for each in raw[kind]
                ]
            if "snapshots" in raw:
                changed["snapshots"] = [self._snapshot(snapshot) for snapshot in snapshots(metadata)]
        return changed

    def _snapshot(self, snapshot: Json) -> Json:
        if listed := snapshot.get("manifest-list"):
            return {**snapshot, "manifest-list": self._manifest_list(listed)}
        return {**snapshot, "manifests": [self._manifest(each).location for each in snapshot["manifests"]]}

    def _manifest_list(self, location: str) -> str:
        def change(entry: avro.Record) -> avro.Record:
            copy = self._manifest(entry["manifest_path"])
            return {**entry, "manifest_path": copy.location, "manifest_length": copy.length}

        if location not in self._lists:
            self._lists[location] = self._avro(location, change).location
        return self._lists[location]

    def _manifest(self, location: str) -> _Copy:
        if location not in self._manifests:
            self._manifests[location] = self._avro(location, self._entry)
        return self._manifests[location]

    def _avro(self, location: str, change: Callable[[avro.Record], avro.Record]) -> _Copy:
        at = self.relocated(location)
        content = self._storage.read(at)
        changed = False

        def noted(record: avro.Record) -> avro.Record:
            nonlocal changed
            new = change(record)
            changed = changed or new != record
            return new

        with readable(at):
            rewritten = avro.rewrite(content, noted)
        if not changed:
            return _Copy(at, len(content))
        return _Copy(self._write(_fresh(at), rewritten), len(rewritten))

    def _entry(self, entry: avro.Record) -> avro.Record:
        old: Json = entry["data_file"]
        new = {**old, "file_path": self.relocated(old["file_path"])}
        if old.get("referenced_data_file"):
            new["referenced_data_file"] = self.relocated(old["referenced_data_file"])
        live = entry["status"] != DELETED
        if live:
            self._require(new["file_path"], old["file_path"])
        if old.get("content") == POSITION_DELETES and (live or self._is_present(new["file_path"])):
            new |= self._position_deletes(new)
        return {**entry, "data_file": new}

    def _require(self, location: str, old: str) -> None:
        if location != old and not self._is_present(location):
            raise MetadataMissing(
                f"{location} is missing, though a table needs it. No pointer was changed.",
                remedy=f"Copy it from {old}, and run mere relocate again.",
            )

    def _is_present(self, location: str) -> bool:
        if location not in self._present and self._storage.exists(location):
            self._present.add(location)
        return location in self._present

    def _position_deletes(self, file: Json) -> Mapping[str, Any]:
        """What changes in a manifest's entry for a position delete file, once its content names the new places."""
        location: str = file["file_path"]
        if location not in self._deletes:
            self._deletes[location] = self._rewritten_deletes(location, file["file_format"])
        changed = dict(self._deletes[location])
        for bound in ("lower_bounds", "upper_bounds"):
            if bound in changed:
                pairs, value = file.get(bound), changed[bound]
                changed[bound] = pairs and [
                    {**pair, "value": value} if pair["key"] == PATH_ID else pair for pair in pairs
                ]
        return changed

    def _rewritten_deletes(self, location: str, file_format: str) -> Mapping[str, Any]:
        rewrite = {"PARQUET": self._moved_positions, "PUFFIN": self._moved_vectors}.get(file_format.upper())
        if rewrite is None:
            raise LakeError(
                f"{location} has position deletes in {file_format}, which mere cannot rewrite. No pointer was changed.",
                remedy="Move the lake back, compact the table with Spark's rewrite_data_files, and move it again.",
            )
        content = self._storage.read(location)
        with readable(location):
            return rewrite(location, content)

    def _moved_positions(self, location: str, content: bytes) -> Mapping[str, Any]:
        new = moved_positions(content, self.relocated)
        if new is None:
            return {}
        return {
            "file_path": self._write(_fresh(location), new.content),
            "file_size_in_bytes": len(new.content),
            "split_offsets": new.split_offsets,
            "lower_bounds": new.first.encode(),
            "upper_bounds": new.last.encode(),
        }

    def _moved_vectors(self, location: str, content: bytes) -> Mapping[str, Any]:
        new = moved_vectors(content, self.relocated)
        if new is None:
            return {}
        return {"file_path": self._write(_fresh(location), new), "file_size_in_bytes": len(new)}

    def _write(self, location: str, content: bytes) -> str:
        self._storage.write_new(location, content)
        self.files += 1
        self.size += len(content)
        faults.point("relocate.file")
        return location


def _fresh(location: str) -> str:
    """A name beside a file that is like its own: of metadata, the number is kept from which the next writer counts."""
    folder, name = posixpath.split(location)
    fresh, replaced = _UUID.subn(str(uuid.uuid4()), name, count=1)
    return posixpath.join(folder, fresh if replaced else f"{uuid.uuid4()}-{name}")
