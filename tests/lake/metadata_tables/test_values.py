"""Bounds as text, and the partitions of all specs as one struct."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.types import IcebergType, StructType

from mere.lake.iceberg.metadata import Metadata
from mere.lake.metadata_tables.values import Partitioning, text


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("boolean", True, "true"),
        ("int", -7, "-7"),
        ("long", 1 << 40, str(1 << 40)),
        ("double", 0.1, "0.1"),
        ("date", 20_000, "2024-10-04"),
        ("timestamp", 1_600_000_000_123_456, "2020-09-13T12:26:40.123456"),
        ("timestamptz", 1_600_000_000_000_000, "2020-09-13T12:26:40+00:00"),
        ("time", 3_600_000_001, "01:00:00.000001"),
        ("decimal(9, 2)", Decimal("-12.30"), "-12.30"),
        ("string", "läke", "läke"),
        ("binary", b"\x00\xff", "AP8="),
    ],
)
def test_a_bound_is_shown_as_people_write_it(type_: str, value: Any, expected: str) -> None:
    primitive = StructType.model_validate(
        {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": type_}]}
    )
    found: IcebergType = primitive.fields[0].field_type
    assert text(type_, to_bytes(found, value)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("type_", ["int", "date", "timestamp", "double", "decimal(9, 2)", "uuid", "string", "nonsense"])
def test_what_is_no_value_of_the_type_is_never_an_error(type_: str) -> None:
    for value in (b"", b"\xff", b"\xff" * 8, b"\x80" * 40):
        assert text(type_, value) is None or isinstance(text(type_, value), str)


def test_a_bound_from_before_a_column_was_widened_is_read() -> None:
    assert text("long", (5).to_bytes(4, "little")) == "5"
    assert text("timestamp", (20_000).to_bytes(4, "little", signed=True)) == "2024-10-04T00:00:00"


def test_a_removed_partition_field_lives_on_for_the_files_that_have_it() -> None:
    fields = [{"id": 1, "name": "day", "type": "date"}, {"id": 2, "name": "id", "type": "long"}]
    specs = [
        {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "day", "transform": "identity"}]},
        {
            "spec-id": 1,
            "fields": [
                {"source-id": 1, "field-id": 1000, "name": "day", "transform": "void"},
                {"source-id": 2, "field-id": 1001, "name": "id_bucket", "transform": "bucket[4]"},
            ],
        },
    ]
    raw = {"schemas": [{"schema-id": 0, "fields": fields}], "partition-specs": specs}
    found = Partitioning(Metadata("m", raw))
    assert [(each.name, each.type) for each in found.fields] == [("day", "date"), ("id_bucket", "int")]
    assert found.struct(0, [20_000]) == {"day": 20_000, "id_bucket": None}
    assert found.struct(1, [None, 3]) == {"day": None, "id_bucket": 3}
