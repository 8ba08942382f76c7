"""Rows of a catalog as an Arrow table: columns that nobody gives are filled with what Postgres has there.

Column by column, not row by row: a lake of a thousand tables has tens of thousands of columns, and each of them has
five dozen attributes of which most are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mere.serve import builtin

if TYPE_CHECKING:
    import pyarrow as pa

Values = Sequence[Any]  # one for each row

_ELEMENTS = {"int2vector": "smallint", "oidvector": "oid", "anyarray": "text"}
_ZEROS: dict[str, Any] = {"boolean": False, "double precision": 0.0, "real": 0.0}
_NUMBERS = frozenset({"oid", "regproc", "smallint", "integer", "bigint", "xid", "cardinal_number"})


def table(relation: str, /, **columns: Any) -> pa.Table:
    """`columns`: a list of values, or one value that all rows have."""
    import pyarrow as pa

    definition = builtin.definitions()[relation]
    lists = {name: values for name, values in columns.items() if isinstance(values, list | tuple)}
    count = len(next(iter(lists.values()))) if lists else 0
    unknown = columns.keys() - {column.name for column in definition.columns}
    assert not unknown, f"{relation} has no column {unknown}"
    arrays = []
    for column in definition.columns:
        type_ = arrow_type(column.type)
        if column.name in lists:
            arrays.append(pa.array(lists[column.name], type_))
        else:
            value = columns.get(column.name, zero(column.type) if column.required else None)
            is_empty = value is None or not count
            arrays.append(pa.nulls(count, type_) if is_empty else pa.repeat(pa.scalar(value, type_), count))
    return pa.table(arrays, schema=schema(relation))


@cache
def schema(relation: str) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in builtin.definitions()[relation].columns])


def element_of(type_: str) -> str | None:
    """The type of what is in an array."""
    return type_[:-2] if type_.endswith("[]") else _ELEMENTS.get(type_)


def zero(type_: str) -> Any:
    """What a column holds that is never NULL and says nothing."""
    if type_ in _NUMBERS:
        return 0
    return [] if element_of(type_) else _ZEROS.get(type_, "")


@cache
def arrow_type(type_: str) -> pa.DataType:
    """DuckDB has no type for oids that would compare with its numbers: they are numbers."""
    import pyarrow as pa

    if element := element_of(type_):
        return pa.list_(arrow_type(element))
    known = {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "integer": pa.int32(),
        "cardinal_number": pa.int32(),
        "bigint": pa.int64(),
        "oid": pa.int64(),
        "xid": pa.int64(),
        "regproc": pa.int64(),
        "real": pa.float32(),
        "double precision": pa.float64(),
        "numeric": pa.decimal128(38, 0),
        "interval": pa.duration("us"),
        "bytea": pa.binary(),
        "timestamp with time zone": pa.timestamp("us", "UTC"),
        "time_stamp": pa.timestamp("us", "UTC"),
    }
    return known.get(type_, pa.string())
