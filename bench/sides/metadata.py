"""Iceberg metadata files without data behind them: what forking and publishing see of a table."""

from __future__ import annotations

import json
import uuid
from functools import cache
from pathlib import Path
from typing import Any

LOCATION, UUID = "<location>", "<uuid>"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "amount", "required": False, "type": "double"},
    ],
}


def snapshot(number: int, rows: int) -> dict[str, Any]:
    files = max(rows // 1_000_000, 1)
    summary = {
        "operation": "append",
        "added-data-files": files,
        "added-records": rows,
        "added-files-size": rows * 16,
        "total-records": rows * number,
        "total-data-files": files * number,
        "total-files-size": rows * 16 * number,
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
    }
    return {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": 1_700_000_000_000 + number,
        "manifest-list": f"{LOCATION}/metadata/snap-{number}.avro",
        "schema-id": 0,
        "summary": {name: str(value) for name, value in summary.items()},
    } | ({"parent-snapshot-id": number - 1} if number > 1 else {})


@cache
def template(snapshots: int, rows: int) -> str:
    return json.dumps({
        "format-version": 2,
        "table-uuid": UUID,
        "location": LOCATION,
        "last-sequence-number": snapshots,
        "last-updated-ms": 1_700_000_000_000 + snapshots,
        "last-column-id": 2,
        "current-schema-id": 0,
        "schemas": [SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"gc.enabled": "false", "write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": snapshots,
        "refs": {"main": {"snapshot-id": snapshots, "type": "branch"}},
        "snapshots": [snapshot(number, rows) for number in range(1, snapshots + 1)],
        "snapshot-log": [],
        "metadata-log": [],
    })  # fmt: skip


def write_metadata(location: Path, version: int, snapshots: int, rows: int) -> str:
    """Writes version N of a table that has so many snapshots of so many rows each; returns the pointer."""
    folder = location / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    table = str(uuid.uuid5(uuid.NAMESPACE_URL, location.name))
    path = folder / f"{version:05d}-{uuid.uuid5(uuid.NAMESPACE_URL, f'{table}/{version}')}.metadata.json"
    content = template(snapshots, rows).replace(LOCATION, str(location)).replace(UUID, table)
    path.write_text(content, encoding="utf-8")
    return str(path)
