"""Values that a client binds, from Postgres's text or binary format to Python."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from mere.serve.protocol import types
from mere.serve.protocol.body import Body, utf8
from mere.serve.protocol.port import PgError
from mere.serve.values import text

_DEEPEST = 6  # dimensions of an array, as Postgres allows
_EPOCH = datetime(2000, 1, 1)


def value(raw: bytes | None, oid: int, format_: int) -> Any:
    """None for NULL. 22P02 or 22P03 where it is not one of the type."""
    if raw is None:
        return None
    try:
        return _binary(raw, oid) if format_ else of_text(utf8(raw), oid)
    except (ValueError, InvalidOperation, OverflowError, struct.error) as error:
        if format_:
            raise PgError("22P03", f"incorrect binary data format for type {_name(oid)}") from error
        raise _unfit(oid, utf8(raw)) from error


def of_text(written: str, oid: int) -> Any:
    if "\0" in written:
        raise PgError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    if oid in types.ELEMENTS:
        return _array(written, types.ELEMENTS[oid])
    read = _TEXTS.get(oid)
    if read is None:
        return written
    try:
        return read(written.strip())
    except (ValueError, InvalidOperation) as error:
        raise _unfit(oid, written) from error


def _unfit(oid: int, written: str) -> PgError:
    if oid in (types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMPTZ, types.INTERVAL):
        return PgError("22007", f'invalid input syntax for type {_name(oid)}: "{written}"')
    return PgError("22P02", f'invalid input syntax for type {_name(oid)}: "{written}"')


_LONG_NAMES = {
    types.BOOL: "boolean", types.INT2: "smallint", types.INT4: "integer", types.INT8: "bigint", types.FLOAT4: "real",
    types.FLOAT8: "double precision", types.TIMESTAMP: "timestamp", types.TIMESTAMPTZ: "timestamp with time zone",
}  # fmt: skip


def _name(oid: int) -> str:
    return _LONG_NAMES.get(oid) or (types.BY_OID[oid].name if oid in types.BY_OID else "array")


# Text


def _bool(written: str) -> bool:
    word = written.lower()
    if not word:
        raise ValueError
    for meaning, words in ((True, ("true", "yes", "on", "1")), (False, ("false", "no", "off", "0"))):
        if any(each.startswith(word) for each in words) and word != "o":
            return meaning
    raise ValueError


def _int(oid: int) -> Callable[[str], int]:
    unsigned = oid in types.NUMBERS_OF_ROWS
    bits = 8 * types.BY_OID[oid].size
    lowest, top = (0, 2**bits) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))

    def read(written: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", written) or len(written) > 40:
            raise ValueError
        found = int(written)
        if not lowest <= found < top:
            raise PgError("22003", f'value "{written}" is out of range for type {_name(oid)}')
        return found

    return read


def _float(written: str) -> float:
    if not re.fullmatch(r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|inf(inity)?|nan)", written, re.IGNORECASE):
        raise ValueError
    return float(written)


def _decimal(written: str) -> Decimal:
    if not re.fullmatch(
        r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,5})?|inf(inity)?|nan)", written, re.IGNORECASE
    ):
        raise ValueError
    return Decimal(written)


def _bytes(written: str) -> bytes:
    if written.startswith("\\x"):
        return bytes.fromhex(written[2:])
    # The older spelling: what is printable as it is, else \ooo.
    return re.sub(rb"\\(\\|[0-3][0-7]{2})", lambda each: _octal(each[1]), written.encode())


def _octal(escaped: bytes) -> bytes:
    return escaped if escaped == b"\\" else bytes([int(escaped, 8)])


def _date(written: str) -> date | str:
    """Another spelling than ISO's is left to DuckDB, as one that Python has no date for."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)([ T]\d\d:\d\d.*)?", written)
    return date.fromisoformat(found[1]) if found and not written.endswith("BC") else _moment(written)


def _moment(written: str) -> str:
    if not re.search(r"\d|infinity|epoch|now|today|tomorrow|yesterday", written, re.IGNORECASE):
        raise ValueError
    return written


def _time(written: str) -> time | str:
    try:
        return time.fromisoformat(written).replace(tzinfo=None)
    except ValueError:
        return _moment(written)


