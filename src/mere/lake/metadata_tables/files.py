"""`$files`, `$manifests` and `$partitions`: what the manifests of a table's current snapshot list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mere.lake.iceberg import avro
from mere.lake.iceberg.manifests import DATA, EQUALITY_DELETES, POSITION_DELETES, Manifest, Manifests, list_records
from mere.lake.iceberg.manifests import named as of_table
from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.metadata_tables.shape import Row, instant, list_of, map_of, schema, struct_of
from mere.lake.metadata_tables.values import Partitioning, text, types_of
from mere.lake.storage.port import Storage

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_LISTS = ("split_offsets", "equality_ids")
_OF_FILE = (
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes"),
    *(*_COUNTS, *_BOUNDS, *_LISTS, "key_metadata", "sort_order_id", "referenced_data_file"),
    *("content_offset", "content_size_in_bytes"),
)
_WANTED = tuple(f"data_file.{name}" for name in _OF_FILE)
_TALLY = (
    "snapshot_id",
    *(f"data_file.{name}" for name in ("content", "partition", "record_count", "file_size_in_bytes")),
)

_SIDES = ("lower_bound", "upper_bound")
MANIFESTS = schema(
    ("content", "int", "0: it lists data files; 1: delete files"),
    ("path", "string", "the manifest"),
    ("length", "long", "its bytes"),
    ("partition_spec_id", "int", "the partitioning of its files"),
    ("added_snapshot_id", "long", "the snapshot that added it"),
    ("added_data_files_count", "int", "files that this snapshot added"),
    ("existing_data_files_count", "int", "files that were there before"),
    ("deleted_data_files_count", "int", "files that this snapshot removed"),
    ("added_delete_files_count", "int", "the same of delete files"),
    ("existing_delete_files_count", "int", "the same of delete files"),
    ("deleted_delete_files_count", "int", "the same of delete files"),
    (
        "partition_summaries",
        list_of(
            struct_of(
                [
                    ("contains_null", "boolean"),
                    ("contains_nan", "boolean"),
                    ("lower_bound", "string"),
                    ("upper_bound", "string"),
                ]
            )
        ),
        "the values of each partition field",
    ),
)
_KINDS = ("added", "existing", "deleted")
_LIST = (
    *("manifest_path", "manifest_length", "content", "partition_spec_id", "added_snapshot_id", "partitions"),
    # The second name is the one of the first format.
    *(f"{kind}_{word}_count" for kind in _KINDS for word in ("files", "data_files")),
)


def files_schema(metadata: Metadata) -> Json:
    return schema(
        ("content", "int", "0: data, 1: position deletes, 2: equality deletes"),
        ("file_path", "string", "the file"),
        ("file_format", "string", "PARQUET, ORC, AVRO or PUFFIN"),
        ("spec_id", "int", "its partitioning"),
        *_partition(metadata),
        ("record_count", "long", "its rows"),
        ("file_size_in_bytes", "long", "its bytes"),
        *((name, map_of("int", "long"), "by the id of the column") for name in _COUNTS),
        *((name, map_of("int", "string"), "by the id of the column, as text") for name in _BOUNDS),
        ("key_metadata", "binary", "of an encrypted file"),
        ("split_offsets", list_of("long"), "where it may be split"),
        ("equality_ids", list_of("int"), "the columns by which it deletes rows"),
        ("sort_order_id", "int", "how its rows are sorted"),
        ("referenced_data_file", "string", "the one data file whose rows it deletes"),
        ("content_offset", "long", "where a deletion vector begins in its file"),
        ("content_size_in_bytes", "long", "how long it is"),
    )


def partitions_schema(metadata: Metadata) -> Json:
    of_partition = (*_partition(metadata), ("spec_id", "int", "its partitioning")) if _is_partitioned(metadata) else ()
    return schema(
        *of_partition,
        ("record_count", "long", "rows of its data files, deleted ones among them"),
        ("file_count", "int", "its data files"),
        ("total_data_file_size_in_bytes", "long", "their bytes"),
        ("position_delete_record_count", "long", "rows that are deleted by their position"),
        ("position_delete_file_count", "int", "the files that do so"),
        ("equality_delete_record_count", "long", "values by which rows are deleted"),
        ("equality_delete_file_count", "int", "the files that do so"),
        ("last_updated_at", "timestamptz", "when its newest file was written"),
        ("last_updated_snapshot_id", "long", "by which snapshot"),
    )


def _is_partitioned(metadata: Metadata) -> bool:
    return bool(Partitioning(metadata).fields)


def _partition(metadata: Metadata) -> tuple[tuple[str, Any, str], ...]:
    found = Partitioning(metadata).fields
    if not found:
        return ()
    return (("partition", struct_of((each.name, each.type) for each in found), "its values"),)


def files(metadata: Metadata, table: str, storage: Storage) -> Iterator[Row]:
    """All that are live in the current snapshot, delete files among them."""
    partitioning, types = Partitioning(metadata), types_of(metadata)
    reader = Manifests(table, storage)
    for manifest in _manifests(metadata, reader):
        for entry in reader.live(manifest, *_WANTED):
            found = entry["data_file"]
            partition = (partitioning.struct(manifest.spec, _values(found)),) if partitioning.fields else ()
            yield (
                found.get("content") or DATA,
                found["file_path"],
                found["file_format"].upper(),
                manifest.spec,
                *partition,
                found.get("record_count"),
                found["file_size_in_bytes"],
                *(_pairs(found.get(name)) for name in _COUNTS),
                *(_texts(found.get(name), types) for name in _BOUNDS),
                found.get("key_metadata"),
                *(found.get(name) for name in _LISTS),
                found.get("sort_order_id"),
                found.get("referenced_data_file"),
                found.get("content_offset"),
                found.get("content_size_in_bytes"),
            )


def manifests(metadata: Metadata, table: str, storage: Storage) -> Iterator[Row]:
    snapshot = metadata.current
    if snapshot is None or not snapshot.manifest_list:
        return
    partitioning = Partitioning(metadata)
    with of_table(table):
        found = list_records(storage, snapshot, *_LIST)
    for each in found:
        deletes, spec = bool(each.get("content")), each.get("partition_spec_id") or 0
        counts = [_count(each, kind) for kind in _KINDS]
        none: list[int | None] = [0] * len(counts)
        yield (
            int(deletes),
            each["manifest_path"],
            each.get("manifest_length"),
            spec,
            each.get("added_snapshot_id"),
            *((none + counts) if deletes else (counts + none)),
            _summaries(each.get("partitions"), spec, partitioning),
        )


@dataclass
class _Tally:
    counts: dict[int, list[int]]  # rows and files, by content
    size: int = 0
    updated: tuple[int, int] | None = None  # milliseconds, snapshot


def partitions(metadata: Metadata, table: str, storage: Storage) -> Iterator[Row]:
    partitioning = Partitioning(metadata)
    reader = Manifests(table, storage)
    times = {each.id: each.at_ms for each in metadata.snapshots}
    found: dict[tuple[int, tuple[Any, ...]], _Tally] = {}
    for manifest in _manifests(metadata, reader):
        for entry in reader.live(manifest, *_TALLY):
            file = entry["data_file"]
            key = manifest.spec, _values(file)
            tally = found.setdefault(key, _Tally({kind: [0, 0] for kind in range(3)}))
            content = file.get("content") or DATA
            tally.counts[content][0] += file.get("record_count") or 0
            tally.counts[content][1] += 1
            tally.size += file["file_size_in_bytes"] if content == DATA else 0
            snapshot = entry.get("snapshot_id") or manifest.snapshot
            if snapshot in times and (tally.updated is None or times[snapshot] > tally.updated[0]):
                tally.updated = times[snapshot], snapshot
    for (spec, values), tally in found.items():
        at, snapshot = tally.updated or (None, None)
        yield (
            *((partitioning.struct(spec, values), spec) if partitioning.fields else ()),
            *tally.counts[DATA],
            tally.size,
            *tally.counts[POSITION_DELETES],
            *tally.counts[EQUALITY_DELETES],
            instant(at),
            snapshot,
        )


def _manifests(metadata: Metadata, reader: Manifests) -> list[Manifest]:
    snapshot = metadata.current
    return reader.listed(snapshot) if snapshot and snapshot.manifest_list else []


def _values(file: avro.Record) -> tuple[Any, ...]:
    return tuple((file.get("partition") or {}).values())


def _pairs(found: list[avro.Record] | None) -> list[tuple[int, int]] | None:
    return None if found is None else [(each["key"], each["value"]) for each in found]


def _texts(found: list[avro.Record] | None, types: dict[int, str]) -> list[tuple[int, str | None]] | None:
    if found is None:
        return None
    return [(each["key"], text(types.get(each["key"], "string"), each["value"])) for each in found]


def _count(each: avro.Record, kind: str) -> int | None:
    found: int | None = each.get(f"{kind}_files_count", each.get(f"{kind}_data_files_count"))
    return found


def _summaries(found: list[avro.Record] | None, spec: int, partitioning: Partitioning) -> list[Json]:
    found = found or []
    lower, upper = (
        partitioning.texts(spec, [each.get(f"{side}_bound") for each in found]) for side in ("lower", "upper")
    )
    return [
        {
            "contains_null": each.get("contains_null"),
            "contains_nan": each.get("contains_nan"),
            "lower_bound": first,
            "upper_bound": last,
        }
        for each, first, last in zip(found, lower, upper, strict=True)
    ]
