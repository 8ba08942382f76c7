"""Cursor values as the ledger keeps them, as text: which of two is later, and what lies an overlap before."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation

from mere.errors import SourceError

_MILLISECONDS, _MICROSECONDS = 10**11, 10**14  # from here on, Unix time is not in seconds any more


def later(one: str, other: str) -> str:
    """The greater of two values: as numbers or as times, if both are, else as texts."""
    for read in (_number, _time):
        left, right = read(one), read(other)
        if left is not None and right is not None:
            return one if left >= right else other  # type: ignore[operator]
    return max(one, other)


def less(value: str, overlap: timedelta | int) -> str:
    """`value` less the overlap, written as it was, so that whoever wrote it reads it.

    A length of time below a whole number takes it as Unix time, in the unit that its size says. What is lost to
    rounding makes the result smaller, never greater: rows come twice then, and are not missed.
    """
    if not overlap:
        return value
    number, at = _number(value), _time(value)
    if number is not None:
        return str(number - (_units(number, overlap) if isinstance(overlap, timedelta) else overlap))
    if at is None or not isinstance(overlap, timedelta):
        raise SourceError(
            f"An overlap of {overlap} cannot be taken from {value!r}, the last value of the cursor.",
            remedy="For a date or time, it is a length of time such as `1h`; for a number, a number.",
        )
    try:
        return _written_as(value, at - overlap)
    except OverflowError:
        return _written_as(value, at.min.replace(tzinfo=at.tzinfo))


def _number(value: str) -> Decimal | None:
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _time(value: str) -> datetime | None:
    """A time without a zone is one in UTC."""
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _units(number: Decimal, overlap: timedelta) -> int:
    micros = overlap // timedelta(microseconds=1)
    each = 1_000_000 if number < _MILLISECONDS else 1_000 if number < _MICROSECONDS else 1
    return -(-micros // each)


def _written_as(example: str, at: datetime) -> str:
    if len(example) <= len("2026-11-16") and "T" not in example:
        return date(at.year, at.month, at.day).isoformat()
    has_zone = datetime.fromisoformat(example).tzinfo is not None
    fraction = example.partition(".")[2]
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    precision = "microseconds" if digits > 3 else "milliseconds" if digits else "seconds"
    text = (at if has_zone else at.replace(tzinfo=None)).isoformat(example[10], precision)
    return text.removesuffix("+00:00") + "Z" if example.endswith(("Z", "z")) else text
