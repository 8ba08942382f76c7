"""Columns in Postgres's binary format, a whole column at a time."""

from __future__ import annotations

import ipaddress
import struct
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mere.serve.protocol import types
from mere.serve.protocol.port import PgError
from mere.serve.values import nested, text
from mere.serve.values.cells import (
    Cells,
    Ints,
    Mask,
    Matrix,
    Padded,
    as_array,
    chosen,
    first,
    framed,
    joined,
    matrix,
    numbers,
    side_by_side,
    valid,
)

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
        return _array(column, types.ELEMENTS[oid], zone, int(oid not in types.VECTORS))
    if oid in _NUMBERS:
        arrow, code = _NUMBERS[oid]
        return matrix(numbers(column if column.type == arrow else column.cast(arrow)).astype(code))
    if oid == types.BOOL:
        return numbers(column.cast(pa.bool_()).cast(pa.uint8()))[:, None]
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
    if oid == types.INET:
        return pa.array([None if each is None else _address(each) for each in column.to_pylist()], pa.binary())
    written = nested.texts(column, oid, zone)
    if oid == types.CHAR:
        return pc.if_else(pc.equal(written, b""), b"\0", written)
    return pc.binary_join_element_wise(b"\1", written, b"") if oid == types.JSONB else written


def _address(written: str) -> bytes:
    found = ipaddress.ip_interface(written)
    family = 2 if found.version == 4 else 3
    return bytes([family, found.network.prefixlen, 0, len(found.ip.packed)]) + found.ip.packed


def _moments(column: pa.Array, oid: int) -> Matrix:
    if oid == types.DATE:
        days = numbers(column.cast(pa.date32()).cast(pa.int32())).astype(np.int64)
        shifted = np.where(days >= 2**31 - 1, days, np.where(days <= 1 - 2**31, -(2**31), days - _EPOCH_DAYS))
        return matrix(shifted.astype(">i4"))
    if oid == types.TIME:
        return matrix(numbers(column.cast(pa.time64("us"), safe=False).cast(pa.int64())).astype(">i8"))
    if not pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC" if oid == types.TIMESTAMPTZ else None))
    instants = text.micros(column)
    top = 2**63 - 1
    finite = np.abs(instants) < top
    shifted = np.where(finite, instants - np.where(finite, _EPOCH_MICROS, 0), np.where(instants > 0, top, -top - 1))
    return matrix(shifted.astype(">i8"))


