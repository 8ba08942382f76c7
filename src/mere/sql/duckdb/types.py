"""Spark's types in DuckDB."""

from __future__ import annotations

from mere.sql.spark.types import decimal

_IN_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "binary": "BLOB",
}


def in_duckdb(type_: str) -> str | None:
    """None for what needs no cast: structs and maps are never made by an expression."""
    if found := decimal(type_):
        return f"DECIMAL({found[0]}, {found[1]})"
    if type_.startswith("array<"):
        inner = in_duckdb(type_[6:-1])
        return f"{inner}[]" if inner else None
    return _IN_DUCKDB.get(type_)
