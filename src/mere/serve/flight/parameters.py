"""The values of parameters, from an Arrow batch to what a session takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mere.serve.protocol import types
from mere.serve.protocol.port import PgError
from mere.serve.values import decode

_LONGEST = 1 << 20  # bytes of all values of a statement: they travel with each of its handles

_ARROW = {
    types.BOOL: pa.bool_(), types.INT2: pa.int16(), types.INT4: pa.int32(), types.INT8: pa.int64(),
    types.OID: pa.int64(), types.FLOAT4: pa.float32(), types.FLOAT8: pa.float64(),
    types.NUMERIC: pa.decimal128(38, 10), types.BYTEA: pa.binary(), types.DATE: pa.date32(),
    types.TIME: pa.time64("us"), types.TIMESTAMP: pa.timestamp("us"), types.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    types.INTERVAL: pa.month_day_nano_interval(),
}  # fmt: skip


def schema(oids: Sequence[int]) -> pa.Schema:
    """What a client may bind."""
    return pa.schema([pa.field(f"${at}", _arrow(oid)) for at, oid in enumerate(oids, 1)])


def _arrow(oid: int) -> pa.DataType:
    if (element := types.ELEMENTS.get(oid)) is not None:
        return pa.list_(_arrow(element))
    return _ARROW.get(oid, pa.string())


def checked(batches: Sequence[pa.RecordBatch]) -> bytes:
    """The one row of values that was sent, to be kept. PgError where it is not one, or not fit to be read."""
    sent = [batch for batch in batches if batch.num_rows]
    if len(sent) != 1 or sent[0].num_rows != 1:
        raise PgError("0A000", "a statement takes one row of parameters")
    try:
        sent[0].validate(full=True)
    except pa.ArrowException as error:
        raise PgError("22P03", "the values of the parameters are not as Arrow has them") from error
    if any(_is_composed(column.type) for column in sent[0].columns):
        raise PgError("0A000", "a struct, a map or a union cannot be a parameter", hint="Send it as a JSON text.")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sent[0].schema) as writer:
        writer.write_batch(sent[0])
    kept: bytes = sink.getvalue().to_pybytes()
    if len(kept) > _LONGEST:
        raise PgError("54000", f"the values of the parameters take more than {_LONGEST} bytes")
    return kept


def _is_composed(type_: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_dictionary(type_) or kinds.is_list(type_) or kinds.is_large_list(type_):
        return _is_composed(type_.value_type)
    return bool(kinds.is_struct(type_) or kinds.is_map(type_) or kinds.is_union(type_))


def declared(kept: bytes) -> list[int]:
    """The types of the values. A text can be of any: then it follows from where the parameter stands."""
    if not kept:
        return []
    found = [types.of_arrow(each.type) for each in _batch(kept).schema]
    return [0 if oid in types.TEXTS else oid for oid in found]


def values(kept: bytes, oids: Sequence[int]) -> list[Any]:
    if not kept:
        return []
    (row,) = zip(*(column.to_pylist() for column in _batch(kept).columns), strict=True)
    if len(row) != len(oids):
        raise PgError("08P01", f"there are {len(oids)} parameters, but {len(row)} values")
    return [_value(value, oid) for value, oid in zip(row, oids, strict=True)]


def _batch(kept: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(kept).read_next_batch()


def _value(value: Any, oid: int) -> Any:
    if isinstance(value, list):
        element = types.ELEMENTS.get(oid, types.TEXT)
        return [_value(each, element) for each in value]
    if isinstance(value, str):
        return decode.of_text(value, oid)
    if isinstance(value, pa.MonthDayNano):
        return f"{value.months} months {value.days} days {value.nanoseconds / 1e9:.6f} seconds"
    return value
