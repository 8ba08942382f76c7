"""Columns as Postgres's text format, a whole column at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mere.serve.protocol import types
from mere.serve.values import digits
from mere.serve.values.cells import (
    Cells,
    Ints,
    Mask,
    Matrix,
    array,
    as_array,
    beside,
    chosen,
    first,
    flags,
    numbers,
    same,
    side_by_side,
    valid,
    varied,
)

# The times that Arrow writes as Postgres does: from the year 1 to 9999.
_FIRST_DAY, _END_DAY = -719162, 2932897
_DAY = 86_400_000_000
_QUARTER = 900_000_000  # of an hour
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEX = np.array([ord(digit) for digit in "0123456789abcdef"], np.uint8)
_HEX_PAIRS = np.stack([np.repeat(_HEX, 16), np.tile(_HEX, 16)], axis=1)


def plain(column: pa.Array) -> pa.Array:
    """Without what only tells more of a type: an extension, a dictionary."""
    if isinstance(column.type, pa.BaseExtensionType):
        return plain(column.storage)
    return plain(column.dictionary_decode()) if pa.types.is_dictionary(column.type) else column


def scalars(column: pa.Array, oid: int, zone: str) -> pa.Array:
    """A binary array with the texts of a column that is neither a list nor a struct nor a map; NULL stays NULL."""
    return as_array(cells(column, oid, zone), column)


def cells(column: pa.Array, oid: int, zone: str) -> Cells:
    """The same as they are put into rows; NULL may be anything."""
    kind = column.type
    is_ = pa.types
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return column.cast(pa.binary())
    if is_.is_boolean(kind):
        return np.where(numbers(column.cast(pa.uint8())), b"t"[0], b"f"[0]).astype(np.uint8)[:, None]
    if is_.is_integer(kind) and oid == types.REGPROC:
        return _each(column, _function)
    if is_.is_integer(kind):
        return digits.decimals(numbers(column if kind == pa.uint64() else column.cast(pa.int64())), 0)
    if is_.is_floating(kind):
        return _floats(column)
    if is_.is_decimal(kind):
        return _decimals(column)
    if is_.is_date(kind):
        return _dates(column.cast(pa.date32()))
    if is_.is_timestamp(kind):
        return _timestamps(column, zone)
    if is_.is_time(kind):
        return _times(column)
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        return _uuids(column) if oid == types.UUID else _bytes(column)
    if is_.is_interval(kind) or is_.is_duration(kind):
        return _each(column, interval_text)
    return column.cast(pa.string()).cast(pa.binary())


def _function(number: int) -> str:
    """As Postgres shows a regproc."""
    from mere.serve import builtin

    return builtin.functions().get(number, str(number)) if number else "-"


def _each(column: pa.Array, spell: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if each is None else spell(each) for each in _values(column)], pa.string()).cast(pa.binary())


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_duration(column.type):
        nanos = column.cast(pa.duration("ns")).cast(pa.int64()).to_pylist()
        return [None if each is None else (0, 0, each) for each in nanos]
    return column.to_pylist()  # type: ignore[no-any-return]


def replaced(texts: pa.Array, where: Mask, spell: Callable[[int], str]) -> pa.Array:
    """The texts, with those at these rows spelled one by one."""
    rows = np.flatnonzero(where)
    if not len(rows):
        return texts
    spelled = pa.array([spell(row) for row in rows.tolist()], pa.string())
    return pc.replace_with_mask(texts, flags(where), spelled.cast(texts.type))


def _floats(column: pa.Array) -> pa.Array:
    """The shortest text that reads back the same; with an exponent below 1e-4 and from as many digits on as a float is
    always sure of."""
    single = column.type != pa.float64()
    column = column.cast(pa.float32()) if single else column
    values = numbers(column)
    texts = column.cast(pa.string())
    with np.errstate(invalid="ignore"):
        large = np.abs(values)
        whole = (values == np.trunc(values)) & (large < (1e6 if single else 1e15))
        odd = ~((large >= 1e-4) & (large < (1e6 if single else 1e10))) & ~whole
        odd |= (values == 0) & np.signbit(values)
    if whole.any():
        integers = as_array(digits.decimals(np.where(whole, values, 0).astype(np.int64), 0)).cast(pa.string())
        texts = pc.if_else(flags(whole & valid(column)), integers, texts)
    return replaced(texts, odd & valid(column), lambda row: _float(values[row])).cast(pa.binary())


def _float(value: np.floating[Any]) -> str:
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0"
    if isinstance(value, np.float64) and 1e-4 <= abs(value) < 1e15:
        return repr(float(value))
    shortest = np.format_float_scientific(value, unique=True, trim="-", exp_digits=2)
    return shortest if abs(value) < 1 else _inside(value, shortest)


def _inside(value: np.floating[Any], shortest: str) -> str:
    """Postgres takes no text that lies just in the middle between two floats, however a reader would round it."""
    exact = Fraction(float(value))
    with np.errstate(over="ignore"):
        around = [np.nextafter(value, value.dtype.type(end)) for end in (-np.inf, np.inf)]
    reach = min(abs(Fraction(float(each)) - exact) for each in around if np.isfinite(each)) / 2
    digits = len(shortest.partition("e")[0].lstrip("-").replace(".", ""))
    while abs(Fraction(shortest) - exact) == reach:
        shortest = f"{float(value):.{digits}e}"
        digits += 1
    return shortest


def unscaled(column: pa.Array) -> Ints | None:
    """The numbers of a column of decimals without their point; zero for NULL, and None where 64 bits do not do."""
    if not pa.types.is_decimal128(column.type):
        return None
    words = np.frombuffer(column.buffers()[1] or b"", np.int64).reshape(-1, 2)[
        column.offset : column.offset + len(column)
    ]
    found = words[:, 0]
    fits = words[:, 1] == found >> 63
    if column.null_count:
        there = valid(column)
        found, fits = np.where(there, found, 0), fits | ~there
    return found if fits.all() else None


def _decimals(column: pa.Array) -> Cells:
    """With as many digits after the point as the type has."""
    values = unscaled(column) if column.type.scale >= 0 else None
    if values is not None:
        return digits.decimals(values, column.type.scale)
    texts = column.cast(pa.string())
    odd = pc.match_substring(texts, "E").fill_null(False)  # Arrow writes some with an exponent
    if not pc.any(odd).as_py():
        return texts.cast(pa.binary())
    exact = column.filter(odd).to_pylist()
    spelled = pa.array([f"{each:f}" for each in exact], pa.string())
    return pc.replace_with_mask(texts, odd, spelled).cast(pa.binary())


def _dates(column: pa.Array) -> Cells:
    days = numbers(column.cast(pa.int32())).astype(np.int64)
    far = (days < _FIRST_DAY) | (days >= _END_DAY)
    near = _closer(days, far | ~valid(column))
    return _respelled(column, digits.dates(near), far, lambda row: date_text(int(days[row])))


def _closer(values: Ints, elsewhere: Mask) -> Ints:
    """With one of the others in place of those that are elsewhere: tables of what is between are short then."""
    if not elsewhere.any():
        return values
    return np.where(elsewhere, values[elsewhere.argmin()] if not elsewhere.all() else 0, values)


def _respelled(column: pa.Array, found: Cells, odd: Mask, spell: Callable[[int], str]) -> Cells:
    """With those at odd rows spelled one by one."""
    odd = odd & valid(column)
    return replaced(as_array(found, column), odd, spell) if odd.any() else found


def date_text(day: int) -> str:
    if abs(day) >= 2**31 - 1:
        return "infinity" if day > 0 else "-infinity"
    date, era = _civil(day)
    return date + era


def _civil(day: int) -> tuple[str, str]:
    """The date of a day since 1970 in the Gregorian calendar, however far, and its era."""
    era, rest = divmod(day + 719468, 146097)
    year = (rest - rest // 1460 + rest // 36524 - rest // 146096) // 365
    of_year = rest - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year += 400 * era + (month <= 2)
    shown = year if year > 0 else 1 - year
    return f"{shown:04}-{month:02}-{of_year - (153 * shifted + 2) // 5 + 1:02}", "" if year > 0 else " BC"


def micros(column: pa.Array) -> Ints:
    """Since 1970, in UTC, of a column of timestamps."""
    zone = column.type.tz
    found: Ints = numbers(column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()))
    return found


def _timestamps(column: pa.Array, zone: str) -> Cells:
    zoned = column.type.tz is not None
    instants = micros(column)
    local, offsets = _local(instants, zone) if zoned else (instants, None)
    far = (local < _FIRST_DAY * _DAY) | (local >= _END_DAY * _DAY)
    near = _closer(local, far | ~valid(column))
    seconds = near // 1_000_000
    days = seconds // 86_400
    parts = [digits.dates(days), same(b" ", len(days)), *_clocks(seconds - days * 86_400, near - seconds * 1_000_000)]
    if offsets is not None:
        parts.append(_offsets(offsets))
    return _respelled(column, beside(parts), far, lambda row: timestamp_text(int(instants[row]), zoned))


def _clocks(seconds: Ints, fractions: Ints) -> list[Cells]:
    digits_of_fraction = digits.fractions(fractions)
    return [digits.clocks(seconds)] + ([] if digits_of_fraction is None else [digits_of_fraction])


def _local(instants: Ints, zone: str) -> tuple[Ints, Ints]:
    """The same instants by the clocks of a zone, and how many seconds these are ahead."""
    # Outside of these years the zone's tables say nothing.
    near = np.clip(instants, _FIRST_DAY * _DAY + _DAY, _END_DAY * _DAY - 2 * _DAY)
    try:
        offsets = _ahead(near, zone)
    except pa.ArrowInvalid:
        return instants, np.zeros(len(instants), np.int64)  # an unknown zone: UTC, and it says so
    offsets = np.where(near == instants, offsets, 0)
    return instants + offsets * 1_000_000, offsets


def _ahead(instants: Ints, zone: str) -> Ints:
    """By how many seconds. Arrow reads a zone's changes one by one, but not the rule for those after the last."""
    found = _ahead_by_arrow(instants, zone)
    late = instants >= (_LISTED if _are_listed(zone) else _FIRST_DAY * _DAY)
    if late.any():
        found = found.copy()
        found[late] = _ahead_by_rule(instants[late], zone)
    return found


