"""Converts values of one type into another: unchanged, by a lossless cast, or one by one where a value may not fit."""

from __future__ import annotations

import re
from enum import StrEnum

from mere.pipeline.state.columns import Type

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
# How many digits the whole numbers of a type have at most.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
# Up to how many digits every whole number has an exact one.
_EXACT = {"float": 7, "double": 15}
_INSTANTS = ("timestamp", "timestamp_ntz")


class How(StrEnum):
    AS_IT_IS = "as it is"
    CAST = "cast"  # every value has its counterpart
    CHECK = "check"  # some values may have none


def how(given: Type, wanted: Type, declared: bool) -> How | None:
    """None: they are not of one family. `declared`: somebody has said that it shall be the wanted type."""
    if given == wanted:
        return How.AS_IT_IS
    if not isinstance(given, str) or not isinstance(wanted, str):
        return None
    if _is_number(given) and _is_number(wanted):
        if _holds(wanted, given):
            return How.CAST
        return How.CHECK if declared or not _rounds(given, wanted) else None
    if given == "date" and wanted in _INSTANTS:
        return How.CAST
    if declared and given in _INSTANTS:
        return How.CHECK if wanted == "date" else How.CAST if wanted in _INSTANTS else None
    return None


def _rounds(given: str, wanted: str) -> bool:
    """Whether digits behind the point would go without a word: nobody has asked for that."""
    if not _DECIMAL.fullmatch(wanted):
        return False
    return given in _EXACT or (given not in _DIGITS and _places(given)[1] > _places(wanted)[1])


def is_exact(given: str, wanted: str) -> bool:
    """Whether a value that has no exact counterpart is a bad one, and not one that is rounded: 1.5 is no whole number,
    but 0.125 may become the decimal(10,2) 0.13."""
    whole = wanted in _DIGITS or given in _DIGITS
    return (whole and not _DECIMAL.fullmatch(wanted)) or wanted == "date"


def _is_number(kind: str) -> bool:
    return kind in _DIGITS or kind in _EXACT or _DECIMAL.fullmatch(kind) is not None


def _holds(wide: str, narrow: str) -> bool:
    if wide in _EXACT:
        return (narrow, wide) == ("float", "double") or _DIGITS.get(narrow, 99) <= _EXACT[wide]
    if wide in _DIGITS:
        return _DIGITS.get(narrow, 99) <= _DIGITS[wide]
    whole, fraction = _places(wide)
    if narrow in _DIGITS:
        return _DIGITS[narrow] <= whole
    if narrow in _EXACT:
        return False
    return _places(narrow)[0] <= whole and _places(narrow)[1] <= fraction


def _places(decimal: str) -> tuple[int, int]:
    """Before and behind the point."""
    found = _DECIMAL.fullmatch(decimal)
    assert found
    return int(found[1]) - int(found[2]), int(found[2])
