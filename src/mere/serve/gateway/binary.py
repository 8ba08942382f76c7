"""Columns in Postgres's binary format, a whole column at a time.

Values of one size are a matrix of bytes, a row for each; others are a binary array. What stands at a NULL in a matrix
is not meant.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mere.serve.gateway import nested, text, types
from mere.serve.gateway.port import PgError

Matrix = npt.NDArray[np.uint8]
Cells = Any  # a Matrix, or an array of Arrow's, whose types mypy does not know

_EPOCH_DAYS = 10957  # from 1970 to 2000, from where Postgres counts
_EPOCH_MICROS = _EPOCH_DAYS * 86_400_000_000
_NUMBERS = {
    types.INT2: (pa.int16(), ">i2"),
    types.INT4: (pa.int32(), ">i4"),
    types.INT8: (pa.int64(), ">i8"),
    types.FLOAT4: (pa.float32(), ">f4"),
    types.FLOAT8: (pa.float64(), ">f8"),
    **dict.fromkeys(types.NUMBERS_OF_ROWS, (pa.uint32(), ">u4")),
}
_NAN = bytes.fromhex("00000000c0000000")
_INFINITIES = (bytes.fromhex("00000000d0000020"), bytes.fromhex("00000000f0000020"))


def cells(column: pa.Array, oid: int, zone: str) -> Cells:
    column = text.plain(column)
    if oid in types.ELEMENTS and nested.is_list(column.type):
        return _array(column, types.ELEMENTS[oid], zone)
    if oid in _NUMBERS:
        arrow, code = _NUMBERS[oid]
        return matrix(text.numbers(column if column.type == arrow else column.cast(arrow)).astype(code))
    if oid == types.BOOL:
        return np.asarray(column.cast(pa.bool_()).cast(pa.uint8()).fill_null(0)).reshape(-1, 1)
    if oid == types.NUMERIC:
        return _numerics(column)
    if oid in (types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMPTZ):
        return _moments(column, oid)
    if oid == types.INTERVAL:
        return _intervals(column)
    if oid == types.UUID:
        return _uuids(column)
    if oid == types.BYTEA:
        return column.cast(pa.binary())
    written = nested.texts(column, oid, zone)
    return pc.binary_join_element_wise(b"\1", written, b"") if oid == types.JSONB else written


def matrix(values: npt.NDArray[Any]) -> Matrix:
    """Numbers, in the order of their bytes that is meant, as bytes."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def with_lengths(column: pa.Array, found: Cells) -> list[Cells]:
    """The cells as they stand in a row: each behind its length, -1 for NULL."""
    if isinstance(found, np.ndarray):
        framed = np.hstack([matrix(np.full(len(found), found.shape[1], ">i4")), found])
        if not column.null_count:
            return [framed]
        valid = np.asarray(column.is_valid())
        framed[~valid, :4] = 0xFF
        kept = np.ones(framed.shape, np.bool_)
        kept[:, 4:] = valid[:, None]
        return [squeezed(framed, kept)]
    lengths = np.asarray(pc.binary_length(found).fill_null(-1))
    return [matrix(lengths.astype(">i4")), found.fill_null(b"") if found.null_count else found]


def squeezed(rows: Matrix, kept: npt.NDArray[np.bool_]) -> pa.Array:
    """The bytes of each row that are kept, as one value."""
    return text.varied(rows[kept], kept.sum(axis=1))


def joined(pieces: list[Cells]) -> pa.Array:
    """Pieces that stand beside each other, row by row, as one value for each row. Those of one size are put together
    first: that costs nearly nothing."""
    merged: list[Cells] = []
    for piece in pieces:
        if merged and isinstance(piece, np.ndarray) and isinstance(merged[-1], np.ndarray):
            merged[-1] = np.hstack([merged[-1], piece])
        else:
            merged.append(piece)
    arrays = [as_array(piece) for piece in merged]
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, b"")


