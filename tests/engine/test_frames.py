"""Rows as a frame of Spark, in a JVM and on a server."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from mere import Lake
from mere.engine.frames import from_arrow, from_rows
from tests.conftest import OpenSession
from tests.engine.conftest import OpenWarm

TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "at": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
    "price": pa.decimal128(10, 2),
    "tags": pa.list_(pa.string()),
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["spark_on", "open_warm"])
def test_no_rows_have_the_types_that_some_rows_have(kind: str, lake: Lake, request: pytest.FixtureRequest) -> None:
    opened: OpenSession | OpenWarm = request.getfixturevalue(kind)
    spark = opened(lake, "main").spark
    schema = pa.schema(list(TYPES.items()))
    none = from_arrow(spark, schema.empty_table())
    some = from_arrow(spark, pa.table({name: pa.nulls(1, kind) for name, kind in TYPES.items()}))
    assert none.schema == some.schema
    assert (none.collect(), some.count()) == ([], 1)
    assert from_rows(spark, [], some.schema).collect() == []


def test_all_frames_of_rows_are_made_in_one_place() -> None:
    sources = Path(__file__).resolve().parents[2] / "src"
    found = [file.name for file in sources.rglob("*.py") if re.search(r"\.createDataFrame\([^…]", file.read_text())]
    assert sorted(found) == ["frames.py", "rehearsal.py"]  # rehearsal.py does what models do
