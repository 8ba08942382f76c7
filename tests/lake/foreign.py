"""An engine that knows the Iceberg SQL catalog and nothing of mere: real SQL, small but real metadata files."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from mere.lake.lake import Lake
from mere.names import TableName


class Foreign:
    """On SQLite."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    @property
    def database(self) -> Path:
        return self.lake.root / "catalog.db"

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as connection, connection:
            return connection.execute(sql, parameters).rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.database, timeout=30)) as connection:
            return connection.execute(sql, parameters).fetchall()

    def pointer(self, ref: str, table: str) -> str | None:
        name = TableName.parse(table)
        query = (
            "SELECT metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
        )
        found = self.rows(query, (ref, name.namespace, name.name))
        return found[0][0] if found else None

    def append(self, ref: str, table: str, rows: int = 1, **properties: str) -> str:
        """Append rows to a table, which is made if it is not there. Returns the new pointer."""
        old = self.pointer(ref, table)
        metadata = json.loads(self.lake.storage.read(old)) if old else _empty()
        metadata["properties"] |= properties
        _add_snapshot(metadata, rows)
        new = f"{self.lake.warehouse}/{len(metadata['snapshots']):05d}-{uuid.uuid4()}.metadata.json"
        self.lake.storage.write_new(new, json.dumps(metadata).encode())
        self.put(ref, table, old, new)
        return new

    def put(self, ref: str, table: str, old: str | None, new: str, kind: str | None = "TABLE") -> None:
        """The catalog's own compare-and-swap, as JdbcCatalog and SqlCatalog do it."""
        name = TableName.parse(table)
        key = (ref, name.namespace, name.name)
        if old is None:
            self.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, NULL, ?)", (*key, new, kind))
            return
        moved = self.execute(
            "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? WHERE catalog_name = ?"
            " AND table_namespace = ? AND table_name = ? AND metadata_location = ?",
            (new, old, *key, old),
        )
        assert moved == 1, f"{table} on {ref} was moved by somebody else"

    def rename(self, ref: str, table: str, to: str) -> None:
        old, new = TableName.parse(table), TableName.parse(to)
        moved = self.execute(
            "UPDATE iceberg_tables SET table_namespace = ?, table_name = ?"
            " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
            (new.namespace, new.name, ref, old.namespace, old.name),
        )
        assert moved == 1

    def delete(self, ref: str, table: str) -> None:
        name = TableName.parse(table)
        self.execute(
            "DELETE FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
            (ref, name.namespace, name.name),
        )

    def set_property(self, ref: str, namespace: str, key: str, value: str) -> None:
        where = "WHERE catalog_name = ? AND namespace = ? AND property_key = ?"
        if not self.execute(
            f"UPDATE iceberg_namespace_properties SET property_value = ? {where}",
            (value, ref, namespace, key),
        ):
            self.execute("INSERT INTO iceberg_namespace_properties VALUES (?, ?, ?, ?)", (ref, namespace, key, value))

    def delete_property(self, ref: str, namespace: str, key: str) -> None:
        self.execute(
            "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ? AND property_key = ?",
            (ref, namespace, key),
        )


class ForeignOnPostgres(Foreign):
    """The same engine, on Postgres."""

    def __init__(self, lake: Lake, url: str) -> None:
        super().__init__(lake)
        self.url = url

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql.replace("?", "%s").encode(), parameters).rowcount

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql.replace("?", "%s").encode(), parameters).fetchall()


def _empty() -> dict[str, Any]:
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "last-updated-ms": 1,
        "properties": {"gc.enabled": "false"},
        "snapshots": [],
    }


def _add_snapshot(metadata: dict[str, Any], rows: int) -> None:
    snapshots = metadata["snapshots"]
    total = int(snapshots[-1]["summary"]["total-records"]) if snapshots else 0
    snapshot = {
        "snapshot-id": uuid.uuid4().int >> 66,
        "timestamp-ms": 1,
        "summary": {
            "operation": "append",
            "added-records": str(rows),
            "added-data-files": "1",
            "total-records": str(total + rows),
            "total-data-files": str(len(snapshots) + 1),
        },
    }
    if snapshots:
        snapshot["parent-snapshot-id"] = metadata["current-snapshot-id"]
    snapshots.append(snapshot)
    metadata["current-snapshot-id"] = snapshot["snapshot-id"]
