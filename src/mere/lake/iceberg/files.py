"""The files that a metadata file reaches: metadata → manifest lists → manifests → data, delete and statistics files.

Deleting files requires knowing all that are needed. So a file of this tree that cannot be read is an error and never
an empty branch: what lies behind it may be somebody's data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from mere.errors import LakeUnreadable
from mere.lake.iceberg.manifests import DELETED, Manifest, entries, listed
from mere.lake.iceberg.metadata import Json, Metadata, MetadataReader, Snapshot
from mere.lake.storage.port import Storage, canonical, readable

NEWEST_FORMAT = 3


class Reach:
    """The files reached by all the metadata files that were added.

    Snapshots share manifests, and metadata files share snapshots: each file of the tree is read once.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._files: dict[str, int] = {}  # with how many were reached before it
        self._folders: dict[str, str] = {}

    def __contains__(self, location: str) -> bool:
        return self.normal(location) in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def position(self, location: str) -> int | None:
        """How many files were reached before this one; None if it is not reached."""
        return self._files.get(self.normal(location))

    def normal(self, location: str) -> str:
        """One spelling for each file, whether it is named by path or URI, straight or through a link to its folder."""
        path = canonical(location)
        if not path.startswith("/"):
            return path
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return f"{self._folders[folder].rstrip('/')}/{name}"

    def add(self, pointer: str) -> None:
        # The older metadata files in its metadata-log are not reached: no engine reads them to read the table. One
        # that a ref or a commit still needs has a pointer of its own.
        if not self._first_visit(pointer):
            return
        metadata = read_metadata(self._storage, pointer)
        for snapshot in snapshots(metadata):
            if snapshot.get("manifest-list"):
                with readable(pointer):
                    found = Snapshot(snapshot)
                self._add_list(found)
            else:
                for manifest in snapshot["manifests"]:
                    self._add_manifest(manifest, None)
        for location in statistics(metadata):
            self._first_visit(location)

    def _add_list(self, snapshot: Snapshot) -> None:
        if self._first_visit(snapshot.manifest_list or ""):
            for manifest in listed(self._storage, snapshot):
                self._add_manifest(manifest.path, manifest.length)

    def _add_manifest(self, location: str, length: int | None) -> None:
        if not self._first_visit(location):
            return
        with readable(location):
            for entry in entries(self._storage, location, length, "data_file.file_path"):
                # What a snapshot removed may still be live in an older one, whose own manifests then name it.
                if entry["status"] != DELETED:
                    self._first_visit(entry["data_file"]["file_path"])

    def _first_visit(self, location: str) -> bool:
        normal = self.normal(location)
        new = normal not in self._files
        self._files.setdefault(normal, len(self._files))
        return new


def brought(storage: Storage, before: Metadata | None, after: Metadata) -> Iterator[str]:
    """The files that new snapshots add to a table: their manifest lists, the manifests that their parents lack, and the
    files in these. What the table had before is left out, so little is read."""
    known = {snapshot.id for snapshot in before.snapshots} if before is not None else set()
    for snapshot in after.snapshots:
        if snapshot.id in known:
            continue
        parent = after.snapshot(snapshot.parent) if snapshot.parent in known else None
        older = {each.path for each in listed(storage, parent)} if parent and parent.manifest_list else set()
        yield snapshot.manifest_list or ""
        for manifest in listed(storage, snapshot):
            if manifest.spec not in after.specs:
                raise LakeUnreadable(f"{manifest.path} has the partitioning {manifest.spec}, which the table lacks.")
            if manifest.path not in older:
                yield manifest.path
                yield from _live(storage, manifest)
        known.add(snapshot.id)


def _live(storage: Storage, manifest: Manifest) -> Iterator[str]:
    with readable(manifest.path):
        for entry in entries(storage, manifest.path, manifest.length, "data_file.file_path"):
            if entry["status"] != DELETED:
                yield entry["data_file"]["file_path"]


def read_metadata(storage: Storage, pointer: str) -> Metadata:
    """Read without a cache: a sweep may pass through more metadata files than fit into memory."""
    metadata = MetadataReader(storage).read(pointer)
    with readable(pointer):
        if metadata.format_version > NEWEST_FORMAT or "format-version" not in metadata.raw:
            raise ValueError(f"its format version is {metadata.raw.get('format-version')}")
    return Metadata(pointer, metadata.raw)


def snapshots(metadata: Metadata) -> Iterator[Json]:
    """The snapshots of a table, each with a manifest list or, in the first format, with manifests; a view has none."""
    with readable(metadata.location):
        for snapshot in metadata.raw.get("snapshots") or []:
            if not (snapshot.get("manifest-list") or isinstance(snapshot.get("manifests"), list)):
                raise ValueError(f"snapshot {snapshot.get('snapshot-id')} has no manifests")
            yield snapshot


def statistics(metadata: Metadata) -> Iterator[str]:
    with readable(metadata.location):
        for kind in ("statistics", "partition-statistics"):
            for each in metadata.raw.get(kind) or []:
                yield each["statistics-path"]
