"""The values of a column as bytes, a whole column at a time, and rows made of them.

Values of one size are a matrix of bytes, a row each. Short values of several sizes are a matrix, too, of which only
some bytes count. Others are a binary array. Matrices are joined by copying a few bytes at a time, and the bytes that do
not count are dropped in one step: several times as fast as joining value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Matrix = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Padded:
    """Values of several sizes: a row of bytes for each, those of them that are meant, and how many these are."""

    content: Matrix
    kept: Mask
    lengths: Ints


Cells = Any  # a Matrix, a Padded, or a binary array of Arrow's, whose types mypy does not know. A NULL is anything.


def numbers(column: pa.Array) -> Ints:
    """The numbers of a column, 0 where there is a NULL."""
    column = column.fill_null(0) if column.null_count else column
    kind = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1] or b"", kind, len(column), column.offset * kind.itemsize)


def array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Numbers as a column."""
    return pa.Array.from_buffers(kind, len(values), [None, _buffer(values)])


def flags(mask: Mask) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), mask.size, [None, _bits(mask)])


def valid(column: pa.Array) -> Mask:
    """Where a column is not NULL."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    bits = column.buffers()[0]
    if bits is None:  # nothing but NULLs has none
        return np.zeros(len(column), np.bool_)
    end = column.offset + len(column)
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=end, bitorder="little")[column.offset :].view(np.bool_)


def matrix(values: npt.NDArray[Any]) -> Matrix:
    """Numbers, in the order of their bytes that is meant, as bytes."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def same(value: bytes, rows: int) -> Matrix:
    """One value, for every row."""
    return np.broadcast_to(np.frombuffer(value, np.uint8), (rows, len(value)))


def first(content: Matrix, lengths: Ints) -> Cells:
    """Of each row the first so many bytes."""
    return _without_gaps(content, lengths, _beginnings)


def last(content: Matrix, lengths: Ints) -> Cells:
    """Of each row the last so many bytes."""
    return _without_gaps(content, lengths, _endings)


def _without_gaps(content: Matrix, lengths: Ints, patterns: Any) -> Cells:
    width = content.shape[1]
    if (lengths == width).all():
        return content
    return Padded(content, chosen(patterns(width), lengths), lengths)


@cache
def _beginnings(width: int) -> Mask:
    """By how many bytes are meant, which."""
    found: Mask = np.arange(width) < np.arange(width + 1)[:, None]
    return found


@cache
def _endings(width: int) -> Mask:
    return np.ascontiguousarray(_beginnings(width)[:, ::-1])


def chosen(table: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """These rows of a table of bytes."""
    if not table.shape[1]:
        return np.empty((len(rows), 0), table.dtype)
    return _whole(table)[:, 0].take(rows)[:, None].view(table.dtype)


def _whole(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each row as one thing: those are copied at once, where bytes would be one by one."""
    return table.view(f"V{table.shape[1]}")


def beside(pieces: Sequence[Matrix | Padded]) -> Matrix | Padded:
    """Pieces that stand beside each other, row by row."""
    if len(pieces) == 1:
        return pieces[0]
    content = side_by_side([each.content if isinstance(each, Padded) else each for each in pieces])
    if not any(isinstance(each, Padded) for each in pieces):
        return content
    kept = np.ones(content.shape, np.bool_)
    sizes = np.zeros(len(content), np.int64)
    at = 0
    for each in pieces:
        width = (each.content if isinstance(each, Padded) else each).shape[1]
        if isinstance(each, Padded):
            _whole(kept[:, at : at + width])[:] = _whole(each.kept)
        sizes += each.lengths if isinstance(each, Padded) else width
        at += width
    return Padded(content, kept, sizes)


def side_by_side(pieces: Sequence[Matrix]) -> Matrix:
    found = np.empty((len(pieces[0]), sum(each.shape[1] for each in pieces)), np.uint8)
    at = 0
    for each in pieces:
        width = each.shape[1]
        if width:
            _whole(found[:, at : at + width])[:] = _whole(each)
        at += width
    return found


def joined(pieces: Sequence[Cells]) -> pa.Array:
    """Pieces that stand beside each other, row by row, as one value for each row."""
    arrays: list[pa.Array] = []
    for is_array, run in groupby(pieces, lambda each: isinstance(each, pa.Array)):
        found = list(run)
        arrays += found if is_array else [as_array(beside(found))]
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, b"")


def lengths(cells: Cells) -> Ints:
    """How many bytes each value has."""
    if isinstance(cells, Padded):
        return cells.lengths
    return numbers(pc.binary_length(cells)) if isinstance(cells, pa.Array) else np.full(len(cells), cells.shape[1])


def framed(column: pa.Array, cells: Cells) -> list[Cells]:
    """The cells of a column as they stand in a row: each behind its length, -1 for NULL."""
    nulls = cells if isinstance(cells, pa.Array) else column
    sizes = lengths(cells)
    if nulls.null_count:
        there = valid(nulls)
        sizes, cells = np.where(there, sizes, -1), _without_nulls(cells, there)
    elif isinstance(cells, np.ndarray):
        return [same(cells.shape[1].to_bytes(4, "big"), len(cells)), cells]
    return [matrix(sizes.astype(">i4")), cells]


def _without_nulls(cells: Cells, there: Mask) -> Cells:
    """Nothing where there is a NULL."""
    if isinstance(cells, pa.Array):
        return cells.fill_null(b"")
    content = cells.content if isinstance(cells, Padded) else cells
    kept = chosen(_beginnings(content.shape[1])[[0, -1]], there.astype(np.intp))
    if isinstance(cells, Padded):
        kept &= cells.kept
    return Padded(content, kept, np.where(there, lengths(cells), 0))


def as_array(cells: Cells, nulls: pa.Array | None = None) -> pa.Array:
    """As a binary array; NULL where the column is."""
    if isinstance(cells, pa.Array):
        return cells
    there = valid(nulls) if nulls is not None and nulls.null_count else None
    if isinstance(cells, Padded):
        return varied(_squeezed(cells.content, cells.kept), cells.lengths, there)
    return varied(_buffer(cells), lengths(cells), there)


def varied(content: pa.Buffer, sizes: Ints, there: Mask | None = None) -> pa.Array:
    """A binary array of values that stand one after the other."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    bitmap = None if there is None or there.all() else _bits(there)
    return pa.Array.from_buffers(pa.binary(), len(sizes), [bitmap, pa.py_buffer(offsets), content])


def _squeezed(content: Matrix, kept: Mask) -> pa.Buffer:
    """The bytes that are meant. Arrow takes whole runs of them where NumPy would look at each."""
    every = array(content.ravel(), pa.uint8())
    return every.filter(flags(kept)).buffers()[1]


def _buffer(content: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(content))


def _bits(mask: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))
