"""Arithmetic that Spark and DuckDB do differently."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from mere.sql.duckdb.pieces import cast_to, or_error, raw
from mere.sql.spark.pieces import INTEGERS, call, number
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import TYPE, type_of
from mere.sql.spark.types import decimal, size_of

_ZERO = exp.Literal.string("Division by zero, which is an error in Spark, too")


def _not_zero(left: exp.Expr, divisor: exp.Expr, value: exp.Expr) -> exp.Expr:
    is_error = exp.and_(exp.paren(divisor.copy()).eq(0), exp.paren(left.copy()).is_(exp.Null()).not_())
    return exp.Case().when(is_error, call("ERROR", _ZERO)).else_(value)


def _computed(node: exp.Expr) -> exp.Expr:
    """Of two kinds of number Spark makes one first; DuckDB takes narrower decimals for the product than it needs."""
    wanted = type_of(node)
    sides: list[exp.Expr] = [exp.paren(each.copy()) for each in (node.this, node.expression)]
    types = [type_of(node.this), type_of(node.expression)]
    if wanted == "double" and types != ["double", "double"]:
        casts = [cast_to(each, "double") for each in sides]
    elif (size := decimal(wanted)) is not None and isinstance(node, exp.Mul):
        a, b = (size_of(each) or (20, 0) for each in types)
        casts = [
            cast_to(sides[0], f"decimal({max(19, a[0])}, {a[1]})"),
            cast_to(sides[1], f"decimal({b[0]}, {b[1]})"),
        ]
    elif size is not None:
        casts = [cast_to(each, f"decimal({size[0]}, {size[1]})") for each in sides]
    else:
        return node
    return exp.paren(type(node)(this=casts[0], expression=casts[1]), copy=False)


def _compared(node: exp.Expr) -> exp.Expr:
    types = {type_of(node.this), type_of(node.expression)}
    if types & {"float", "double"} and any(map(decimal, types)):
        sides = [cast_to(exp.paren(each.copy()), "double") for each in (node.this, node.expression)]
        return type(node)(this=sides[0], expression=sides[1])
    return node


def _divided(node: exp.Expr) -> exp.Expr:
    left, right = node.this, node.expression
    if (size := decimal(type_of(node))) is not None:
        return _not_zero(left, right, _quotient(left, right, size))
    sides = (cast_to(exp.paren(each.copy()), "double") for each in (left, right))
    return _not_zero(left, right, exp.Div(this=next(sides), expression=next(sides), typed=False, safe=False))


def _quotient(left: exp.Expr, right: exp.Expr, size: tuple[int, int]) -> exp.Expr:
    """Of decimals, which DuckDB divides as doubles: by their digits, as integers of 38 digits, half up."""
    a, b = size_of(type_of(left)) or (20, 0), size_of(type_of(right)) or (20, 0)
    shift = size[1] - a[1] + b[1]
    if shift < 0 or a[0] + shift > 38 or b[0] + 1 > 38:
        raise Unlike(f"the quotient of decimals ({a[0]},{a[1]}) and ({b[0]},{b[1]}) has too many digits for DuckDB")
    top, bottom = f"({_digits(left, a[1], shift)})", f"({_digits(right, b[1], 0)})"
    quotient = f"((abs{top} + abs{bottom} // 2) // abs{bottom})"
    sign = f"CASE WHEN ({top} < 0) <> ({bottom} < 0) THEN '-' ELSE '' END"
    ten = f"{10 ** size[1]}::HUGEINT"
    text = f"{sign} || ({quotient} // {ten})::VARCHAR || '.' || lpad(({quotient} % {ten})::VARCHAR, {size[1]}, '0')"
    return cast_to(raw(text), f"decimal({size[0]}, {size[1]})")


def _digits(value: exp.Expr, scale: int, shift: int) -> str:
    text = value.sql(dialect="duckdb")
    whole = f"replace(({text})::VARCHAR, '.', '')::HUGEINT" if scale else f"({text})::HUGEINT"
    return f"{whole} * {10**shift}::HUGEINT"


def _whole(node: exp.Expr) -> exp.Expr:
    sides: list[exp.Expr] = [exp.paren(each.copy()) for each in (node.this, node.expression)]
    if type_of(node) == "double":
        sides = [cast_to(each, "double") for each in sides]
    return _not_zero(node.this, node.expression, type(node)(this=sides[0], expression=sides[1]))


def _pmod(node: exp.Expr) -> exp.Expr:
    left, right = (exp.paren(each.copy()) for each in node.expressions)
    rest = exp.paren(exp.Mod(this=left.copy(), expression=right.copy()))
    up = exp.Mod(this=exp.paren(exp.Add(this=rest.copy(), expression=right.copy())), expression=right.copy())
    return _not_zero(left, right, exp.Case().when(rest < 0, up).else_(rest))


def _round(node: exp.Expr) -> exp.Expr:
    """Spark rounds a double as it is written, half up."""
    digits = node.args.get("decimals")
    if type_of(node.this) not in ("double", "float"):
        return node
    places = int(digits.name) if isinstance(digits, exp.Literal) else 0
    rounded = cast_to(cast_to(cast_to(node.this.copy(), "text"), f"decimal(38, {places})"), "double")
    small = exp.LT(this=call("ABS", node.this), expression=number(f"1e{30 - places}"))
    return exp.Case().when(small, rounded).else_(node.this.copy())


def _whole_number(node: exp.Expr) -> exp.Expr:
    """Of a double, Spark makes a bigint, and of what is none, the nearest."""
    if type_of(node.this) in INTEGERS:
        return exp.paren(node.this.copy(), copy=False)
    if decimal(type_of(node.this)):
        return node
    return or_error(exp.LT(this=call("ABS", node.this), expression=number("9e18")), node.copy())


def _sign(node: exp.Expr) -> exp.Expr:
    if type_of(node.this) not in ("double", "float"):
        return node
    return exp.Case().when(call("ISNAN", node.this), node.this.copy()).else_(node.copy())


def _root(node: exp.Expr) -> exp.Expr:
    return exp.Case().when(exp.paren(node.this.copy()) < 0, raw("'NaN'::DOUBLE")).else_(node.copy())


def _logarithm(node: exp.Expr) -> exp.Expr:
    number = node.expression if isinstance(node, exp.Log) and node.args.get("expression") is not None else node.this
    return exp.Case().when(exp.paren(number.copy()) <= 0, exp.Null()).else_(node.copy())


def _average(node: exp.Expr) -> exp.Expr:
    inner = node.this
    size = decimal(type_of(inner))
    wanted = decimal(type_of(node))
    if (
        size is None
        or wanted is None
        or isinstance(node.parent, exp.Window | exp.Filter)
        or isinstance(inner, exp.Distinct)
    ):
        if wanted is not None:
            raise Unlike("an average of decimals is proven as a plain aggregate only")
        return node
    total = cast_to(exp.Sum(this=inner.copy()), f"decimal({min(38, size[0] + 10)}, {size[1]})")
    total.meta[TYPE] = f"decimal({min(38, size[0] + 10)},{size[1]})"
    count = cast_to(exp.Count(this=inner.copy(), big_int=True), "bigint")
    count.meta[TYPE] = "decimal(19,0)"
    return exp.Case().when(count.copy().eq(0), exp.Null()).else_(_quotient(total, count, wanted))


MENDERS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    **dict.fromkeys(("eq", "neq", "lt", "lte", "gt", "gte", "nullsafeeq", "nullsafeneq"), _compared),
    "add": _computed,
    "avg": _average,
    "ceil": _whole_number,
    "div": _divided,
    "floor": _whole_number,
    "intdiv": _whole,
    "ln": _logarithm,
    "log": _logarithm,
    "mod": _whole,
    "mul": _computed,
    "pmod": _pmod,
    "round": _round,
    "sign": _sign,
    "sqrt": _root,
    "sub": _computed,
}
