"""Types in Spark's words, with and without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from mere.engine.session import session
from mere.lake.lake import Lake
from mere.spark_types import is_type

TYPES = [
    *("boolean", "TINYINT", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real", "double"),
    *("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "string", "binary", "variant", "char(3)", "varchar(10)"),
    *("decimal", "decimal(12)", "decimal(12, 2)", "dec(3,1)", "numeric(38, 38)", "interval day to second"),
    *(
        "array<int>",
        "array<struct<a: int, b: array<string>>>",
        "map<string, decimal(12, 2)>",
        "struct<a int, `b c`: date>",
    ),
    *("struct<a: int not null, b: string comment 'x, y'>", "struct<>"),
]
NOT_TYPES = [
    *("bigit", "timestmp", "str", "text", "bool", "int8", "varchar", "decimal(39, 2)", "decimal(3, 4)", "decimal(-1)"),
    *("array<strng>", "array", "array<int, int>", "map<string>", "struct<a: in>", "struct<a>", "int int", "date)"),
]


@pytest.mark.parametrize("text", TYPES)
def test_a_type_of_spark_is_one(text: str) -> None:
    assert is_type(text)


@pytest.mark.parametrize("text", NOT_TYPES)
def test_anything_else_is_none(text: str) -> None:
    assert not is_type(text)


def test_spark_says_the_same(warm_jvm: None, tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake, session(lake, "main") as opened:

        def is_known(text: str) -> bool:
            try:
                opened.spark.sql(f"SELECT CAST(NULL AS {text})").schema  # noqa: B018
            except PySparkException:
                return False
            return True

        assert [text for text in TYPES if not is_known(text)] == []
        assert [text for text in NOT_TYPES if is_known(text)] == []
