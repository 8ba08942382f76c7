"""A small lake with orders in it, and what tests of queries ask of it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mere.errors import MereError
from mere.lake.lake import Lake
from mere.lake.query import query

ORDERS = pa.table({"id": [1, 2, 3], "customer": ["ann", "bob", "ann"], "amount": [10.0, 20.0, None]})
ONE_MORE = pa.table({"id": [4], "customer": ["cy"], "amount": [1.0]})
CUSTOMERS = pa.table({"name": ["ann", "bob"], "country": ["AT", "BE"]})


def create(folder: Path) -> Lake:
    """`gold.orders` and `gold.customers` on main, in a folder whose name wants quoting."""
    lake = Lake.create(folder / 'it\'s [1] "läke" of mine')
    write(lake, "gold.orders", ORDERS)
    write(lake, "gold.customers", CUSTOMERS)
    return lake


def write(lake: Lake, table: str, rows: pa.Table, ref: str = "main") -> None:
    catalog = lake.pyiceberg(ref)
    catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
    catalog.create_table_if_not_exists(table, rows.schema).append(rows)


def point(lake: Lake, namespace: str, name: str, pointer: str, kind: str = "TABLE", ref: str = "main") -> None:
    """A row of the catalog as Spark would write it: PyIceberg has neither views nor schemas in schemas."""
    with contextlib.closing(sqlite3.connect(lake.root / "catalog.db")) as database, database:
        database.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location)"
            " VALUES (?, ?, ?, ?, ?)",
            (ref, namespace, name, kind, pointer),
        )


def rows(lake: Lake, sql: str, at: str = "main") -> list[tuple[Any, ...]]:
    return list(query(lake, sql, at))


def failure(lake: Lake, sql: str, at: str = "main") -> str:
    with pytest.raises(MereError) as caught:
        rows(lake, sql, at)
    return str(caught.value)
