"""Postgres's types by their SQL names: their numbers, and what they are in DuckDB."""

from __future__ import annotations

import re

from sqlglot import exp

from mere.serve.catalog import regtypes
from mere.serve.protocol import types
from mere.serve.protocol.port import PgError

# Name in Postgres → type in DuckDB. Oids are numbers; a name is a text.
_DUCKDB = {
    "bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT", "float4": "FLOAT", "float8": "DOUBLE",
    "numeric": "DECIMAL", "text": "VARCHAR", "varchar": "VARCHAR", "bpchar": "VARCHAR", "char": "VARCHAR",
    "name": "VARCHAR", "bytea": "BLOB", "date": "DATE", "time": "TIME", "timetz": "TIMETZ", "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ", "interval": "INTERVAL", "uuid": "UUID", "json": "JSON", "jsonb": "JSON",
    "oid": "BIGINT", "xid": "BIGINT", "cid": "BIGINT", "unknown": "VARCHAR", "cstring": "VARCHAR",
    "int2vector": "SMALLINT[]", "oidvector": "BIGINT[]", "pg_lsn": "VARCHAR", "inet": "VARCHAR", "cidr": "VARCHAR",
    "aclitem": "VARCHAR", "pg_node_tree": "VARCHAR", "tid": "VARCHAR", "xml": "VARCHAR", "money": "DECIMAL(19,2)",
    **dict.fromkeys(regtypes.KINDS, "BIGINT"),
}  # fmt: skip

_SPELLINGS = {
    "boolean": "bool", "smallint": "int2", "integer": "int4", "int": "int4", "bigint": "int8", "real": "float4",
    "double precision": "float8", "double": "float8", "float": "float8", "decimal": "numeric", "dec": "numeric",
    "character varying": "varchar", "nvarchar": "varchar", "character": "bpchar", "nchar": "bpchar",
    "varbinary": "bytea", "blob": "bytea", "binary": "bytea",
    "time without time zone": "time", "time with time zone": "timetz", "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz", "tinyint": "int2", "serial": "int4", "bigserial": "int8",
}  # fmt: skip

_PRECISION = re.compile(r"\(\s*\d+\s*(?:,\s*-?\d+\s*)?\)")
WIDEST = "DECIMAL(38,10)"  # where a numeric says nothing of its digits


def postgres_name(type_: exp.DataType) -> str:
    """The type's own name, without length and brackets: int4, timestamptz, bpchar."""
    if type_.this is exp.DType.ARRAY:
        return postgres_name(type_.expressions[0]) if type_.expressions else "unknown"
    if type_.this is exp.DType.INTERVAL or isinstance(type_.this, exp.Interval):
        return "interval"
    if type_.this is exp.DType.USERDEFINED:
        written = type_.args.get("kind")
        text = written.name if isinstance(written, exp.Expr) else str(written or "")
        text = text.replace('"', "").lower().removeprefix("pg_catalog.")
        return _SPELLINGS.get(text, text)
    if type_.this is exp.DType.CHARACTER_SET:
        return "text"
    text = type_.sql(dialect="postgres").split("(")[0].split("[")[0].strip().lower().replace('"', "")
    text = text.removeprefix("pg_catalog.")
    if type_.this is exp.DType.CHAR:
        return "bpchar"
    return _SPELLINGS.get(text, text)


def is_array(type_: exp.DataType) -> bool:
    return type_.this is exp.DType.ARRAY or "[]" in type_.sql(dialect="postgres")


def modifiers(type_: exp.DataType) -> list[int]:
    return [int(each.name) for each in type_.expressions if isinstance(each, exp.DataTypeParam) and each.name.isdigit()]


def duckdb_type(type_: exp.DataType) -> str:
    """PgError 42704 if there is no such type here."""
    if type_.this is exp.DType.ARRAY:
        inner = type_.expressions[0] if type_.expressions else exp.DataType.build("text")
        return f"{duckdb_type(inner)}[]"
    name = postgres_name(type_)
    found = _DUCKDB.get(name)
    if found is None:
        raise PgError("42704", f'type "{name}" does not exist')
    if name == "numeric":
        digits = modifiers(type_)
        found = f"DECIMAL({digits[0]},{digits[1] if len(digits) > 1 else 0})" if digits else WIDEST
    return found


def of_oid(oid: int) -> str | None:
    """The type in DuckDB to which a parameter is cast; None: as the value comes."""
    if (element := types.ELEMENTS.get(oid)) is not None:
        inner = of_oid(element)
        return f"{inner}[]" if inner else None
    known = types.BY_OID.get(oid)
    if known is None or known.name == "numeric":
        return None
    return _DUCKDB.get(known.name)


def oid_of(name: str) -> int:
    """By a name as SQL has it; 0 if there is no such type."""
    text = " ".join(name.lower().replace('"', "").split())
    is_list = text.endswith("[]")
    text = _PRECISION.sub("", text.removesuffix("[]").removeprefix("pg_catalog.")).strip()
    known = types.BY_NAME.get(_SPELLINGS.get(text, text))
    if known is None:
        return 0
    return known.array if is_list else known.oid
