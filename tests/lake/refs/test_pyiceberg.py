"""Tables with partitions of all kinds are written through PyIceberg, and read."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from mere.lake.lake import Lake

ROWS = pa.table(
    {
        "name": ["ann", "bob", "bart"],
        "day": [date(2026, 1, 1), date(2026, 1, 2), date(2027, 2, 1)],
        "at": [datetime(2026, 1, 1, 9), datetime(2026, 1, 1, 10), datetime(2026, 1, 1, 10)],
    }
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake.create(tmp_path_factory.mktemp("partitioned") / "lake")


@pytest.mark.parametrize(
    ("column", "transform", "files"),
    [
        ("name", BucketTransform(64), 3),
        ("name", TruncateTransform(1), 2),
        ("day", DayTransform(), 3),
        ("day", MonthTransform(), 2),
        ("day", YearTransform(), 2),
        ("at", HourTransform(), 2),
    ],
)
def test_a_partitioned_table_is_written(lake: Lake, column: str, transform: Transform[Any, Any], files: int) -> None:
    catalog, name = lake.pyiceberg(), f"gold.by_{type(transform).__name__.lower()}"
    catalog.create_namespace_if_not_exists("gold")
    table = catalog.create_table(name, ROWS.schema)
    with table.update_spec() as spec:
        spec.add_field(column, transform, "part")
    table.append(ROWS)
    assert len(table.inspect.files()) == files
    assert list(lake.sql(f"select count(*), max(name) from {name}").rows()) == [(3, "bob")]