def _timestamp(written: str) -> datetime | str:
    try:
        return datetime.fromisoformat(written).replace(tzinfo=None)
    except ValueError:
        return _moment(written)


def _timestamptz(written: str) -> datetime | str:
    """Without an offset it is a time in the session's zone, which the session knows."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return _moment(written)
    return written if found.tzinfo is None else found.astimezone(UTC)


_TEXTS: dict[int, Callable[[str], Any]] = {
    types.BOOL: _bool,
    **{oid: _int(oid) for oid in (types.INT2, types.INT4, types.INT8, *types.NUMBERS_OF_ROWS)},
    types.FLOAT4: _float,
    types.FLOAT8: _float,
    types.NUMERIC: _decimal,
    types.BYTEA: _bytes,
    types.DATE: _date,
    types.TIME: _time,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMPTZ: _timestamptz,
    types.UUID: UUID,
}
# A name may stand in place of the number of a class or a type: the session looks it up.
for _oid in types.NUMBERS_OF_ROWS - {types.OID}:
    _read = _TEXTS[_oid]
    _TEXTS[_oid] = lambda written, read=_read: read(written) if written.isdigit() else written  # type: ignore[misc]

_FLAT = re.compile(r'\s*\{([^{}"\\]*)\}\s*')  # an array of one dimension, with nothing in quotes
_TOKEN = re.compile(r'\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|((?:[^{},"\\]|\\.)+))', re.DOTALL)


def _array(written: str, element: int) -> list[Any]:
    body = re.sub(r"^\s*(\[[-+]?\d+:[-+]?\d+\])+\s*=\s*", "", written)  # with the bounds of its dimensions
    if (flat := _FLAT.fullmatch(body)) is not None:
        return [_element(each.strip(), written, element) for each in _parts(flat[1])] if flat[1].strip() else []
    tokens = _tokens(body)
    if next(tokens, None) != ("{", None):
        raise PgError("22P02", f'malformed array literal: "{written}"')
    try:
        found = _elements(tokens, element, 1)
        if next(tokens, None) is not None:
            raise ValueError
    except (ValueError, StopIteration) as error:
        raise PgError("22P02", f'malformed array literal: "{written}"') from error
    return found


def _parts(inside: str) -> Iterator[str]:
    """Between the commas, one after the other: all of them at once would take far more memory than the text."""
    start = 0
    while (end := inside.find(",", start)) >= 0:
        yield inside[start:end]
        start = end + 1
    yield inside[start:]


def _element(said: str, written: str, element: int) -> Any:
    if not said:
        raise PgError("22P02", f'malformed array literal: "{written}"')
    return None if said.upper() == "NULL" else of_text(said, element)


def _tokens(body: str) -> Iterator[tuple[str, str | None]]:
    """A brace or a comma; or `value` with what it says."""
    at, end = 0, len(body.rstrip())
    while at < end:
        found = _TOKEN.match(body, at)
        if found is None:
            raise ValueError
        at = found.end()
        if found[1]:
            yield found[1], None
        elif found[2] is not None:
            yield "quoted", re.sub(r"\\(.)", r"\1", found[2], flags=re.DOTALL)
        else:
            yield "bare", re.sub(r"\\(.)", r"\1", found[3].strip(), flags=re.DOTALL)


def _elements(tokens: Iterator[tuple[str, str | None]], element: int, depth: int) -> list[Any]:
    found: list[Any] = []
    if depth > _DEEPEST:
        raise PgError("54000", f"number of array dimensions exceeds the maximum allowed ({_DEEPEST})")
    kind, said = next(tokens)
    if kind == "}":
        return found
    while True:
        if kind == "{":
            found.append(_elements(tokens, element, depth + 1))
        elif kind == "quoted":
            found.append(of_text(said or "", element))
        elif kind == "bare":
            found.append(None if said is not None and said.upper() == "NULL" else of_text(said or "", element))
        else:
            raise ValueError
        kind, _ = next(tokens)
        if kind == "}":
            return found
        if kind != ",":
            raise ValueError
        kind, said = next(tokens)


# Binary


def _binary(raw: bytes, oid: int) -> Any:
    if oid in types.ELEMENTS:
        return _binary_array(raw)
    if oid in _PACKED:
        return _PACKED[oid].unpack(raw)[0]
    read = _BINARIES.get(oid)
    if read is not None:
        return read(raw)
    written = utf8(raw)
    if "\0" in written:
        raise PgError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return written


_PACKED = {
    types.BOOL: struct.Struct("!?"),
    types.INT2: struct.Struct("!h"),
    types.INT4: struct.Struct("!i"),
    types.INT8: struct.Struct("!q"),
    **dict.fromkeys(types.NUMBERS_OF_ROWS, struct.Struct("!I")),
    types.FLOAT4: struct.Struct("!f"),
    types.FLOAT8: struct.Struct("!d"),
}


def _binary_numeric(raw: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    special = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}.get(sign)
    if special:
        return Decimal(special)
    groups = struct.unpack(f"!{count}h", raw[8:])
    if any(not 0 <= each < 10_000 for each in groups) or sign not in (0, 0x4000) or scale < 0:
        raise ValueError
    digits = "".join(f"{each:04}" for each in groups) or "0"
    exponent = 4 * (weight + 1 - count) if groups else 0
    # As many digits after the point as were sent.
    if -exponent < scale:
        digits, exponent = digits + "0" * (scale + exponent), -scale
    elif -exponent > scale and not digits[len(digits) + exponent + scale :].strip("0"):
        digits, exponent = digits[: len(digits) + exponent + scale] or "0", -scale
    return Decimal(f"{'-' if sign else ''}{digits}e{exponent}")


def _binary_date(raw: bytes) -> date | str:
    (days,) = struct.unpack("!i", raw)
    if abs(days) >= 2**31 - 1:
        return "infinity" if days > 0 else "-infinity"
    try:
        return (_EPOCH + timedelta(days=days)).date()
    except OverflowError:
        return text.date_text(days + 10957)


def _binary_timestamp(raw: bytes, zoned: bool = False) -> datetime | str:
    (micros,) = struct.unpack("!q", raw)
    if abs(micros) >= 2**63 - 1:
        return "infinity" if micros > 0 else "-infinity"
    try:
        return (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=UTC if zoned else None)
    except OverflowError:
        return text.timestamp_text(micros + 10957 * 86_400_000_000, zoned)


def _binary_time(raw: bytes) -> time | str:
    (micros,) = struct.unpack("!q", raw)
    if micros == 86_400_000_000:
        return "24:00:00"
    if not 0 <= micros < 86_400_000_000:
        raise ValueError
    return (_EPOCH + timedelta(microseconds=micros)).time()


def _binary_interval(raw: bytes) -> str:
    micros, days, months = struct.unpack("!qii", raw)
    return text.interval_text((months, days, micros * 1000))


def _binary_jsonb(raw: bytes) -> str:
    if raw[:1] != b"\1":
        raise ValueError
    return utf8(raw[1:])


_BINARIES: dict[int, Callable[[bytes], Any]] = {
    types.NUMERIC: _binary_numeric,
    types.BYTEA: bytes,
    types.DATE: _binary_date,
    types.TIME: _binary_time,
    types.TIMESTAMP: _binary_timestamp,
    types.TIMESTAMPTZ: lambda raw: _binary_timestamp(raw, zoned=True),
    types.INTERVAL: _binary_interval,
    types.UUID: lambda raw: UUID(bytes=raw),
    types.JSONB: _binary_jsonb,
}


def _binary_array(raw: bytes) -> list[Any]:
    body = Body(raw)
    depth, _, element = body.int32(), body.int32(), body.int32()
    if not 0 <= depth <= _DEEPEST:
        raise ValueError
    sizes = [(body.int32(), body.int32())[0] for _ in range(depth)]
    found = _dimension(body, element, sizes) if depth else []
    body.end()
    return found


def _dimension(body: Body, element: int, sizes: list[int]) -> list[Any]:
    if not 0 <= sizes[0] <= body.left // 4:
        raise ValueError
    if len(sizes) > 1:
        return [_dimension(body, element, sizes[1:]) for _ in range(sizes[0])]
    return [value(body.value(), element, 1) for _ in range(sizes[0])]