def as_array(piece: Cells) -> pa.Array:
    if isinstance(piece, np.ndarray):
        return text.varied(piece.ravel(), np.full(len(piece), piece.shape[1]))
    return piece


def _moments(column: pa.Array, oid: int) -> Matrix:
    if oid == types.DATE:
        days = text.numbers(column.cast(pa.date32()).cast(pa.int32())).astype(np.int64)
        shifted = np.where(days >= 2**31 - 1, days, np.where(days <= 1 - 2**31, -(2**31), days - _EPOCH_DAYS))
        return matrix(shifted.astype(">i4"))
    if oid == types.TIME:
        return matrix(text.numbers(column.cast(pa.time64("us"), safe=False).cast(pa.int64())).astype(">i8"))
    if not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC" if oid == types.TIMESTAMPTZ else None))
    instants = text.micros(column)
    top = 2**63 - 1
    finite = np.abs(instants) < top
    shifted = np.where(finite, instants - np.where(finite, _EPOCH_MICROS, 0), np.where(instants > 0, top, -top - 1))
    return matrix(shifted.astype(">i8"))


def _intervals(column: pa.Array) -> Matrix:
    if pa.types.is_duration(column.type):
        rest = text.numbers(column.cast(pa.duration("us"), safe=False).cast(pa.int64()))
        none = np.zeros(len(rest), np.int32)
        return _interval(rest, none, none)
    raw = np.frombuffer(column.buffers()[1], np.dtype([("months", "i4"), ("days", "i4"), ("nanos", "i8")]))
    raw = raw[column.offset : column.offset + len(column)]
    return _interval(np.sign(raw["nanos"]) * (np.abs(raw["nanos"]) // 1000), raw["days"], raw["months"])


def _interval(rest: npt.NDArray[Any], days: npt.NDArray[Any], months: npt.NDArray[Any]) -> Matrix:
    return np.hstack([matrix(rest.astype(">i8")), matrix(days.astype(">i4")), matrix(months.astype(">i4"))])


def _uuids(column: pa.Array) -> Matrix:
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_binary(column.type):
        raw = column.cast(pa.binary(16)).fill_null(bytes(16))
        return np.frombuffer(raw.buffers()[1], np.uint8, 16 * len(raw), 16 * raw.offset).reshape(-1, 16)
    digits = pc.replace_substring(column.cast(pa.string()).fill_null("0" * 32), "-", "")
    return np.frombuffer(bytes.fromhex("".join(digits.to_pylist())), np.uint8).reshape(-1, 16)


def _numerics(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return pa.array([None if each is None else _numeric(repr(each)) for each in column.to_pylist()], pa.binary())
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(38, column.type.scale if pa.types.is_decimal(column.type) else 0))
    scale = column.type.scale
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    valid = np.asarray(column.is_valid())
    # Moved so that the point stands between two groups of four digits; what then needs more than 18 is rare.
    shift = -scale % 4
    small = (words[:, 1] == words[:, 0] >> 63) & (np.abs(words[:, 0]) < 10 ** (18 - shift)) & (words[:, 0] != -(2**63))
    if not (small | ~valid).all():
        spelled = text.scalars(column, types.NUMERIC, "").to_pylist()
        return pa.array([None if each is None else _numeric(each.decode()) for each in spelled], pa.binary())
    return _small_numerics(np.where(valid, words[:, 0], 0) * 10**shift, scale, valid)


def _small_numerics(values: text.Ints, scale: int, valid: text.Mask) -> pa.Array:
    """Of numbers below 1e18 whose last group of four digits is the last after the point."""
    fraction = (scale + 3) // 4  # groups after the point
    rest, groups = np.abs(values), np.zeros((len(values), 5), ">i2")
    for index in range(4, -1, -1):
        rest, groups[:, index] = np.divmod(rest, 10_000)
    filled = groups != 0
    first = np.where(filled.any(axis=1), filled.argmax(axis=1), 5)
    last = np.where(filled.any(axis=1), 4 - filled[:, ::-1].argmax(axis=1), 4)
    zero = first == 5
    head = np.zeros((len(values), 4), ">i2")
    head[:, 0] = last + 1 - first
    head[:, 1] = np.where(zero, 0, 4 - fraction - first)
    head[:, 2] = np.where(values < 0, 0x4000, 0)
    head[:, 3] = scale
    places = np.arange(5)
    inside = (places >= first[:, None]) & (places <= last[:, None])
    kept = np.hstack([np.ones((len(values), 8), np.bool_), np.repeat(inside, 2, axis=1)])
    kept &= valid[:, None]
    rows = np.hstack([head.view(np.uint8).reshape(-1, 8), groups.view(np.uint8).reshape(-1, 10)])
    return text.varied(rows[kept], kept.sum(axis=1), valid)


def _numeric(spelled: str) -> bytes:
    """One number, however many digits it has."""
    if spelled in ("nan", "inf", "-inf"):
        return _NAN if spelled == "nan" else _INFINITIES[spelled == "-inf"]
    negative = spelled.startswith("-")
    mantissa, _, exponent = spelled.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    if exponent:  # of a float: the point moves
        digits, point = whole + fraction, len(whole) + int(exponent)
        digits = digits.rjust(len(digits) - min(point, 0), "0").ljust(point, "0")
        whole, fraction = digits[: max(point, 0)], digits[max(point, 0) :]
    scale = len(fraction)
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups, weight = groups[1:], weight - 1
    while groups and not groups[-1]:
        groups.pop()
    weight = weight if groups else 0
    sign = 0x4000 if negative and groups else 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, sign, scale, *groups)


def _array(column: pa.Array, element: int, zone: str) -> pa.Array:
    depth, values, levels = 1, text.plain(column.flatten()), [nested.offsets(column)]
    while nested.is_list(values.type):
        if values.null_count:
            raise _ragged()
        levels.append(nested.offsets(values))
        depth, values = depth + 1, text.plain(values.flatten())
    framed = joined(with_lengths(values, cells(values, element, zone)))
    starts = levels[0]
    for each in levels[1:]:
        starts = each[starts]
    nulls = np.concatenate([[0], np.cumsum(~np.asarray(values.is_valid()))])
    has_null = nulls[starts[1:]] > nulls[starts[:-1]]
    filled = starts[1:] > starts[:-1]
    head = np.zeros((len(column), 3 + 2 * depth), ">i4")
    head[:, 0], head[:, 1], head[:, 2] = np.where(filled, depth, 0), has_null, element
    for level, sizes in enumerate(_sizes(levels)):
        head[:, 3 + 2 * level], head[:, 4 + 2 * level] = sizes, 1
    kept = np.ones((len(column), 12 + 8 * depth), np.bool_)
    kept[~filled, 12:] = False
    heads = squeezed(head.view(np.uint8).reshape(len(column), -1), kept)
    return pc.if_else(
        column.is_valid(), pc.binary_join_element_wise(heads, nested.glued(starts, framed, b""), b""), None
    )


def _sizes(levels: list[npt.NDArray[np.int32]]) -> list[npt.NDArray[np.int64]]:
    """How long an array is in each dimension, which has to be the same everywhere in it."""
    found = []
    starts = levels[0]  # of the rows, among the lists of the level
    for level, inner in enumerate(levels):
        lengths = np.diff(inner)
        if not level:
            found.append(lengths.astype(np.int64))
            continue
        counts = np.diff(starts)
        first = np.where(counts > 0, np.append(lengths, 0)[np.minimum(starts[:-1], len(lengths))], 0)
        if (lengths != np.repeat(first, counts)).any():
            raise _ragged()
        found.append(first.astype(np.int64))
        starts = inner[starts]
    return found


def _ragged() -> PgError:
    return PgError(
        "2202E",
        "an array with lists of several lengths in it cannot be sent in the binary format",
        hint="Read it as json: to_json(the column).",
    )
