"""Casts, times, texts, arrays and aggregates: what to ask DuckDB to get Spark's values, by sqlglot's names."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from mere.sql.duckdb import arithmetic
from mere.sql.duckdb.pieces import cast_to, or_error, raw
from mere.sql.duckdb.types import in_duckdb
from mere.sql.spark.pieces import INTEGERS, call, number, text
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import type_of
from mere.sql.spark.types import decimal

_DIRECTIVE = re.compile(r"%-?[A-Za-z](?:strict)?")
_OUTSIDE = exp.Literal.string("There is no element of an array with that index, which is an error in Spark, too")
# Texts that both engines read as the same value; others are left to Spark.
_READABLE = {
    "int": r"\s*[+-]?\d+\s*",
    "double": r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*|[Nn]a[Nn]",
    "decimal": r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*",
    "date": r"\d{4}-\d{2}-\d{2}",
    "timestamp": r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?)?",
    "timestamp_ntz": r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?)?",
}
# The letters that both engines make great and small alike: most of Latin and Cyrillic, what has no case at all.
ALIKE_IN_CASE = (
    r"[\x{0}-\x{DE}\x{E0}-\x{12F}\x{132}-\x{148}\x{14A}-\x{17F}\x{400}-\x{4FF}\x{2000}-\x{206F}\x{20A0}-\x{20BF}"
    r"\x{3040}-\x{9FFF}]*"
)


def _cast(node: exp.Expr) -> exp.Expr:
    value, source, target = node.this, type_of(node.this), type_of(node)
    tried = bool(isinstance(node, exp.TryCast) and node.args.get("safe"))
    cast = (exp.TryCast if tried else exp.Cast)(
        this=value.copy(), to=exp.DataType.build(in_duckdb(target) or "text", dialect="duckdb")
    )
    if source == "string" and target != "binary":
        return _from_text(value, cast, target)
    if target in INTEGERS and (decimal(source) or source in ("float", "double")):
        cast.set("this", call("TRUNC", value))  # DuckDB rounds
    elif source == "string" and target == "binary":
        return call("ENCODE", value)
    elif target == "string":
        return _to_text(value, source, cast)
    elif target == "float" and source == "double":
        big = exp.and_(call("ISFINITE", value), exp.GT(this=call("ABS", value), expression=number("3.4e38")))
        return or_error(exp.paren(big).not_(), cast)
    elif decimal(target) and source in ("float", "double"):
        # Spark rounds what the number is written as.
        cast.set("this", cast_to(value.copy(), "text"))
        return or_error(call("ISFINITE", value), cast)
    return cast


def _from_text(value: exp.Expr, cast: exp.Expr, target: str) -> exp.Expr:
    kind = "int" if target in INTEGERS else "decimal" if decimal(target) else target.replace("float", "double")
    if kind not in _READABLE:
        return value.copy() if kind == "string" else cast
    cast.set("this", call("TRIM", value) if kind in ("int", "double", "decimal") else value.copy())
    return or_error(call("REGEXP_FULL_MATCH", value, text(_READABLE[kind])), cast)


def _to_text(value: exp.Expr, source: str, cast: exp.Expr) -> exp.Expr:
    if source == "timestamp":
        return call("REGEXP_REPLACE", cast, text(r"\+00$"), text(""))
    if source in ("float", "double"):
        usual = exp.Between(this=call("ABS", value), low=number("0.001"), high=number("9999999"))
        return or_error(exp.or_(usual, value.copy().eq(0)), cast)
    return cast


def _upper(node: exp.Expr) -> exp.Expr:
    return or_error(call("REGEXP_FULL_MATCH", node.this, text(ALIKE_IN_CASE)), node.copy())


# Dates and times


def _plus(node: exp.Expr, summand: int) -> exp.Expr:
    return exp.paren(exp.Add(this=node.copy(), expression=number(summand)), copy=False)


def _day_of_week(node: exp.Expr) -> exp.Expr:
    return _plus(node, 1)  # Sunday is 1 in Spark and 0 in DuckDB


def _weekday(node: exp.Expr) -> exp.Expr:
    return _plus(call("ISODOW", cast_to(node.expressions[0].copy(), "date")), -1)  # Monday is 0 in Spark


def _date_part(node: exp.Expr) -> exp.Expr:
    part, value = node.expressions
    return _extract(exp.Extract(this=exp.var(part.name.upper()), expression=value.copy()))


def _extract(node: exp.Expr) -> exp.Expr:
    return _plus(node, 1) if node.name.upper() in ("DOW", "DAYOFWEEK") else node


def _unix(unit: int) -> Callable[[exp.Expr], exp.Expr]:
    """Seconds or milliseconds since 1970, rounded down."""

    def mended(node: exp.Expr) -> exp.Expr:
        value = call("EPOCH_US", node.this).sql(dialect="duckdb")
        return raw(f"(({value}) - (({value}) % {unit} + {unit}) % {unit}) // {unit}")

    return mended


def _abbreviated(node: exp.Expr) -> exp.Expr:
    return call("LEFT", call(node.key.upper(), node.this), number(3))


def _side(node: exp.Expr) -> exp.Expr:
    """Of less than no letters, DuckDB takes those from the other side."""
    mended = node.copy()
    count = node.expression
    mended.set("expression", exp.Case().when(exp.paren(count.copy()) < 0, number(0)).else_(count.copy()))
    return mended


def _date_difference(node: exp.Expr) -> exp.Expr:
    if node.args.get("unit") is not None:
        raise Unlike("datediff with a unit counts differently in DuckDB than in Spark")
    return node


def _format(node: exp.Expr) -> exp.Expr:
    """A time format, already in strftime's letters, of which those that have no equal are left as they were."""
    found = node.args.get("format")
    if not isinstance(found, exp.Literal):
        if found is not None:
            raise Unlike("a time format that is not a plain string cannot be translated")
        return node
    plain, quoted = found.name.split("'")[::2], found.name.split("'")[1::2]
    if any(re.search("[A-Za-z]", _DIRECTIVE.sub("", part)) for part in plain) or any("%" in part for part in quoted):
        raise Unlike("a time format has letters that DuckDB does not have")
    mended = node.copy()
    mended.set("format", text(found.name.replace("'", "").replace("strict", "")))
    return mended


