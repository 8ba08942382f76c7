"""Postgres's types as clients know them by number, and the type of an Arrow column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mere.serve.protocol.port import Field

if TYPE_CHECKING:
    import pyarrow as pa

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4 = 16, 17, 18, 19, 20, 21, 23
REGPROC, TEXT, OID, JSON, FLOAT4, FLOAT8, UNKNOWN = 24, 25, 26, 114, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL = 1042, 1043, 1082, 1083, 1114, 1184, 1186
NUMERIC, REGCLASS, REGTYPE, UUID, JSONB = 1700, 2205, 2206, 2950, 3802
INT2VECTOR, XID, OIDVECTOR, INET, ANYARRAY = 22, 28, 30, 869, 2277


@dataclass(frozen=True)
class Type:
    oid: int
    name: str
    size: int  # in bytes; -1: it varies
    array: int  # the oid of the array of it


_ALL = (
    Type(BOOL, "bool", 1, 1000),
    Type(BYTEA, "bytea", -1, 1001),
    Type(CHAR, "char", 1, 1002),
    Type(NAME, "name", 64, 1003),
    Type(INT8, "int8", 8, 1016),
    Type(INT2, "int2", 2, 1005),
    Type(INT2VECTOR, "int2vector", -1, 1006),
    Type(INT4, "int4", 4, 1007),
    Type(REGPROC, "regproc", 4, 1008),
    Type(TEXT, "text", -1, 1009),
    Type(OID, "oid", 4, 1028),
    Type(XID, "xid", 4, 1011),
    Type(OIDVECTOR, "oidvector", -1, 1013),
    Type(JSON, "json", -1, 199),
    Type(FLOAT4, "float4", 4, 1021),
    Type(FLOAT8, "float8", 8, 1022),
    Type(BPCHAR, "bpchar", -1, 1014),
    Type(VARCHAR, "varchar", -1, 1015),
    Type(DATE, "date", 4, 1182),
    Type(TIME, "time", 8, 1183),
    Type(TIMESTAMP, "timestamp", 8, 1115),
    Type(TIMESTAMPTZ, "timestamptz", 8, 1185),
    Type(INTERVAL, "interval", 16, 1187),
    Type(NUMERIC, "numeric", -1, 1231),
    Type(REGCLASS, "regclass", 4, 2210),
    Type(REGTYPE, "regtype", 4, 2211),
    Type(UUID, "uuid", 16, 2951),
    Type(JSONB, "jsonb", -1, 3807),
)

BY_OID = {each.oid: each for each in _ALL}
BY_NAME = {each.name: each for each in _ALL}
VECTORS = {INT2VECTOR: INT2, OIDVECTOR: OID}  # arrays that begin at 0, and are written without braces
ELEMENTS = {each.array: each.oid for each in _ALL} | VECTORS  # the oid of an array → that of its elements

TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, NAME, CHAR, UNKNOWN, JSON, 0})
NUMBERS_OF_ROWS = frozenset({OID, XID, REGPROC, REGCLASS, REGTYPE})  # four bytes without a sign


def field(name: str, arrow: pa.DataType, *, table: int = 0, number: int = 0) -> Field:
    """The field that a client is told of for an Arrow column."""
    oid = of_arrow(arrow)
    return Field(name, oid, size(oid), _modifier(arrow), table, number)


def named(schema: pa.Schema, description: Sequence[Any]) -> pa.Schema:
    """DuckDB's Arrow shows a UUID and a JSON as texts; what it says of the columns tells them apart."""
    import pyarrow as pa

    known = {"UUID": pa.uuid(), "JSON": pa.json_(), "UUID[]": pa.list_(pa.uuid()), "JSON[]": pa.list_(pa.json_())}
    kinds = [known.get(str(about[1]), each.type) for each, about in zip(schema, description, strict=True)]
    return pa.schema([pa.field(each.name, kind) for each, kind in zip(schema, kinds, strict=True)])


def size(oid: int) -> int:
    return BY_OID[oid].size if oid in BY_OID else -1


def of_arrow(arrow: pa.DataType) -> int:
    """A list is an array, however deep; a struct and a map are json."""
    import pyarrow as pa

    kinds = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        named = {"arrow.uuid": UUID, "arrow.json": JSON}.get(arrow.extension_name)
        return named if named is not None else of_arrow(arrow.storage_type)
    if kinds.is_dictionary(arrow):
        return of_arrow(arrow.value_type)
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        element = of_arrow(arrow.value_type)
        return element if element in ELEMENTS else BY_OID[element].array
    if kinds.is_decimal(arrow):
        return NUMERIC
    if kinds.is_timestamp(arrow):
        return TIMESTAMP if arrow.tz is None else TIMESTAMPTZ
    if kinds.is_time(arrow):
        return TIME
    if kinds.is_binary(arrow) or kinds.is_large_binary(arrow) or kinds.is_fixed_size_binary(arrow):
        return BYTEA
    if kinds.is_struct(arrow) or kinds.is_map(arrow) or kinds.is_union(arrow):
        return JSON
    return _PLAIN.get(str(arrow), TEXT)


# By what Arrow calls them. A number without a sign needs the next wider one that has one.
_PLAIN = {
    "bool": BOOL, "int8": INT2, "int16": INT2, "int32": INT4, "int64": INT8,
    "uint8": INT2, "uint16": INT4, "uint32": OID, "uint64": NUMERIC,
    "float": FLOAT4, "halffloat": FLOAT4, "double": FLOAT8,
    "date32[day]": DATE, "date64[ms]": DATE, "month_day_nano_interval": INTERVAL,
    "duration[s]": INTERVAL, "duration[ms]": INTERVAL, "duration[us]": INTERVAL, "duration[ns]": INTERVAL,
}  # fmt: skip


def _modifier(arrow: pa.DataType) -> int:
    import pyarrow as pa

    return (arrow.precision << 16 | arrow.scale) + 4 if pa.types.is_decimal(arrow) else -1
