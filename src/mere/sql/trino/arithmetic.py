"""Arithmetic, rounding and aggregates of numbers that Spark and Trino do differently."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mere.sql.spark.pieces import INTEGERS, call, number, text
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import TYPE, type_of
from mere.sql.spark.translate import Mender
from mere.sql.spark.types import decimal, size_of
from mere.sql.trino import times
from mere.sql.trino.casts import FLOATS, convert
from mere.sql.trino.pieces import cast_to, in_parens, or_error

_ZERO = text("Division by zero, which is an error in Spark, too")


def _not_zero(left: exp.Expr, divisor: exp.Expr, value: exp.Expr) -> exp.Expr:
    is_error = exp.and_(in_parens(divisor).eq(0), in_parens(left).is_(exp.Null()).not_())
    return exp.Case().when(is_error, call("FAIL", _ZERO)).else_(value)


def _computed(node: exp.Expr) -> exp.Expr:
    """Of two kinds of number Spark makes one first; Trino takes other decimals for the result."""
    if (moved := times.moved(node)) is not None:
        return moved
    wanted = type_of(node)
    if wanted not in (*INTEGERS, *FLOATS) and decimal(wanted) is None:
        raise Unlike(f"`{node.key}` of {type_of(node.this)} is not proven to give the same value in Trino as in Spark")
    if decimal(wanted) is not None and isinstance(node, exp.Mul | exp.Mod):
        sides = [in_parens(each) for each in (node.this, node.expression)]
    else:
        sides = [in_parens(convert(each, wanted)) for each in (node.this, node.expression)]
    plain = exp.paren(type(node)(this=sides[0], expression=sides[1]), copy=False)
    return _not_zero(sides[0], sides[1], plain) if isinstance(node, exp.Mod) else plain


def _divided(node: exp.Expr) -> exp.Expr:
    left, right = node.this, node.expression
    if (size := decimal(type_of(node))) is not None:
        return _not_zero(left, right, _quotient(left, right, size))
    sides = [in_parens(convert(each, "double")) for each in (left, right)]
    return _not_zero(left, right, exp.Div(this=sides[0], expression=sides[1], typed=True, safe=False))


def _quotient(left: exp.Expr, right: exp.Expr, size: tuple[int, int]) -> exp.Expr:
    """Trino's has as many digits behind the point as its sides, and is rounded half up, as Spark's."""
    a = size_of(type_of(left)) or (20, 0)
    if a[0] - a[1] + size[1] > 38:
        raise Unlike(f"the quotient of decimals of {type_of(left)} has too many digits for Trino")
    wide = cast_to(left.copy(), f"DECIMAL(38, {size[1]})")
    below = right.copy() if decimal(type_of(right)) else cast_to(right.copy(), "DECIMAL(19, 0)")
    return exp.Div(this=wide, expression=exp.paren(below, copy=False), typed=True, safe=False)


def _whole(node: exp.Expr) -> exp.Expr:
    """`div`"""
    sides = [in_parens(convert(each, "bigint")) for each in (node.this, node.expression)]
    return _not_zero(sides[0], sides[1], exp.Div(this=sides[0], expression=sides[1], typed=True, safe=False))


def _pmod(node: exp.Expr) -> exp.Expr:
    type_ = type_of(node)
    left, right = (in_parens(convert(each, type_)) for each in node.expressions)
    rest = exp.paren(exp.Mod(this=left.copy(), expression=right.copy()))
    up = exp.Mod(this=exp.paren(exp.Add(this=rest.copy(), expression=right.copy())), expression=right.copy())
    return _not_zero(left, right, exp.Case().when(rest < 0, up).else_(rest))


def _round(node: exp.Expr) -> exp.Expr:
    """Spark rounds a double as it is written, half up."""
    digits = node.args.get("decimals")
    if type_of(node.this) not in FLOATS:
        return node
    places = int(digits.sql()) if digits is not None else 0
    if places < 0:
        raise Unlike("a double is rounded to digits behind the point only")
    rounded = cast_to(cast_to(cast_to(node.this.copy(), "VARCHAR"), f"DECIMAL(38, {places})"), "DOUBLE")
    small = exp.LT(this=call("ABS", node.this), expression=number(f"1e{30 - places}"))
    return exp.Case().when(small, rounded).else_(node.this.copy())


def _whole_number(node: exp.Expr) -> exp.Expr:
    """Of a double, floor and ceil make a bigint in Spark, and of what is none, the nearest."""
    if type_of(node.this) in INTEGERS:
        return exp.paren(node.this.copy(), copy=False)
    if decimal(type_of(node.this)):
        return node
    plain = call("FLOOR" if isinstance(node, exp.Floor) else "CEIL", node.this)
    return or_error(exp.LT(this=call("ABS", node.this), expression=number("9e18")), plain)


def _logarithm(node: exp.Expr) -> exp.Expr:
    base, value = (node.this, node.expression) if node.args.get("expression") is not None else (None, node.this)
    if base is None:
        found = call("LN", value)
    elif isinstance(base.unnest(), exp.Literal) and base.name in ("2", "10"):
        found = call(f"LOG{base.name}", value)
    else:
        found = call("LOG", base, value)
    return exp.Case().when(exp.paren(value.copy()) <= 0, exp.Null()).else_(found)


def _summed(node: exp.Expr) -> exp.Expr:
    inner = node.this
    if type_of(inner) != "float":
        return node
    return type(node)(this=convert(inner, "double"))


def _average(node: exp.Expr) -> exp.Expr:
    inner, wanted = node.this, decimal(type_of(node))
    if wanted is None:
        return _summed(node)
    size = decimal(type_of(inner))
    if size is None or isinstance(node.parent, exp.Window | exp.Filter) or isinstance(inner, exp.Distinct):
        raise Unlike("an average of decimals is proven as a plain aggregate only")
    total = cast_to(exp.Sum(this=inner.copy()), f"DECIMAL({min(38, size[0] + 10)}, {size[1]})")
    total.meta[TYPE] = f"decimal({min(38, size[0] + 10)},{size[1]})"
    count = cast_to(exp.Count(this=inner.copy(), big_int=True), "BIGINT")
    count.meta[TYPE] = "bigint"
    return exp.Case().when(count.copy().eq(0), exp.Null()).else_(_quotient(total, count, wanted))


def _mean(node: exp.Expr) -> exp.Expr:
    (inner,) = node.expressions
    if decimal(type_of(node)) is not None:
        raise Unlike("an average of decimals is proven as avg only")
    return exp.Avg(this=convert(inner, "double") if type_of(inner) == "float" else inner.copy())


def _count(node: exp.Expr) -> exp.Expr:
    """Of several columns, Spark counts the rows of which none is NULL."""
    distinct = node.this
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return node
    known = exp.and_(*(in_parens(each).is_(exp.Null()).not_() for each in distinct.expressions))
    row = exp.Case().when(known, call("ROW", *distinct.expressions))
    return exp.Count(this=exp.Distinct(expressions=[row]), big_int=True)


MENDERS: Mapping[str, Mender] = {
    "add": _computed,
    "avg": _average,
    "ceil": _whole_number,
    "count": _count,
    "div": _divided,
    "floor": _whole_number,
    "intdiv": _whole,
    "ln": _logarithm,
    "log": _logarithm,
    "mean": _mean,
    "mod": _computed,
    "mul": _computed,
    "pmod": _pmod,
    "round": _round,
    "sub": _computed,
    "sum": _summed,
}
