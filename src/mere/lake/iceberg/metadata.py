"""Iceberg table and view metadata, read as the JSON that it is.

A metadata file never changes, so it is read once per process. Only what refs need is looked at; reading tables is the
engines' work.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import re
import time
import uuid
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import orjson

from mere.errors import LakeUnreadable
from mere.lake.iceberg.keys import identified
from mere.lake.iceberg.properties import KEY
from mere.lake.log.commits import Stats
from mere.lake.storage.port import Storage

Json = dict[str, Any]

_KNOWN = 5000
_GZIP = b"\x1f\x8b"
_LARGEST = 256 << 20  # bytes of a file that comes compressed
_DIGITS = 20  # more than any number of 64 bits has
# In JSON a quote inside of a string has a backslash before it, so that these are nothing but keys; and of objects with
# keys of the user's own, the values are strings.
_CURRENT = re.compile(rb'"current-snapshot-id"\s*:\s*(-?\d+)')
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"\\]+)"')


class Snapshot:
    def __init__(self, raw: Json) -> None:
        self.id: int = raw["snapshot-id"]
        self.parent: int | None = raw.get("parent-snapshot-id")
        self.at_ms: int = raw.get("timestamp-ms", 0)
        self.summary: Mapping[str, str] = raw.get("summary", {})
        self.manifest_list: str | None = raw.get("manifest-list")
        self.schema: int | None = raw.get("schema-id")

    @property
    def operation(self) -> str:
        return self.summary.get("operation", "unknown")

    def count(self, name: str) -> int:
        """Engines write it, and users may write over it: what is no number counts for nothing."""
        found = str(self.summary.get(name, 0))
        return int(found) if found.isascii() and found.isdigit() and len(found) < _DIGITS else 0

    @property
    def stats(self) -> Stats:
        """A rewritten file counts its deleted rows again and takes their deletes back; a compaction moves no rows."""
        files = self.count("added-data-files"), self.count("deleted-data-files")
        if self.operation == "replace":
            return Stats(0, 0, *files)
        deleted = self.count("deleted-records")
        deleted += self.count("added-position-deletes") - self.count("removed-position-deletes")
        return Stats(self.count("added-records"), max(deleted, 0), *files)

    @property
    def rows(self) -> int:
        return self.count("total-records") - self.count("total-position-deletes")


class Metadata:
    """One metadata file, of a table or of a view."""

    def __init__(self, location: str, raw: Json, past: int | None = None) -> None:
        self.location = location
        self.raw = raw
        self.past = past  # the snapshot that is read instead of the one that the file says is current

    @property
    def properties(self) -> Mapping[str, str]:
        properties: Mapping[str, str] = self.raw.get("properties", {})
        return properties

    @property
    def format_version(self) -> int:
        return int(self.raw.get("format-version", 1))

    @property
    def uuid(self) -> str | None:
        found: str | None = self.raw.get("table-uuid") or self.raw.get("view-uuid")
        return found

    @property
    def is_view(self) -> bool:
        return "view-uuid" in self.raw

    @property
    def is_whole(self) -> bool:
        """Whether it says what every table and view has: where its files are, and its columns."""
        return bool(self.folder and (self.raw.get("schemas") or self.raw.get("schema")))

    @property
    def is_early(self) -> bool:
        """Format 1 as it was written at first, which today's readers no longer know."""
        listed = all(each.get("manifest-list") for each in self.raw.get("snapshots") or [])
        return not (listed and self.raw.keys() >= {"table-uuid", "schemas", "partition-specs"})

    @property
    def is_encrypted(self) -> bool:
        by_property = any(name.startswith("encryption.") for name in self.properties)
        by_key = any("key-id" in each for each in self.raw.get("snapshots") or [])
        return by_property or by_key or bool(self.raw.get("encryption-keys"))

    @property
    def folder(self) -> str | None:
        """Where the files of the table are."""
        found: str | None = self.raw.get("location")
        return found

    @cached_property
    def schemas(self) -> dict[int, Json]:
        """All that it ever had, by id."""
        found: list[Json] = self.raw.get("schemas") or [self.raw.get("schema", {"fields": []})]
        return {each.get("schema-id", 0): each for each in found}

    @property
    def schema_id(self) -> int:
        """Of the current schema; of a view, of the one with which it was made."""
        id_: int = self.view_version.get("schema-id", 0) if self.is_view else self.raw.get("current-schema-id", 0)
        return id_

    @property
    def schema(self) -> Json:
        """The current one."""
        schemas = self.schemas
        return schemas.get(self.schema_id) or [*schemas.values()][-1]

    @property
    def columns(self) -> list[str]:
        """The names of the current schema's."""
        return [field["name"] for field in self.schema["fields"]]

    @cached_property
    def specs(self) -> dict[int, list[Json]]:
        """The fields by which files are partitioned, those of before a change too: by the id of the spec."""
        found: list[Json] = self.raw.get("partition-specs") or [{"fields": self.raw.get("partition-spec", [])}]
        return {each.get("spec-id", 0): each.get("fields", []) for each in found}

    @property
    def spec_id(self) -> int:
        id_: int = self.raw.get("default-spec-id", 0)
        return id_

    @property
    def order_id(self) -> int:
        id_: int = self.raw.get("default-sort-order-id", 0)
        return id_

    @property
    def order(self) -> list[Json]:
        """The fields by which rows are sorted, as far as engines sort them."""
        orders: list[Json] = self.raw.get("sort-orders", [])
        return next((each.get("fields", []) for each in orders if each.get("order-id") == self.order_id), [])

    @property
    def view_version(self) -> Json:
        """Of a view, what it is now."""
        id_ = self.raw["current-version-id"]
        version: Json = next(each for each in self.raw["versions"] if each["version-id"] == id_)
        return version

    def with_view_version(self, version: Json) -> Metadata:
        """The next version of this metadata, in which a view is this now."""
        present = self.view_version
        versions = [version if each is present else each for each in self.raw["versions"]]
        return self.successor({**self.raw, "versions": versions})

    @property
    def log(self) -> list[Json]:
        """The earlier metadata files, as far as they are remembered."""
        found: list[Json] = self.raw.get("metadata-log", [])
        return found

    @property
    def updated_ms(self) -> int:
        versions = [each["timestamp-ms"] for each in self.raw.get("versions", ())]  # of a view
        found: int = self.raw.get("last-updated-ms", max(versions, default=0))
        return found

    @cached_property
    def _snapshots(self) -> dict[int, Json]:
        return {raw["snapshot-id"]: raw for raw in self.raw.get("snapshots", [])}

    @property
    def snapshots(self) -> list[Snapshot]:
        """All of them, oldest first."""
        return [Snapshot(raw) for raw in self._snapshots.values()]

    def snapshot(self, id_: int | None) -> Snapshot | None:
        raw = None if id_ is None else self._snapshots.get(id_)
        return Snapshot(raw) if raw else None

    @property
    def current(self) -> Snapshot | None:
        return self.snapshot(self.raw.get("current-snapshot-id"))

    @property
    def current_id(self) -> int | None:
        """Of the current snapshot; of a view, of its version."""
        if self.is_view:
            version: int | None = self.raw.get("current-version-id")
            return version
        return self.current.id if self.current else None

    @property
    def updated_at(self) -> datetime:
        """When it was written, by its engine's clock."""
        return datetime.fromtimestamp(self.updated_ms / 1000, UTC)

    @property
    def rows(self) -> int:
        return self.current.rows if self.current else 0

    @property
    def size(self) -> int:
        return self.current.count("total-files-size") if self.current else 0

    @property
    def files(self) -> int:
        return self.current.count("total-data-files") if self.current else 0

    def since(self, ancestor: int | None) -> list[Snapshot] | None:
        """The snapshots from the current one back to an ancestor (excluded), or None if it is not one."""
        found: list[Snapshot] = []
        snapshot = self.current
        while snapshot is not None:
            if snapshot.id == ancestor:
                return found
            found.append(snapshot)
            snapshot = self.snapshot(snapshot.parent)
        return found if ancestor is None else None

    def at(self, snapshot: int | None) -> Metadata | None:
        """The table as it was at a snapshot, with the columns that it has now; None if that is gone."""
        raw = None if snapshot is None else self._snapshots.get(snapshot)
        if raw is None:
            return None
        as_now = {**raw, "schema-id": self.schema_id}
        return Metadata(self.location, {**self.raw, "snapshots": [as_now], "current-snapshot-id": snapshot})

    def as_of(self, snapshot: int) -> Metadata | None:
        """The table as it was at a snapshot, with the columns that it had then; None if that is gone."""
        raw = self._snapshots.get(snapshot)
        if raw is None or self.is_view:
            return None
        then = {"snapshots": [raw], "current-snapshot-id": snapshot, "snapshot-log": [], "refs": {}}
        columns = {"current-schema-id": raw["schema-id"]} if raw.get("schema-id") in self.schemas else {}
        return Metadata(self.location, {**self.raw, **then, **columns}, snapshot)

    @property
    def version(self) -> int:
        number = re.match(r"(\d+)-", posixpath.basename(self.location))
        return int(number[1]) if number else 0

    def successor(self, raw: Json) -> Metadata:
        """The next version of this metadata, with a location beside it; not yet written."""
        name = f"{self.version + 1:05d}-{uuid.uuid4()}.metadata.json"
        return Metadata(posixpath.join(posixpath.dirname(self.location), name), raw)

    def with_properties(self, changes: Mapping[str, str | None]) -> Metadata:
        """The next version, in which these are set, or removed where they are None. With a key go identifier fields."""
        properties = {name: value for name, value in {**self.properties, **changes}.items() if value is not None}
        raw = {**self.raw, "properties": properties}
        if "table-uuid" in raw:
            log = [*raw.get("metadata-log", [])]
            log.append({"timestamp-ms": raw["last-updated-ms"], "metadata-file": self.location})
            raw |= {
                "metadata-log": log,
                "last-updated-ms": max(int(time.time() * 1000), raw["last-updated-ms"]),
            }
        return self.successor(identified(raw) if KEY in changes else raw)

    def to_bytes(self) -> bytes:
        content = orjson.dumps(self.raw)
        return gzip.compress(content) if ".gz." in self.location else content


