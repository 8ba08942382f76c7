"""Rows of a catalog as an Arrow table. Columns that are not given get Postgres's default.

Column by column, not row by row: a lake of a thousand tables has tens of thousands of columns, and each of them has
five dozen attributes of which most are the same everywhere.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from mere.serve import builtin

if TYPE_CHECKING:
    import pyarrow as pa


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
            value = columns.get(column.name, builtin.zero(column.type) if column.required else None)
            is_empty = value is None or not count
            arrays.append(pa.nulls(count, type_) if is_empty else pa.repeat(pa.scalar(value, type_), count))
    return pa.table(arrays, schema=schema(relation))


@cache
def standard_table(name: str) -> pa.Table:
    """The rows that a table of pg_catalog has in every database."""
    return table(f"pg_catalog.{name}", **{**builtin.columns(name), **builtin.SAME.get(name, {})})


@cache
def schema(relation: str) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(column.name, arrow_type(column.type)) for column in builtin.definitions()[relation].columns])


@cache
def arrow_type(type_: str) -> pa.DataType:
    """DuckDB has no type for oids that would compare with its numbers: they are numbers."""
    import pyarrow as pa

    if element := builtin.element_of(type_):
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
