"""A few rows as DataRow messages, value by value: for so few, Arrow costs more per column than it saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

import pyarrow as pa

from mere.serve.protocol import types
from mere.serve.protocol.port import Field

MOST = 32  # rows
_LONG = 16_384  # bytes of all of them in Arrow

_NULL = (-1).to_bytes(4, "big", signed=True)
_Spell = Callable[[Any], bytes]


def _number(value: int) -> bytes:
    return b"%d" % value


# By Arrow's type, the type on the wire, and the format. Columns of others are `encode`'s.
_SPELLED: dict[tuple[int, int, int], _Spell] = {
    (pa.bool_().id, types.BOOL, 0): lambda value: b"t" if value else b"f",
    (pa.bool_().id, types.BOOL, 1): lambda value: b"\1" if value else b"\0",
    (pa.int16().id, types.INT2, 0): _number,
    (pa.int16().id, types.INT2, 1): Struct(">h").pack,
    (pa.int32().id, types.INT4, 0): _number,
    (pa.int32().id, types.INT4, 1): Struct(">i").pack,
    (pa.int64().id, types.INT8, 0): _number,
    (pa.int64().id, types.INT8, 1): Struct(">q").pack,
    **{(pa.string().id, oid, format_): str.encode for oid in (types.TEXT, types.VARCHAR) for format_ in (0, 1)},
}


def data_rows(batch: pa.RecordBatch, fields: Sequence[Field], formats: Sequence[int]) -> memoryview | None:
    """None where there are too many, or columns of other types."""
    if not 0 < batch.num_rows <= MOST or batch.nbytes > _LONG:
        return None
    columns: list[list[bytes]] = []
    for column, field, format_ in zip(batch.columns, fields, formats, strict=True):
        spell = _SPELLED.get((column.type.id, field.oid, format_))
        if spell is None:
            return None
        columns.append([_framed(None if value is None else spell(value)) for value in column.to_pylist()])
    head = len(columns).to_bytes(2, "big")
    rows = [head + b"".join(row) for row in zip(*columns, strict=True)] if columns else [head] * batch.num_rows
    return memoryview(b"".join(b"D" + (len(row) + 4).to_bytes(4, "big") + row for row in rows))


def _framed(value: bytes | None) -> bytes:
    return _NULL if value is None else len(value).to_bytes(4, "big") + value
