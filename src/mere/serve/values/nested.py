"""Lists as Postgres's arrays; structs and maps as json. Both a whole column at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from mere.serve.protocol import types
from mere.serve.values import text
from mere.serve.values.cells import Cells, array, as_array, numbers, valid

# In an array's text, these have to stand in quotes.
_SPECIAL = rb'[\s{},"\\]|^$|^[nN][uU][lL][lL]$'


def texts(column: pa.Array, oid: int, zone: str) -> pa.Array:
    """A binary array with the texts of any column; NULL stays NULL."""
    return as_array(cells(column, oid, zone), text.plain(column))


def cells(column: pa.Array, oid: int, zone: str) -> Cells:
    """The same as they are put into rows; NULL may be anything."""
    column = text.plain(column)
    if is_list(column.type) and oid in types.VECTORS:
        spelled = texts(text.plain(column.flatten()), types.VECTORS[oid], zone)
        return pc.if_else(column.is_valid(), glued(offsets(column), spelled, b" "), None)
    if is_list(column.type):
        return _array(column, types.ELEMENTS.get(oid, oid), zone)
    if pa.types.is_struct(column.type) or pa.types.is_map(column.type) or pa.types.is_union(column.type):
        return json(column)
    return text.cells(column, oid, zone)


def is_list(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind))


def offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    """Where each list begins among the flattened values; those of a NULL are none."""
    found = np.zeros(len(column) + 1, np.int32)
    np.cumsum(numbers(pc.list_value_length(column)), out=found[1:])
    return found


def glued(starts: npt.NDArray[np.int32], values: pa.Array, between: bytes) -> pa.Array:
    """The values from each start to the next as one."""
    lists = pa.ListArray.from_arrays(array(starts, pa.int32()), values)
    return pc.binary_join(lists, between)


def _array(column: pa.Array, element: int, zone: str) -> pa.Array:
    values = text.plain(column.flatten())
    spelled = texts(values, element, zone)
    if not is_list(values.type):
        spelled = _quoted(spelled, values.type)
    inner = glued(offsets(column), spelled.fill_null(b"NULL"), b",")
    return pc.if_else(column.is_valid(), pc.binary_join_element_wise(b"{", inner, b"}", b""), None)


def _quoted(spelled: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return spelled
    special = pc.match_substring_regex(spelled, _SPECIAL).fill_null(False)
    if not pc.any(special).as_py():
        return spelled
    escaped = pc.replace_substring(pc.replace_substring(spelled, b"\\", b"\\\\"), b'"', b'\\"')
    return pc.if_else(special, pc.binary_join_element_wise(b'"', escaped, b'"', b""), spelled)


def json(column: pa.Array) -> pa.Array:
    """The values of a column as json; NULL stays NULL at the top, and is null inside."""
    column = text.plain(column)
    kind = column.type
    if pa.types.is_struct(kind):
        parts: list[Any] = []
        for index, each in enumerate(kind):
            parts += [(b"{" if not index else b",") + orjson.dumps(each.name) + b":"]
            parts += [json(column.field(index)).fill_null(b"null")]
        written = pc.binary_join_element_wise(*(parts or [b"{"]), b"}", b"")
        return pc.if_else(column.is_valid(), written if parts else pa.scalar(b"{}"), pa.scalar(None, pa.binary()))
    if pa.types.is_map(kind):
        names = _names(column)
        pairs = pc.binary_join_element_wise(names, b":", json(_items(column)).fill_null(b"null"), b"")
        return _enclosed(column, pairs, b"{", b"}")
    if is_list(kind):
        return _enclosed(column, json(column.flatten()).fill_null(b"null"), b"[", b"]")
    return _leaf(column)


def _enclosed(column: pa.Array, values: pa.Array, begin: bytes, end: bytes) -> pa.Array:
    starts = offsets(column) if is_list(column.type) else _map_offsets(column)
    written = pc.binary_join_element_wise(begin, glued(starts, values, b","), end, b"")
    return pc.if_else(column.is_valid(), written, None)


def _map_offsets(column: pa.Array) -> npt.NDArray[np.int32]:
    found = np.zeros(len(column) + 1, np.int32)
    lengths = [0 if each is None else len(each) for each in column.to_pylist()]
    np.cumsum(lengths, out=found[1:])
    return found


def _names(column: pa.Array) -> pa.Array:
    """The keys of all maps, each as the name of a member."""
    written = json(_of_maps(column, column.keys))
    bare = pc.invert(pc.starts_with(written, b'"'))
    return pc.if_else(bare, pc.binary_join_element_wise(b'"', written, b'"', b""), written)


def _items(column: pa.Array) -> pa.Array:
    return _of_maps(column, column.items)


def _of_maps(column: pa.Array, children: pa.Array) -> pa.Array:
    """Of the maps that are there: a slice, and what hides below a NULL, have more children than are meant."""
    starts = numbers(column.offsets)
    there = valid(column)
    if len(starts) == len(column) + 1 and there.all():
        return children.slice(int(starts[0]), int(starts[-1] - starts[0]))
    rows = [np.arange(starts[row], starts[row + 1]) for row in np.flatnonzero(there)]
    return children.take(np.concatenate(rows) if rows else np.zeros(0, np.int64))


def _leaf(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_boolean(kind):
        return pc.if_else(column, b"true", b"false")
    spelled = text.scalars(column, 0, "UTC")
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return spelled
    if pa.types.is_floating(kind):
        finite = pc.is_finite(column)
        return pc.if_else(finite, spelled, pc.binary_join_element_wise(b'"', spelled, b'"', b""))
    if pa.types.is_timestamp(kind):
        spelled = pc.replace_substring(spelled, b" ", b"T", max_replacements=1)
        if kind.tz is not None:
            spelled = pc.replace_substring(spelled, b"+00", b"+00:00", max_replacements=1)
    special = pc.match_substring_regex(spelled, rb'[\x00-\x1f"\\]').fill_null(False)
    quoted = pc.binary_join_element_wise(b'"', spelled, b'"', b"")
    rows = numbers(special.cast(pa.uint8())).view(np.bool_)
    return text.replaced(quoted, rows, lambda row: _string(spelled[row].as_py()))


def _string(raw: bytes) -> str:
    return orjson.dumps(raw.decode(errors="replace")).decode()
