"""How a table grew: each of its snapshots, read by time travel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mere.errors import UsageError
from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.iceberg.properties import RUN
from mere.lake.query import scans
from mere.lake.query.duckdb import opened
from mere.lake.query.tables import ReadableLake
from mere.lake.storage.port import Storage, canonical
from mere.sql.spelling.standard import literal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class Step:
    """One snapshot. `rows` were counted in its files; `added` and `removed` are what its writer says."""

    snapshot: int
    at: datetime
    operation: str
    rows: int
    added: int
    removed: int
    files: int
    size: int
    run: str | None


def growth(lake: ReadableLake, table: str, at: str, limit: int) -> list[Step]:
    """The last snapshots of a table at a ref, oldest first."""
    tables = lake.at(at)
    metadata = tables.metadata(table)
    if tables.is_view(table):
        raise UsageError(f"{table} is a view, which has no snapshots.", remedy=f"See: mere lineage {table} --up")
    way = list(_way(metadata))[:limit]
    with opened(lake.storage) as connection:
        return [_step(connection, table, metadata, each, lake.storage) for each in reversed(way)]


def _way(metadata: Metadata) -> Iterator[Snapshot]:
    """From the current snapshot back, as far as they are kept."""
    snapshot = metadata.current
    while snapshot is not None:
        yield snapshot
        snapshot = metadata.snapshot(snapshot.parent) if snapshot.parent is not None else None


def _step(connection: DuckDBPyConnection, table: str, metadata: Metadata, snapshot: Snapshot, storage: Storage) -> Step:
    stats = snapshot.stats
    return Step(
        snapshot.id,
        datetime.fromtimestamp(snapshot.at_ms / 1000, UTC),
        snapshot.operation,
        _rows(connection, table, metadata, snapshot, storage),
        stats.rows_added,
        stats.rows_removed,
        snapshot.count("total-data-files"),
        snapshot.count("total-files-size"),
        snapshot.summary.get(RUN),
    )


def _rows(connection: DuckDBPyConnection, table: str, metadata: Metadata, snapshot: Snapshot, storage: Storage) -> int:
    if scans.is_for_duckdb(table, metadata, snapshot, storage):
        item = f"iceberg_scan({literal(canonical(metadata.location))}, snapshot_from_id = {snapshot.id})"
        found = connection.execute(f"SELECT count(*) FROM {item}").fetchone()
        assert found
        return int(found[0])
    from pyiceberg.table import StaticTable

    from mere.lake.storage.s3 import pyiceberg_properties

    properties = pyiceberg_properties(storage.s3) if storage.s3 else {}
    scan = StaticTable.from_metadata(metadata.location, properties).scan(snapshot_id=snapshot.id)
    return len(scan.to_arrow())
