"""`$snapshots`, `$history` and `$refs`: what the metadata file itself says of a table's past."""

from __future__ import annotations

from collections.abc import Iterator

from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.metadata_tables.shape import Row, instant, map_of, schema

SNAPSHOTS = schema(
    ("committed_at", "timestamptz", "when the engine made the snapshot, by its clock"),
    ("snapshot_id", "long", "its id, for FOR VERSION AS OF"),
    ("parent_id", "long", "the snapshot before it"),
    ("operation", "string", "append, overwrite, delete or replace"),
    ("manifest_list", "string", "the file that lists its manifests"),
    ("summary", map_of("string", "string"), "what the engine counted"),
)
HISTORY = schema(
    ("made_current_at", "timestamptz", "when the snapshot became the table's current one"),
    ("snapshot_id", "long", "the snapshot"),
    ("parent_id", "long", "the snapshot before it"),
    ("is_current_ancestor", "boolean", "whether it leads to the present; one that was rolled back does not"),
)
REFS = schema(
    ("name", "string", "an Iceberg branch or tag inside this table; refs of the lake are something else"),
    ("type", "string", "BRANCH or TAG"),
    ("snapshot_id", "long", "where it points"),
    ("max_reference_age_in_ms", "long", "how long it is kept"),
    ("min_snapshots_to_keep", "int", "how many snapshots it keeps"),
    ("max_snapshot_age_in_ms", "long", "how long it keeps snapshots"),
)


def snapshots(metadata: Metadata) -> Iterator[Row]:
    """Oldest first."""
    for each in metadata.snapshots:
        summary = {name: str(value) for name, value in each.summary.items() if name != "operation"}
        operation = each.summary.get("operation")
        yield instant(each.at_ms), each.id, each.parent, operation, each.manifest_list, list(summary.items())


def history(metadata: Metadata) -> Iterator[Row]:
    """Oldest first."""
    ancestors = {each.id for each in metadata.since(None) or ()}
    log: list[Json] = metadata.raw.get("snapshot-log") or []
    for each in log:
        id_ = each["snapshot-id"]
        found = metadata.snapshot(id_)
        yield instant(each["timestamp-ms"]), id_, found.parent if found else None, id_ in ancestors


def refs(metadata: Metadata) -> Iterator[Row]:
    found: dict[str, Json] = dict(metadata.raw.get("refs") or {})
    if metadata.current is not None:  # where older metadata does not name it
        found.setdefault("main", {"type": "branch", "snapshot-id": metadata.current.id})
    for name, each in found.items():
        ages = each.get("max-ref-age-ms"), each.get("min-snapshots-to-keep"), each.get("max-snapshot-age-ms")
        yield name, str(each["type"]).upper(), each["snapshot-id"], *ages