_LISTED = 24_472 * _DAY  # 2037: up to there the changes are listed, mostly
_MONTHS = np.arange("1980-01", "2037-01", dtype="datetime64[M]").astype("datetime64[us]").astype(np.int64)


@cache
def _are_listed(zone: str) -> bool:
    """Some systems keep only those that no rule tells."""
    return bool((_ahead_by_arrow(_MONTHS, zone) == _ahead_by_rule(_MONTHS, zone)).all())


def _ahead_by_arrow(instants: Ints, zone: str) -> Ints:
    shown = pc.local_timestamp(array(instants, pa.timestamp("us", zone))).cast(pa.int64())
    return (numbers(shown) - instants) // 1_000_000


def _ahead_by_rule(instants: Ints, zone: str) -> Ints:
    """Clocks change at full quarters of an hour."""
    quarters, which = np.unique(instants // _QUARTER, return_inverse=True)
    clock = ZoneInfo(zone)
    moments = [_EPOCH + timedelta(minutes=15 * each) for each in quarters.tolist()]
    return np.array([_seconds(each.astimezone(clock)) for each in moments], np.int64)[which]


def _seconds(moment: datetime) -> int:
    ahead = moment.utcoffset()
    assert ahead is not None
    return ahead // timedelta(seconds=1)


def _offsets(seconds: Ints) -> Cells:
    distinct, which = np.unique(seconds, return_inverse=True)
    texts = [_offset(int(each)).encode() for each in distinct]
    width = max(map(len, texts), default=0)
    table = np.array(texts, f"S{width or 1}")[:, None].view(np.uint8)
    return first(chosen(table, which), np.array([len(each) for each in texts])[which])


def _offset(seconds: int) -> str:
    hours, rest = divmod(abs(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    tail = f":{minutes:02}" if minutes or rest else ""
    return f"{'-' if seconds < 0 else '+'}{hours:02}{tail}{f':{rest:02}' if rest else ''}"


def timestamp_text(instant: int, zoned: bool) -> str:
    if abs(instant) >= 2**63 - 1:
        return "infinity" if instant > 0 else "-infinity"
    day, rest = divmod(instant, _DAY)
    date, era = _civil(day)
    return f"{date} {_clock(rest)}{'+00' if zoned else ''}{era}"


def _times(column: pa.Array) -> Cells:
    values = numbers(column.cast(pa.time64("us"), safe=False).cast(pa.int64()))
    late = values >= _DAY
    near = np.where(late, 0, values)
    seconds = near // 1_000_000
    found = beside(_clocks(seconds, near - seconds * 1_000_000))
    return _respelled(column, found, late, lambda _: "24:00:00")


def _clock(rest: int) -> str:
    seconds, fraction = divmod(rest, 1_000_000)
    tail = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{tail}"


def interval_text(value: tuple[int, int, int]) -> str:
    """As Postgres writes one: 1 year 2 mons -3 days +04:05:06."""
    months, days, nanos = value
    years, months = int(months / 12), months - 12 * int(months / 12)
    parts, negative = [], False
    for count, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if count:
            sign = "+" if negative and count > 0 else ""
            parts.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
            negative = count < 0
    rest = nanos // 1000 if nanos >= 0 else -(-nanos // 1000)
    if rest or not parts:
        sign = "-" if rest < 0 else "+" if negative else ""
        parts.append(sign + _clock(abs(rest)))
    return " ".join(parts)


def _bytes(column: pa.Array) -> pa.Array:
    """\\x and two digits for each byte."""
    column = column.cast(pa.binary())
    lengths = numbers(pc.binary_length(column)).astype(np.int32)
    content = np.frombuffer(b"".join(each for each in column.to_pylist() if each is not None), np.uint8)
    written = varied(pa.py_buffer(_HEX_PAIRS[content]), 2 * lengths, valid(column))
    return pc.binary_join_element_wise(b"\\x", written, b"")


def _uuids(column: pa.Array) -> Matrix:
    """Of sixteen bytes each."""
    raw = column.cast(pa.binary(16)).fill_null(bytes(16))
    content = np.frombuffer(raw.buffers()[1], np.uint8, 16 * len(raw), 16 * raw.offset)
    written = _HEX_PAIRS[content].reshape(-1, 32)
    dash = same(b"-", len(raw))
    parts = [written[:, :8], dash, written[:, 8:12], dash, written[:, 12:16], dash, written[:, 16:20], dash]
    return side_by_side([*parts, written[:, 20:]])