# Texts and arrays


def _like(node: exp.Expr) -> exp.Expr:
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or (pattern.is_string and "\\" not in pattern.name):
        return node
    return exp.Escape(this=node.copy(), expression=text("\\"))


def _substring(node: exp.Expr) -> exp.Expr:
    start = node.args.get("start")
    if start is None or (isinstance(start, exp.Literal) and start.name != "0"):
        return node
    # Spark counts from 1 and takes 0 for 1.
    mended = node.copy()
    mended.set("start", exp.Case().when(start.copy().eq(0), number(1)).else_(start.copy()))
    return mended


def _array_contains(node: exp.Expr) -> exp.Expr:
    """With a NULL among its elements, an array that does not contain a value may contain it, to Spark."""
    certain = exp.or_(node.copy(), call("LIST_COUNT", node.this).eq(call("LEN", node.this)))
    return exp.Case().when(certain, node.copy())


def _element(node: exp.Expr) -> exp.Expr:
    if not type_of(node.this).startswith("array<") or len(node.expressions) != 1:
        return node
    at = node.expressions[0]
    outside = exp.or_(exp.paren(at.copy()) < 0, exp.GTE(this=at.copy(), expression=call("LEN", node.this)))
    return or_error(exp.paren(outside).not_(), node.copy(), _OUTSIDE)


def _size(node: exp.Expr) -> exp.Expr:
    (value,) = node.iter_expressions()
    return call("CARDINALITY" if type_of(value).startswith("map<") else "LEN", value)


def _or_empty(node: exp.Expr) -> exp.Expr:
    return (
        node
        if isinstance(node.parent, exp.Window | exp.Filter)
        else exp.Coalesce(this=node.copy(), expressions=[raw("[]")])
    )


# Conditions and aggregates


def _is_nan(node: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=node.copy(), expressions=[exp.false()])


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Is(this=node.expressions[0].copy(), expression=exp.Null()), copy=False)


def _is_not_null(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Not(this=_is_null(node)), copy=False)


def _count_if(node: exp.Expr) -> exp.Expr:
    return exp.Count(this=exp.Case().when(node.this.copy(), number(1)), big_int=True)


def _percentile(node: exp.Expr) -> exp.Expr:
    return call("QUANTILE_CONT", node.this, node.args["quantile"])


def _select(node: exp.Expr) -> exp.Expr:
    node.set("hint", None)  # it changes how Spark computes, not what
    group, having = node.args.get("group"), node.args.get("having")
    if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        # Spark makes no total of no rows.
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=number("0"))
        node.set("having", exp.Having(this=exp.and_(having.this, some) if having is not None else some))
    return node


def _renamed(function: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: call(function, *(node.expressions or node.iter_expressions()))


MENDERS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    **arithmetic.MENDERS,
    "argmax": _renamed("ARG_MAX_NULL"),
    "argmin": _renamed("ARG_MIN_NULL"),
    "arrayagg": _or_empty,
    "arraysize": _size,
    "arraycontains": _array_contains,
    "arrayuniqueagg": _or_empty,
    "bracket": _element,
    "cardinality": _size,
    "cast": _cast,
    "countif": _count_if,
    "date_part": _date_part,
    "datediff": _date_difference,
    "dayname": _abbreviated,
    "dayofweek": _day_of_week,
    "every": _renamed("BOOL_AND"),
    "extract": _extract,
    "ilike": _like,
    "isnan": _is_nan,
    "isnotnull": _is_not_null,
    "isnull": _is_null,
    "left": _side,
    "like": _like,
    "lower": _upper,
    "monthname": _abbreviated,
    "quantile": _percentile,
    "right": _side,
    "select": _select,
    "some": _renamed("BOOL_OR"),
    "strtodate": _format,
    "strtotime": _format,
    "strtounix": _format,
    "substring": _substring,
    "timetostr": _format,
    "trycast": _cast,
    "tsordstodate": _format,
    "unixmillis": _unix(1000),
    "unixseconds": _unix(1_000_000),
    "unixtostr": _format,
    "upper": _upper,
    "weekday": _weekday,
}
