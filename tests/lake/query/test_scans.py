"""A table that PyIceberg reads for DuckDB: from where DuckDB itself may read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from mere.errors import QueryError
from mere.lake.lake import Lake
from mere.lake.query import connect, duckdb, scans
from tests.lake import orders


def test_what_duckdb_may_not_read_is_not_read_for_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.parquet"
    parquet.write_table(pa.table({"id": [9], "customer": ["xyzzy"], "amount": [1.0]}), mine)
    with orders.create(tmp_path) as lake:
        for folders in (None, [lake.location], [lake.location, str(tmp_path / "other")]):
            assert _count(lake, folders) == 3
        lake.pyiceberg("main").load_table("gold.orders").add_files([str(mine)])
        assert _count(lake, None) == 4
        assert _count(lake, [str(tmp_path)]) == 4
        with pytest.raises(QueryError, match=r"mine.parquet is neither in the lake nor in"):
            _count(lake, [lake.location])


def _count(lake: Lake, folders: list[str] | None) -> int:
    storage, location = lake.storage, lake.at("main").pointer("gold.orders")
    with connect() as connection:
        duckdb.equip(connection, storage)
        if folders is not None:
            duckdb.confine(connection, folders)
        item = scans.item(connection, "gold.orders", location, {"PARQUET", "PUFFIN"}, storage)
        (found,) = connection.execute(f"SELECT count(*) FROM {item}").fetchall()
        return int(found[0])
