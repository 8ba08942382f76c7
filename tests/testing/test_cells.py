"""Values as they are written, and what they are in a column of a type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mere import entries
from mere.entries import Entry
from mere.errors import ConfigError
from mere.testing.cells import inferred, value_of
from mere.testing.types import of_iceberg, of_spark


def cell(text: str) -> Entry:
    return entries.parse(f"a: {text}", Path("tests/x.yaml")).entries()["a"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "007", "007"),
        ("string", "2024-02-11", "2024-02-11"),
        ("string", "yes", "yes"),
        ("string", "null", None),
        ("string", '"null"', "null"),
        ("string", '""', ""),
        ("bigint", "1_000", 1000),
        ("tinyint", "-128", -128),
        ("double", "1e3", 1000.0),
        ("double", "-.inf", -math.inf),
        ("double", "0.1", 0.1),
        ("float", "0.1", pa.scalar(0.1, pa.float32()).as_py()),
        ("decimal(22, 2)", "12345678901234567890.12", Decimal("12345678901234567890.12")),
        ("decimal(4, 2)", "1.500", Decimal("1.5")),
        ("decimal(4, 2)", "0", Decimal(0)),
        ("boolean", "TRUE", True),
        ("date", "2024-02-11", date(2024, 2, 11)),
        ("timestamp", "2024-02-11", datetime(2024, 2, 11, tzinfo=UTC)),
        ("timestamp", "2024-02-11T10:00:00+02:00", datetime(2024, 2, 11, 8, tzinfo=UTC)),
        ("timestamp_ntz", "2024-02-11 10:00:00.5", datetime(2024, 2, 11, 10, 0, 0, 500000)),
        ("binary", "!!binary aGk=", b"hi"),
        ("array<decimal(3, 1)>", "[1.5, null]", [Decimal("1.5"), None]),
        ("struct<id: bigint, name: string>", "{name: 7}", {"id": None, "name": "7"}),
        ("map<date, int>", "{2024-01-01: 1}", [(date(2024, 1, 1), 1)]),
        ("array<struct<at: timestamp>>", "[{at: 2024-01-01}]", [{"at": datetime(2024, 1, 1, tzinfo=UTC)}]),
    ],
)
def test_a_value_is_what_its_columns_type_makes_of_the_text(kind: str, text: str, value: Any) -> None:
    found = value_of(cell(text), of_spark(kind))
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(value_of(cell(".nan"), of_spark("double")))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.5"),
        ("tinyint", "128"),
        ("decimal(4, 2)", "1.555"),
        ("decimal(4, 2)", "100"),
        ("decimal(4, 2)", "nan"),
        ("boolean", "maybe"),
        ("date", "2024-02-30"),
        ("date", "2024-02-11 10:00:00"),
        ("timestamp", "today"),
        ("string", "[a]"),
        ("array<int>", "1"),
        ("struct<id: int>", "[1]"),
        ("struct<id: int>", "{nr: 1}"),
        ("map<string, int>", "[1]"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_its_place(kind: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"^tests/x\.yaml:1: "):
        value_of(cell(text), of_spark(kind))


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "null", "2"], "bigint"),
        (["1", "2.5"], "double"),
        (["1", "a"], "string"),
        (["true"], "boolean"),
        (["2024-02-11"], "date"),
        (["2024-02-11", "2024-02-11 10:00:00"], "timestamp"),
        (["null"], "string"),
        (["[1]", "[2.5]"], "array<double>"),
        (["{a: 1}", "{b: x}"], "struct<a: bigint, b: string>"),
    ],
)
def test_a_type_that_nobody_knows_is_what_the_values_look_like(texts: list[str], kind: str) -> None:
    assert inferred(map(cell, texts)) == of_spark(kind)


def test_the_types_of_a_table_are_those_that_spark_has_for_them() -> None:
    kind = {"type": "struct", "fields": [{"name": "a", "type": {"type": "list", "element": "timestamptz"}}]}
    assert of_iceberg(kind) == of_spark("struct<a: array<timestamp>>")
    assert of_iceberg({"type": "map", "key": "string", "value": "long"}) == of_spark("map<string, bigint>")
    assert of_iceberg("decimal(12, 2)") == of_spark("decimal(12,2)")
    assert of_iceberg("fixed[16]") == of_spark("binary")
    assert of_iceberg("timestamp") == of_spark("timestamp_ntz")


def test_a_type_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="interval"):
        of_spark("interval day")
