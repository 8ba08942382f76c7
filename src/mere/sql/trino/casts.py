"""From one type to another, as Spark casts: explicitly, and where it brings values together."""

from __future__ import annotations

import re

from sqlglot import exp

from mere.sql.spark.pieces import INTEGERS, call, text
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import TYPE, type_of
from mere.sql.spark.types import decimal
from mere.sql.trino.pieces import UTC, cast_to, in_parens, known_of, matches, or_error
from mere.sql.trino.types import TIMESTAMP, in_trino

FLOATS = ("float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
# Texts that both engines read as the same value; others are left to Spark.
_READABLE = {
    "int": r"[+-]?[0-9]+",
    "double": r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "decimal": r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "timestamp": r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?",
    "boolean": r"[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[tTfF01]",
}


def convert(value: exp.Expr, target: str) -> exp.Expr:
    """A value as another type, as Spark casts it."""
    source = type_of(value)
    converted = value.copy() if source == target else _converted(value.copy(), source, target)
    converted.meta[TYPE] = target
    return converted


def _converted(value: exp.Expr, source: str, target: str) -> exp.Expr:
    wanted = in_trino(target)
    if wanted is None:
        raise Unlike(f"a cast to {target} is not proven to give the same value in Trino as in Spark")
    if source == "void":
        return cast_to(value, wanted)
    if source == "string":
        return _from_text(value, target, wanted)
    if target == "string":
        return _to_text(value, source)
    if source in _TIMES:
        return _from_time(value, source, target)
    if target in INTEGERS and (decimal(source) or source in FLOATS):
        return cast_to(call("TRUNCATE", value), wanted)  # Trino rounds
    if decimal(target) and source in FLOATS:
        return cast_to(cast_to(value, "VARCHAR"), wanted)  # Spark rounds what the number is written as
    if source == "binary" or target == "binary" or target in _TIMES:
        raise Unlike(f"a cast of {source} to {target} is not proven to give the same value in Trino as in Spark")
    return cast_to(value, wanted)


def _from_text(value: exp.Expr, target: str, wanted: str) -> exp.Expr:
    if target == "binary":
        return call("TO_UTF8", value)
    kind = "int" if target in INTEGERS else "decimal" if decimal(target) else target
    pattern = _READABLE["double" if kind in FLOATS else kind.removesuffix("_ntz")]
    read: exp.Expr = cast_to(value.copy(), wanted)
    if kind in _TIMES:
        read = _instant(cast_to(value.copy(), TIMESTAMP)) if target == "timestamp" else read
        if isinstance(value, exp.Literal) and re.fullmatch(pattern, value.name):
            return read
        return or_error(matches(value, pattern), read)
    trimmed = exp.Trim(this=value.copy(), expression=text(" "), position="BOTH")
    read.set("this", trimmed)
    return or_error(matches(trimmed, pattern), read)


def _to_text(value: exp.Expr, source: str) -> exp.Expr:
    if source in FLOATS:
        raise Unlike("Trino writes doubles otherwise than Spark")
    if source == "binary":
        return call("FROM_UTF8", value)
    if source in ("timestamp", "timestamp_ntz"):
        # Of the digits of a second, Spark leaves out the zeros at the end.
        written: exp.Expr = cast_to(cast_to(value, TIMESTAMP), "VARCHAR")
        for end in ("0", "."):
            written = exp.Trim(this=written, expression=text(end), position="TRAILING")
        return written
    return cast_to(value, "VARCHAR")


def _from_time(value: exp.Expr, source: str, target: str) -> exp.Expr:
    """Times without a zone are in UTC, whatever the zone of the session. So are all instants, as Iceberg has them."""
    match source, target:
        case "date", "timestamp_ntz":
            return cast_to(value, TIMESTAMP)
        case "date", "timestamp":
            return _instant(cast_to(value, TIMESTAMP))
        case "timestamp_ntz", "timestamp":
            return _instant(value)
        case "timestamp", "timestamp_ntz":
            return cast_to(value, TIMESTAMP)
        case _, "date":
            return cast_to(value, "DATE")
        case "timestamp", "bigint":
            return seconds(value)
    raise Unlike(f"a cast of {source} to {target} is not proven to give the same value in Trino as in Spark")


def _instant(value: exp.Expr) -> exp.Expr:
    return call("WITH_TIMEZONE", value, UTC)


def seconds(value: exp.Expr) -> exp.Expr:
    """Since 1970, rounded down. A double has digits enough for whole seconds only."""
    return cast_to(call("TO_UNIXTIME", call("DATE_TRUNC", text("second"), value)), "BIGINT")


def cast(node: exp.Expr) -> exp.Expr:
    return convert(node.this, type_of(node))


def try_cast(node: exp.Expr) -> exp.Expr:
    if not node.args.get("safe"):
        return cast(node)
    if type_of(node.this) == "string":
        raise Unlike("try_cast of a text gives NULL for texts that Spark reads")
    return call("TRY", convert(node.this, type_of(node)))


# Where values come together


def together(*values: exp.Expr) -> str | None:
    """The type in which Spark compares values of these types; None: Trino finds the same one by itself."""
    types = {type_of(each) for each in values} - {"void"}
    if len(types) <= 1:
        return None
    if types <= set(_TIMES):
        return max(types, key=_TIMES.index)
    others = types - {"string"}
    if "string" in types and len(others) == 1 and others <= set(_TIMES) and all(map(_is_literal_or_time, values)):
        return others.pop()
    if "string" in types or "boolean" in types or "binary" in types:
        raise Unlike(
            f"a comparison of {' with '.join(sorted(types))} is not proven to be the same in Trino as in Spark"
        )
    if types & set(FLOATS):
        return "double"
    return None


def _is_literal_or_time(value: exp.Expr) -> bool:
    return isinstance(value, exp.Literal) or type_of(value) in _TIMES


def compared(node: exp.Expr) -> exp.Expr:
    """To Spark, a NaN is equal to itself and greater than all others."""
    a, b = node.this, node.expression
    if (type_ := together(a, b)) is not None:
        a, b = convert(a, type_), convert(b, type_)
    a, b = in_parens(a), in_parens(b)
    if not {type_of(each.this) for each in (a, b)} & set(FLOATS) or isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ):
        return type(node)(this=a, expression=b)
    nan_a, nan_b = call("IS_NAN", a), call("IS_NAN", b)
    there_a, there_b = (each.copy().is_(exp.Null()).not_() for each in (a, b))
    plain = type(node)(this=a, expression=b)
    match node:
        case exp.EQ():
            found = exp.or_(plain, exp.and_(nan_a, nan_b))
        case exp.NEQ():
            found = exp.and_(plain, exp.not_(exp.and_(nan_a, nan_b)))
        case exp.LT():
            found = exp.or_(plain, exp.and_(nan_b, exp.not_(nan_a)))
        case exp.GT():
            found = exp.or_(plain, exp.and_(nan_a, exp.not_(nan_b)))
        case exp.LTE():
            found = exp.or_(plain, exp.and_(nan_b, there_a))
        case _:
            found = exp.or_(plain, exp.and_(nan_a, there_b))
    return exp.paren(found, copy=False)


