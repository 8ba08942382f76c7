"""Spark's types: their names in a `proven.tsv`, and the rules for decimals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Columns = list[tuple[str, str]]  # names and types

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
# The decimal that Spark makes of an integer beside a decimal.
INTEGERS = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}
UNKNOWN = "unknown"
_MAX = 38


def decimal(type_: str) -> tuple[int, int] | None:
    found = _DECIMAL.fullmatch(type_)
    return (int(found[1]), int(found[2])) if found else None


def named(type_: str) -> str:
    """A type as it stands in a form: decimals are one, whatever their precision."""
    return "struct" if type_.startswith("struct<") else _DECIMAL.sub("decimal", type_)


def fields(struct: str) -> Columns:
    """Of a struct, by the commas and colons that are not inside of an inner type."""
    found, depth, start = [], 0, 0
    inside = struct[len("struct<") : -1] + ","
    for at, letter in enumerate(inside):
        depth += {"<": 1, ">": -1, "(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            name, _, type_ = inside[start:at].partition(":")
            found.append((name.strip("`"), type_))
            start = at + 1
    return found


# Decimals

Size = tuple[int, int]  # precision and scale


def size_of(type_: str) -> Size | None:
    return decimal(type_) or INTEGERS.get(type_)


def _text(size: Size) -> str:
    return f"decimal({size[0]},{size[1]})"


def _adjusted(precision: int, scale: int) -> Size:
    if precision <= _MAX:
        return precision, scale
    whole = precision - scale
    return _MAX, max(_MAX - whole, min(scale, 6))


def _sum_of(a: Size, b: Size) -> Size:
    scale = max(a[1], b[1])
    return _adjusted(max(a[0] - a[1], b[0] - b[1]) + scale + 1, scale)


def _product_of(a: Size, b: Size) -> Size:
    return _adjusted(a[0] + b[0] + 1, a[1] + b[1])


def _quotient_of(a: Size, b: Size) -> Size:
    scale = max(6, a[1] + b[0] + 1)
    return _adjusted(a[0] - a[1] + b[1] + scale, scale)


def _rest_of(a: Size, b: Size) -> Size:
    scale = max(a[1], b[1])
    return _adjusted(min(a[0] - a[1], b[0] - b[1]) + scale, scale)


_PAIRS: dict[str, Callable[[Size, Size], Size]] = {
    "add": _sum_of,
    "sub": _sum_of,
    "mul": _product_of,
    "div": _quotient_of,
    "mod": _rest_of,
}


def decimal_result(name: str, sizes: Sequence[Size], digits: int = 0) -> str:
    """The type of what a function, or an operator, makes of decimals; `digits`: to which round() rounds."""
    first = sizes[0]
    if name in _PAIRS:
        return _text(_PAIRS[name](sizes[0], sizes[1]))
    match name:
        case "sum":
            return _text((min(_MAX, first[0] + 10), first[1]))
        case "avg" | "mean":
            return _text((min(_MAX, first[0] + 4), min(_MAX, first[1] + 4)))
        case "ceil" | "ceiling" | "floor":
            return _text((min(_MAX, first[0] - first[1] + 1), 0))
        case "round":
            scale = min(first[1], max(digits, 0))
            whole = first[0] - first[1] + 1
            return _text((min(_MAX, max(whole, 1 - digits) if digits < 0 else whole + scale), scale))
    scale = max(each[1] for each in sizes)
    return _text((min(_MAX, max(each[0] - each[1] for each in sizes) + scale), scale))
