"""Spark's types in Trino."""

from __future__ import annotations

from mere.sql.spark.types import decimal

TIMESTAMP, INSTANT = "TIMESTAMP(6)", "TIMESTAMP(6) WITH TIME ZONE"
_IN_TRINO = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp_ntz": TIMESTAMP,
    "timestamp": INSTANT,
    "string": "VARCHAR",
    "binary": "VARBINARY",
}


def in_trino(type_: str) -> str | None:
    """None for what needs no cast: structs and maps are never made by an expression."""
    if found := decimal(type_):
        return f"DECIMAL({found[0]}, {found[1]})"
    if type_.startswith("array<"):
        inner = in_trino(type_[6:-1])
        return f"ARRAY({inner})" if inner else None
    return _IN_TRINO.get(type_)
