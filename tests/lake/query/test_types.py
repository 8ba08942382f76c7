"""`mere sql` gives back what was written: every type, and tables that changed over their lives."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from mere.lake.lake import Lake
from mere.lake.query import query
from tests.lake import orders
from tests.lake.orders import rows, write


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


def test_every_type_comes_back_as_it_was_written(lake: Lake) -> None:
    id_ = uuid.UUID("12345678-1234-5678-1234-567812345678")
    moment = dt.datetime(2026, 11, 15, 9, 30, 1, 123456)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "boolean": (pa.bool_(), True),
        "int": (pa.int32(), -(2**31)),
        "long": (pa.int64(), 2**63 - 1),
        "float": (pa.float32(), 0.5),
        "double": (pa.float64(), -math.inf),
        "decimal": (pa.decimal128(38, 10), Decimal("-1234567890123456789012345678.0123456789")),
        "date": (pa.date32(), dt.date(1, 1, 1)),
        "time": (pa.time64("us"), dt.time(23, 59, 59, 999999)),
        "timestamp": (pa.timestamp("us"), moment),
        "timestamptz": (pa.timestamp("us", "UTC"), moment.replace(tzinfo=dt.UTC)),
        "string": (pa.string(), "it's “ü”\n\0"),
        "uuid": (pa.uuid(), id_),
        "fixed": (pa.binary(3), b"\0\xffa"),
        "binary": (pa.binary(), b"\0\xff'"),
        "list": (pa.list_(pa.int32()), [1, None]),
        "map": (pa.map_(pa.string(), pa.int64()), {"k": 1, "": None}),
        "struct": (pa.struct([("a", pa.int64()), ("b c", pa.list_(pa.string()))]), {"a": None, "b c": ["x"]}),
    }
    schema = pa.schema([(name, type_) for name, (type_, _) in values.items()])
    arrays = [
        pa.array([list(value.items()) if name == "map" else value, None], type_)
        for name, (type_, value) in values.items()
    ]
    write(lake, "gold.types", pa.Table.from_arrays(arrays, schema=schema))
    found, empty = rows(lake, "select * from gold.types order by int nulls last")
    assert dict(zip(values, found, strict=True)) == {name: value for name, (_, value) in values.items()}
    assert empty == (None,) * len(values)
    assert [column.type for column in query(lake, "from gold.types").columns][-5:] == [
        "BLOB",
        "BLOB",
        "INTEGER[]",
        "MAP(VARCHAR, BIGINT)",
        'STRUCT(a BIGINT, "b c" VARCHAR[])',
    ]


def test_nan_is_a_number_and_not_null(lake: Lake) -> None:
    write(lake, "gold.nan", pa.table({"x": [math.nan, 1.0, None]}))
    assert rows(lake, "select count(x), count(*) from gold.nan") == [(2, 3)]
    assert rows(lake, "select x from gold.nan where isnan(x)")[0][0] != 0


def test_a_table_that_was_never_written_is_empty_and_has_its_columns(lake: Lake) -> None:
    nested = pa.schema(
        [("a", pa.int64()), ("s", pa.struct([("x y", pa.decimal128(5, 2))])), ("m", pa.map_(pa.string(), pa.date32()))]
    )
    lake.pyiceberg().create_table("gold.empty", nested)
    found = query(lake, "select * from gold.empty")
    assert [(column.name, column.type) for column in found.columns] == [
        ("a", "BIGINT"),
        ("s", 'STRUCT("x y" DECIMAL(5,2))'),
        ("m", "MAP(VARCHAR, DATE)"),
    ]
    assert list(found) == []
    assert rows(lake, "select count(*), max(a) from gold.empty") == [(0, None)]


def test_columns_and_partitions_may_change_over_a_tables_life(lake: Lake) -> None:
    schema = Schema(
        iceberg.NestedField(1, "id", iceberg.IntegerType()),
        iceberg.NestedField(2, "old", iceberg.StringType()),
        iceberg.NestedField(3, "gone", iceberg.StringType()),
        iceberg.NestedField(4, "at", iceberg.TimestampType()),
    )
    by_time = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "at"))
    table = lake.pyiceberg().create_table("gold.evolved", schema, partition_spec=by_time)
    days = [dt.datetime(2026, 11, day) for day in (1, 2, 3)]
    table.append(pa.table({"id": [1, 2, 3], "old": ["a", "b", None], "gone": ["x"] * 3, "at": days}, schema.as_arrow()))
    with table.update_schema() as update:
        update.rename_column("old", "new")
        update.delete_column("gone")
        update.update_column("id", iceberg.LongType())
    with table.update_schema() as update:
        update.add_column("gone", iceberg.LongType())  # a new column that only has the name of an old one
        update.move_first("gone")
    with table.update_spec() as spec:
        spec.add_identity("new")
        spec.remove_field("at")
    table.append(pa.table({"gone": [7], "id": [2**40], "new": ["c"], "at": days[:1]}, table.schema().as_arrow()))
    assert rows(lake, "select * from gold.evolved order by id") == [
        (None, 1, "a", days[0]),
        (None, 2, "b", days[1]),
        (None, 3, None, days[2]),
        (7, 2**40, "c", days[0]),
    ]
    assert rows(lake, "select id from gold.evolved where id > 3") == [(2**40,)]
    assert rows(lake, "select count(*) from gold.evolved where \"at\" = timestamp '2026-11-01'") == [(2,)]
    assert rows(lake, "select count(*) from gold.evolved where gone is null and new <> 'a'") == [(1,)]
    assert rows(lake, 'select old, gone from "main~4".gold.evolved where id = 1') == [("a", "x")]


def test_deleted_rows_are_gone(lake: Lake) -> None:
    lake.pyiceberg().load_table("gold.orders").delete("id = 2")
    assert rows(lake, "select id from gold.orders order by id") == [(1,), (3,)]
    assert rows(lake, "select count(*) from gold.orders") == [(2,)]