def unpacked(location: str, content: bytes) -> bytes:
    """The JSON of a metadata file, which may be compressed: a small file whose content is a huge one is refused before
    it fills the memory."""
    if content[:2] != _GZIP:
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(_LARGEST + 1)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise LakeUnreadable(f"{location} is not Iceberg metadata: {error}.") from error
    if len(found) > _LARGEST:
        raise LakeUnreadable(f"{location} is not Iceberg metadata: it is larger than {_LARGEST >> 20} MB.")
    return found


def parsed(location: str, content: bytes) -> Json:
    try:
        raw = orjson.loads(content)
    except ValueError as error:
        raise LakeUnreadable(f"{location} is not Iceberg metadata: {error}.") from error
    if not isinstance(raw, dict):
        raise LakeUnreadable(f"{location} is not Iceberg metadata: it holds no JSON object.")
    return raw


class MetadataReader:
    """Reads metadata files through a storage, each once."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._known: dict[str, Metadata] = {}

    def read(self, location: str) -> Metadata:
        known = self._known.get(location)
        return known or self._parsed(location, self.storage.read(location))

    def growth(self, old: str, new: Metadata) -> Stats:
        """Rows and files added and removed since the old file. A publish asks that of hundreds of tables: all that it
        has to know of the old one, nearly always, is its snapshot, and to look for that takes a tenth of parsing it."""
        if old not in self._known:
            content = self.storage.read(old)
            uuids, snapshots = _UUID.findall(content), _CURRENT.findall(content)
            forward = new.since(int(snapshots[0])) if len(uuids) == len(snapshots) == 1 else None
            if forward is not None and uuids[0].decode() == new.uuid:
                return _sum(forward)
            self._parsed(old, content)
        return growth(self.read(old), new)

    def _parsed(self, location: str, content: bytes) -> Metadata:
        if location not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()  # a process that lives long must not keep every metadata file it ever saw
            self._known[location] = Metadata(location, parsed(location, unpacked(location, content)))
        return self._known[location]

    def write(self, metadata: Metadata) -> str:
        self.storage.write_new(metadata.location, metadata.to_bytes())
        self._known[metadata.location] = metadata
        return metadata.location


def growth(old: Metadata | None, new: Metadata | None) -> Stats:
    """Rows and files added and removed on the way from one metadata file to another of the same name."""
    if old and new and old.uuid == new.uuid:
        if (forward := new.since(old.current_id)) is not None:
            return _sum(forward)
        if (backward := old.since(new.current_id)) is not None:
            undone = _sum(backward)
            return Stats(undone.rows_removed, undone.rows_added, undone.files_removed, undone.files_added)
    return Stats(
        rows_added=new.rows if new else 0,
        rows_removed=old.rows if old else 0,
        files_added=new.files if new else 0,
        files_removed=old.files if old else 0,
    )


def _sum(snapshots: list[Snapshot]) -> Stats:
    if len(snapshots) == 1:
        return snapshots[0].stats
    return Stats(*map(sum, zip(*(snapshot.stats for snapshot in snapshots), strict=True))) if snapshots else Stats()
