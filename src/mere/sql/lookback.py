"""How far before a window a query looks: `:start - INTERVAL 30 DAYS`."""

from __future__ import annotations

from datetime import timedelta

from sqlglot import exp

from mere.sql.mixing import inside

_HOURS = {"HOUR": 1, "DAY": 24, "WEEK": 24 * 7}
_ADDS = (exp.TsOrDsAdd, exp.DateAdd, exp.TimestampAdd)
_SUBTRACTS = (exp.DateSub, exp.TimestampSub)


def placeholder(node: exp.Expr) -> tuple[str, timedelta] | None:
    """The name of a placeholder, also as a date, and how much is taken from it; None if it is something else."""
    node = inside(node)
    if isinstance(node, exp.Placeholder):
        return node.name, timedelta()
    back = _back(node)
    found = placeholder(node.this) if back is not None else None
    return (found[0], found[1] + back) if found and back is not None else None


def _back(node: exp.Expr) -> timedelta | None:
    if isinstance(node, exp.Sub):
        return _length(node.expression)
    if isinstance(node, exp.Add):
        return _negative(_length(node.expression))
    if isinstance(node, _SUBTRACTS):
        return _times(node.expression, node.args.get("unit"))
    if isinstance(node, _ADDS):
        return _negative(_times(node.expression, node.args.get("unit")))
    return None


def _length(node: exp.Expr) -> timedelta | None:
    """Of an interval; a bare number is one of days."""
    match node:
        case exp.Paren():
            return _length(node.this)
        case exp.Add():  # INTERVAL 1 DAY 12 HOURS
            parts = [_length(node.this), _length(node.expression)]
            return sum(filter(None, parts), timedelta()) if None not in parts else None
        case exp.Interval():
            return _times(node.this, node.args.get("unit"))
    return _times(node, None)


def _times(count: exp.Expr, unit: exp.Expr | None) -> timedelta | None:
    name = unit.name.upper().removesuffix("S") if unit is not None else "DAY"
    number = _number(count)
    return timedelta(hours=number * _HOURS[name]) if number is not None and name in _HOURS else None


def _number(node: exp.Expr) -> int | None:
    match node:
        case exp.Literal():
            return int(node.name) if node.name.isdecimal() else None
        case exp.Paren():
            return _number(node.this)
        case exp.Neg():
            inner = _number(node.this)
            return None if inner is None else -inner
        case exp.Mul():
            left, right = _number(node.this), _number(node.expression)
            return None if left is None or right is None else left * right
    return None


def _negative(length: timedelta | None) -> timedelta | None:
    return None if length is None else -length
