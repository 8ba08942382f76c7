"""Column types in Arrow, from their names in Spark and Iceberg."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from mere.errors import ConfigError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.types import TypeVisitor

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


@cache
def of_spark(words: str) -> pa.DataType:
    """`decimal(12, 2)`, `array<struct<id: bigint>>`"""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from mere.sql.spark.read import SparkView

    try:
        return _of(exp.DataType.build(words, dialect=SparkView))
    except (SqlglotError, KeyError, ValueError) as error:
        raise ConfigError(f"`{words}` is not a type of Spark that a test can give rows of") from error


def _of(node: exp.DataType) -> pa.DataType:
    import pyarrow as pa
    from sqlglot import exp

    kinds, inner = exp.DType, node.expressions
    if node.this is kinds.DECIMAL:
        numbers = [int(each.name) for each in inner]
        return pa.decimal128(*(numbers if len(numbers) == 2 else [*numbers, 0] if numbers else [10, 0]))
    if node.this in (kinds.ARRAY, kinds.LIST):
        return pa.list_(_of(inner[0]))
    if node.this is kinds.MAP:
        return pa.map_(_of(inner[0]), _of(inner[1]))
    if node.this is kinds.STRUCT:
        return pa.struct([pa.field(each.name, _of(each.args["kind"])) for each in inner])
    return {
        kinds.BOOLEAN: pa.bool_(),
        kinds.TINYINT: pa.int8(),
        kinds.SMALLINT: pa.int16(),
        kinds.INT: pa.int32(),
        kinds.BIGINT: pa.int64(),
        kinds.FLOAT: pa.float32(),
        kinds.DOUBLE: pa.float64(),
        kinds.TEXT: pa.string(),
        kinds.VARCHAR: pa.string(),
        kinds.CHAR: pa.string(),
        kinds.BINARY: pa.binary(),
        kinds.VARBINARY: pa.binary(),
        kinds.DATE: pa.date32(),
        kinds.TIMESTAMP: pa.timestamp("us", tz="UTC"),
        kinds.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
        kinds.TIMESTAMPLTZ: pa.timestamp("us", tz="UTC"),
        kinds.TIMESTAMPNTZ: pa.timestamp("us"),
    }[node.this]


_OF_ICEBERG = {
    "int": "int",
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
    "fixed": "binary",
}


def of_iceberg(kind: Any) -> pa.DataType:
    """A type as a table's metadata has it."""
    import pyarrow as pa

    def struct(fields: Sequence[tuple[Json, pa.DataType]]) -> pa.DataType:
        return pa.struct([pa.field(each["name"], type_) for each, type_ in fields])

    return TypeVisitor(_of_primitive, pa.list_, pa.map_, struct)(kind)


def _of_primitive(text: str) -> pa.DataType:
    name = text.partition("[")[0]
    return of_spark(_OF_ICEBERG.get(name, name))