def equal(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return compared(exp.EQ(this=a.copy(), expression=b.copy()))


def _branch(value: exp.Expr | None, type_: str) -> exp.Expr | None:
    return None if value is None else convert(value, type_)


def coalesced(node: exp.Expr) -> exp.Expr:
    type_ = type_of(node)
    first, *rest = (convert(each, type_) for each in (node.this, *node.expressions))
    return exp.Coalesce(this=first, expressions=rest)


def case(node: exp.Expr) -> exp.Expr:
    type_, operand = type_of(node), node.this
    ifs = []
    for each in node.args["ifs"]:
        condition = equal(operand, each.this) if operand is not None else each.this.copy()
        ifs.append(exp.If(this=condition, true=_branch(each.args["true"], type_)))
    return exp.Case(ifs=ifs, default=_branch(node.args.get("default"), type_))


def either(node: exp.Expr) -> exp.Expr:
    """if(…), but not a branch of a CASE."""
    if isinstance(node.parent, exp.Case) and node.arg_key == "ifs":
        return node
    return _one_of(node.this.copy(), node.args["true"], node.args.get("false"), type_of(node))


def not_null(node: exp.Expr) -> exp.Expr:
    """nvl2"""
    known = node.this.copy().is_(exp.Null()).not_()
    return _one_of(known, node.args["true"], node.args.get("false"), type_of(node))


def _one_of(condition: exp.Expr, true: exp.Expr, false: exp.Expr | None, type_: str) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=_branch(true, type_))], default=_branch(false, type_))


def null_if(node: exp.Expr) -> exp.Expr:
    return exp.Case().when(equal(node.this, node.expression), exp.Null()).else_(node.this.copy())


def contained(node: exp.Expr) -> exp.Expr:
    """IN a list."""
    values = node.expressions
    if node.args.get("query") is not None or not values:
        return node
    type_ = together(node.this, *values)
    if type_ is None and type_of(node.this) not in FLOATS:
        return node
    return exp.paren(exp.or_(*(equal(node.this, each) for each in values)), copy=False)


def extreme(node: exp.Expr) -> exp.Expr:
    """greatest and least, which leave out NULL in Spark, and are NULL if there is one in Trino."""
    type_, is_greatest = type_of(node), isinstance(node, exp.Greatest)
    values = [convert(each, type_) for each in (node.this, *node.expressions)]
    if type_ not in FLOATS:
        return call("ARRAY_MAX" if is_greatest else "ARRAY_MIN", known_of(exp.Array(expressions=values)))
    if len(values) != 2:
        raise Unlike("of doubles, greatest and least are proven for two")
    a, b = values
    test = (exp.GT if is_greatest else exp.LT)(this=a.copy(), expression=b.copy())
    first = exp.or_(b.copy().is_(exp.Null()), compared(test))
    return exp.Case().when(exp.and_(a.copy().is_(exp.Null()).not_(), first), a).else_(b)


def is_nan(node: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=call("IS_NAN", node.this), expressions=[exp.false()])
