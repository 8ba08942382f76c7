"""What the manifests of a snapshot list: read strictly, an entry that cannot be read is an error."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mere.errors import LakeUnreadable, MetadataMissing, QueryError
from mere.lake.iceberg import avro, files
from mere.lake.iceberg.metadata import Json, Metadata, Snapshot
from mere.lake.storage.port import Storage

_EQUALITY_DELETES = "equality deletes"
_ENTRY = ("data_file.content", "data_file.file_format")
_DELETES = 1  # the content of a manifest that lists delete files
_SMALL = 1_000_000  # bytes of a manifest whose thousands of entries are decoded in a quarter of a second
_LOST_PARTITION = "files by a dropped column"


def file_kinds(table: str, metadata: Metadata, storage: Storage, snapshot: Snapshot | None = None) -> set[str]:
    """What a snapshot's data and delete files are, by its manifests: all of them are read for it. Without one, those of
    the current one."""
    snapshot = snapshot or metadata.current
    if snapshot is None or snapshot.manifest_list is None:
        return set()
    kinds: set[str] = set()
    fields = ("manifest_path", "manifest_length", "content", "partition_spec_id")
    lost = lost_partitionings(metadata)
    for manifest in records(table, storage, snapshot.manifest_list, None, *fields):
        kinds.update({_LOST_PARTITION} if manifest.get("partition_spec_id") in lost else ())
        length = manifest["manifest_length"]
        entries = records(table, storage, manifest["manifest_path"], length, "status", *_ENTRY)
        live = (entry["data_file"] for entry in entries if entry["status"] != files.DELETED)
        # Engines write all data files of a table in one format; delete files come in several.
        thorough = manifest.get("content", 0) == _DELETES or length <= _SMALL
        kinds.update(map(kind, live if thorough else islice(live, 1)))
    return kinds


def lost_partitionings(metadata: Metadata) -> set[int]:
    """The ids of those that name a column which was dropped since."""
    schemas = {each["schema-id"]: each for each in metadata.raw.get("schemas", [])}
    current = schemas.get(metadata.raw.get("current-schema-id"))
    if current is None:
        return set()
    known = set(_ids(current))
    return {
        spec["spec-id"]
        for spec in metadata.raw.get("partition-specs", [])
        if any(field["source-id"] not in known for field in spec["fields"] if "source-id" in field)
    }


def _ids(struct: Json) -> Iterator[int]:
    """Of all columns by which a table can be partitioned: those in lists and maps are none."""
    for field in struct["fields"]:
        yield field["id"]
        if isinstance(field["type"], dict) and field["type"].get("type") == "struct":
            yield from _ids(field["type"])


def kind(file: avro.Record) -> str:
    format_: str = file["file_format"]
    return _EQUALITY_DELETES if file.get("content", 0) == 2 else format_.upper()


def records(table: str, storage: Storage, location: str, length: int | None, *fields: str) -> Iterator[avro.Record]:
    try:
        content = storage.read(location)
        with files.readable(location):
            # An Avro file that was cut between two blocks reads well, and only lacks entries.
            if length is not None and length != len(content):
                raise avro.NotAvro(f"it has {len(content)} bytes instead of {length}")
            yield from avro.records(content, *fields)
    except MetadataMissing as error:
        raise MetadataMissing(f"{table} cannot be read: {error.message}", remedy=error.remedy) from error
    except LakeUnreadable as error:
        raise damaged(table, error.message) from error


def damaged(table: str, why: str) -> QueryError:
    return QueryError(
        f"{table} cannot be read: {why}",
        remedy="Put the file back from a backup, or read an older commit of the table with --at.",
    )