def _intervals(column: pa.Array) -> Matrix:
    if pa.types.is_duration(column.type):
        rest = numbers(column.cast(pa.duration("us"), safe=False).cast(pa.int64()))
        none = np.zeros(len(rest), np.int32)
        return _interval(rest, none, none)
    raw = np.frombuffer(column.buffers()[1] or b"", np.dtype([("months", "i4"), ("days", "i4"), ("nanos", "i8")]))
    raw = raw[column.offset : column.offset + len(column)]
    return _interval(np.sign(raw["nanos"]) * (np.abs(raw["nanos"]) // 1000), raw["days"], raw["months"])


def _interval(rest: npt.NDArray[Any], days: npt.NDArray[Any], months: npt.NDArray[Any]) -> Matrix:
    return side_by_side([matrix(rest.astype(">i8")), matrix(days.astype(">i4")), matrix(months.astype(">i4"))])


def _uuids(column: pa.Array) -> Matrix:
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_binary(column.type):
        raw = column.cast(pa.binary(16)).fill_null(bytes(16))
        return np.frombuffer(raw.buffers()[1], np.uint8, 16 * len(raw), 16 * raw.offset).reshape(-1, 16)
    digits = pc.replace_substring(column.cast(pa.string()).fill_null("0" * 32), "-", "")
    return np.frombuffer(bytes.fromhex("".join(digits.to_pylist())), np.uint8).reshape(-1, 16)


def _numerics(column: pa.Array) -> Cells:
    if pa.types.is_floating(column.type):
        return pa.array([None if each is None else _numeric(repr(each)) for each in column.to_pylist()], pa.binary())
    if pa.types.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    if not pa.types.is_decimal128(column.type):
        column = column.cast(pa.decimal128(38, column.type.scale if pa.types.is_decimal(column.type) else 0))
    # Moved so that the point stands between two groups of four digits; what then needs more than 18 is rare.
    scale = column.type.scale
    shift = -scale % 4
    values = text.unscaled(column)
    if values is None or (np.abs(values) >= 10 ** (18 - shift)).any() or (values == -(2**63)).any():
        spelled = text.scalars(column, types.NUMERIC, "").to_pylist()
        return pa.array([None if each is None else _numeric(each.decode()) for each in spelled], pa.binary())
    return _small_numerics(values * 10**shift, scale)


_GROUPS = 5  # of four digits, in a number below 1e18


def _small_numerics(values: Ints, scale: int) -> Cells:
    """Of numbers below 1e18 whose last group of four digits is the last after the point."""
    rest = np.abs(values)
    count = max(1, -(-len(str(int(rest.max(initial=0)))) // 4))  # groups of the largest
    before = np.full(len(values), _GROUPS)  # groups that are nothing but zeros, before the first that is not
    for group in range(count):
        before -= rest >= 10_000**group
    after = np.zeros(len(values), np.int64)  # and after the last
    groups = np.empty((len(values), count), ">i2")
    zeros = before < _GROUPS
    for group in range(count - 1, -1, -1):
        above = rest // 10_000
        groups[:, group] = rest - above * 10_000
        zeros = zeros & (groups[:, group] == 0)
        after += zeros
        rest = above
    which = (before * (_GROUPS + 1) + after) * 2 + (values < 0)
    heads, kept = _numeric_shapes(scale)
    return Padded(
        side_by_side([chosen(heads, which), groups.view(np.uint8)]),
        chosen(np.hstack([kept[:, :8], kept[:, 8 + 2 * (_GROUPS - count) :]]), which),
        8 + 2 * np.where(before == _GROUPS, 0, _GROUPS - before - after),
    )


@cache
def _numeric_shapes(scale: int) -> tuple[Matrix, Mask]:
    """By the groups of zeros before and after, and the sign: the head of such a number, and which bytes are meant."""
    fraction = (scale + 3) // 4  # groups after the point
    shapes = list(np.ndindex(_GROUPS + 1, _GROUPS + 1, 2))
    heads, kept = np.zeros((len(shapes), 4), ">i2"), np.zeros((len(shapes), 8 + 2 * _GROUPS), np.bool_)
    for row, (before, after, negative) in enumerate(shapes):
        zero = before == _GROUPS
        heads[row] = (
            0 if zero else max(0, _GROUPS - before - after),
            0 if zero else _GROUPS - 1 - fraction - before,
            0x4000 if negative else 0,
            scale,
        )
        kept[row, :8] = True
        kept[row, 8 + 2 * before : 8 + 2 * (_GROUPS - after)] = True
    return heads.view(np.uint8), kept


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


def _array(column: pa.Array, element: int, zone: str, begin: int) -> pa.Array:
    """`begin`: the number of the first element."""
    depth, values, levels = 1, text.plain(column.flatten()), [nested.offsets(column)]
    while nested.is_list(values.type):
        if values.null_count:
            raise _ragged()
        levels.append(nested.offsets(values))
        depth, values = depth + 1, text.plain(values.flatten())
    rows = joined(framed(values, cells(values, element, zone)))
    starts = levels[0]
    for each in levels[1:]:
        starts = each[starts]
    nulls = np.concatenate([[0], np.cumsum(~valid(values))])
    has_null = nulls[starts[1:]] > nulls[starts[:-1]]
    filled = starts[1:] > starts[:-1]
    head = np.zeros((len(column), 3 + 2 * depth), ">i4")
    head[:, 0], head[:, 1], head[:, 2] = np.where(filled, depth, 0), has_null, element
    for level, sizes in enumerate(_sizes(levels)):
        head[:, 3 + 2 * level], head[:, 4 + 2 * level] = sizes, begin
    heads = as_array(first(head.view(np.uint8), np.where(filled, 12 + 8 * depth, 12)))
    return pc.if_else(column.is_valid(), pc.binary_join_element_wise(heads, nested.glued(starts, rows, b""), b""), None)


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
