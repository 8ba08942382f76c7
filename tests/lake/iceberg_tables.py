"""Real Iceberg tables, written and read by PyIceberg."""

from __future__ import annotations

import warnings
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType

from mere.lake.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "day", DateType())
)
# A value that has to be escaped in a path: `a:b/c` becomes a%3Ab%2Fc, and that is the folder's name.
BY_NAME_AND_DAY = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "name"), PartitionField(3, 1001, IdentityTransform(), "day")
)


def create(lake: Lake, table: str, ref: str = "main", spec: PartitionSpec | None = None, **properties: str) -> None:
    catalog = lake.pyiceberg(ref)
    catalog.create_namespace_if_not_exists(table.partition(".")[0])
    catalog.create_table(table, SCHEMA, partition_spec=spec or PartitionSpec(), properties=properties)


def rows_of(*ids: int) -> pa.Table:
    names = ["a:b/c" if id_ % 2 else "plain" for id_ in ids]
    days = [date(2026, 11, 1 + id_ % 3) for id_ in ids]
    return pa.table({"id": list(ids), "name": names, "day": days}, SCHEMA.as_arrow())


def append(lake: Lake, table: str, *ids: int, ref: str = "main") -> None:
    lake.pyiceberg(ref).load_table(table).append(rows_of(*ids))


def overwrite(lake: Lake, table: str, *ids: int, ref: str = "main") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyIceberg warns when there was nothing to delete
        lake.pyiceberg(ref).load_table(table).overwrite(rows_of(*ids))


def delete(lake: Lake, table: str, condition: str, ref: str = "main") -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lake.pyiceberg(ref).load_table(table).delete(condition)


def read(pointer: str, snapshot: int | None = None) -> list[dict[str, Any]]:
    table = StaticTable.from_metadata(pointer).scan(snapshot_id=snapshot).to_arrow()
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=str)


def read_all(pointer: str) -> dict[int | None, list[dict[str, Any]]]:
    """The rows at each snapshot of a table, and now."""
    snapshots = [snapshot.snapshot_id for snapshot in StaticTable.from_metadata(pointer).metadata.snapshots]
    return {snapshot: read(pointer, snapshot) for snapshot in [None, *snapshots]}


def files(lake: Lake) -> set[str]:
    return {str(path) for path in Path(lake.warehouse).rglob("*") if path.is_file()}
