"""Iceberg's types as DuckDB's."""

from __future__ import annotations

import re
from typing import Any

from mere.lake.iceberg.metadata import Json
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
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def columns(schema: Json) -> list[tuple[str, str | None]]:
    """Each column's name and type; None for a type that DuckDB does not have."""
    return [(field["name"], duckdb_type(field["type"])) for field in schema["fields"]]


def no_rows(schema: Json) -> str:
    """A query that has these columns, and nothing in them; a type that DuckDB does not have is a text."""
    found = ", ".join(f"NULL::{type_ or 'VARCHAR'} AS {quoted(name)}" for name, type_ in columns(schema))
    return f"SELECT {found or 'NULL'} LIMIT 0"


def duckdb_type(type_: Any) -> str | None:
    if isinstance(type_, dict):
        return _nested(type_)
    if decimal := _DECIMAL.fullmatch(type_):
        return f"DECIMAL({decimal[1]}, {decimal[2]})"
    return "BLOB" if type_.startswith("fixed[") else _TYPES.get(type_)


def _nested(type_: Json) -> str | None:
    if type_["type"] == "list":
        element = duckdb_type(type_["element"])
        return f"{element}[]" if element else None
    if type_["type"] == "map":
        key, value = duckdb_type(type_["key"]), duckdb_type(type_["value"])
        return f"MAP({key}, {value})" if key and value else None
    fields = columns(type_)
    if not all(type_ for _, type_ in fields):
        return None
    return f"STRUCT({', '.join(f'{quoted(name)} {type_}' for name, type_ in fields)})"
