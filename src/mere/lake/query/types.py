"""Iceberg's types as DuckDB's and as Spark's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.types import TypeVisitor
from mere.sql.spark.types import UNKNOWN
from mere.sql.spelling.standard import quoted

_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz_ns": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
    "variant": "VARIANT",
}
_IN_SPARK = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "binary": "binary",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def columns(schema: Json) -> list[tuple[str, str | None]]:
    """Each column's name and type; None for a type that DuckDB does not have."""
    return [(field["name"], duckdb_type(field["type"])) for field in schema["fields"]]


def no_rows(schema: Json) -> str:
    """A query that has these columns, and nothing in them; a type that DuckDB does not have is a text."""
    found = ", ".join(f"NULL::{type_ or 'VARCHAR'} AS {quoted(name)}" for name, type_ in columns(schema))
    return f"SELECT {found or 'NULL'} LIMIT 0"


def _in_duckdb(type_: str) -> str | None:
    if decimal := _DECIMAL.fullmatch(type_):
        return f"DECIMAL({decimal[1]}, {decimal[2]})"
    return "BLOB" if type_.startswith("fixed[") else _TYPES.get(type_)


def _struct_in_duckdb(fields: Sequence[tuple[Json, str | None]]) -> str | None:
    if not all(type_ for _, type_ in fields):
        return None
    inner = ", ".join(f"{quoted(field['name'])} {type_}" for field, type_ in fields)
    return f"STRUCT({inner})"


duckdb_type: TypeVisitor[str | None] = TypeVisitor(
    _in_duckdb,
    lambda element: f"{element}[]" if element else None,
    lambda key, value: f"MAP({key}, {value})" if key and value else None,
    _struct_in_duckdb,
)


def _in_spark(type_: str) -> str:
    if decimal := _DECIMAL.fullmatch(type_):
        return f"decimal({decimal[1]},{decimal[2]})"
    return _IN_SPARK.get(type_, UNKNOWN)


def _struct_in_spark(fields: Sequence[tuple[Json, str]]) -> str:
    inner = ",".join(f"`{field['name']}`:{type_}" for field, type_ in fields)
    return f"struct<{inner}>"


# As it stands in `proven.tsv`; `unknown` for one that nothing was proven of.
spark_type: TypeVisitor[str] = TypeVisitor(
    _in_spark, lambda element: f"array<{element}>", lambda key, value: f"map<{key},{value}>", _struct_in_spark
)
