"""What Spark means where DuckDB, given the same words, would mean something else.

sqlglot translates words. The differences below were found by running some 650 expressions and queries as views through
both engines. Each is mended in the syntax tree or refused: a view must not quietly give other values than in Spark.
Imported only for views, because sqlglot takes its time.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp
from sqlglot.dialects.spark import Spark

# The functions that give other values: sqlglot's name for them (where it has one), and Spark's.
_UNLIKE = {
    "arraydistinct": "array_distinct",
    "arrayexcept": "array_except",
    "arrayintersect": "array_intersect",
    "arrayposition": "array_position",
    "arrayremove": "array_remove",
    "attimezone": "from_utc_timestamp",
    "bitwisecount": "bit_count",
    "flatten": "flatten",
    "format": "format_string",
    "hash": "hash",
    "jsonformat": "to_json",
    "kurtosis": "kurtosis",
    "map_concat": "map_concat",
    "monthsbetween": "months_between",
    "printf": "printf",
    "skewness": "skewness",
    "timestampdiff": "timestampdiff",
    "typeof": "typeof",
}
_INTEGERS = {exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT}
_TEXTS = {exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR}
_DIFFERS = exp.Literal.string("Spark writes a value of this view in another way than DuckDB: read the view with Spark")
_DIRECTIVE = re.compile(r"%-?[A-Za-z](?:strict)?")


class Unlike(ValueError):
    """A view says something that has no equal in DuckDB."""


class SparkView(Spark):
    """Spark's SQL with Spark's quotes: '' inside a string is a quote, not the seam of two strings."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012


def mend(query: exp.Expr) -> None:
    """Change the tree so that DuckDB gives what Spark gives."""
    # The deepest first: what is put in place of an expression holds the expression itself, mended.
    for node in reversed(list(query.find_all(exp.Expr))):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
        if name in _UNLIKE:
            raise Unlike(f"{_UNLIKE[name]} gives other values in DuckDB than in Spark")
        if (mended := _MENDERS.get(name, _as_it_is)(node)) is not node:
            node.replace(mended)


def _as_it_is(node: exp.Expr) -> exp.Expr:
    return node


def _cast(node: exp.Expr) -> exp.Expr:
    kind, value = node.args["to"].this, node.this
    if value.is_string:
        return node
    if kind in _INTEGERS:
        return _to_integer(node, value)
    return _to_text(node, value) if kind in _TEXTS else node


def _to_integer(cast: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Spark cuts the fraction off, DuckDB rounds."""
    double, decimal = exp.DataType.build("double"), exp.DataType.build("decimal(38, 18)")
    return (
        exp.Case()
        .when(_type_is(value, "DOUBLE", "FLOAT"), _cast_of(cast, _truncated(value, double)))
        .when(_type_is(value, "DECIMAL"), _cast_of(cast, _truncated(value, decimal)))
        .else_(cast.copy())
    )


def _to_text(cast: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Spark leaves the time zone out, which is always UTC here. Other texts that differ are refused as they come."""
    without_zone = _call("REGEXP_REPLACE", cast, exp.Literal.string(r"\+00$"), exp.Literal.string(""))
    is_list = _call("RIGHT", _call("TYPEOF", value), exp.Literal.number(1)).eq(exp.Literal.string("]"))
    differs = exp.or_(_is_unusual_double(value), _type_is(value, "STRUCT", "MAP", "BLOB"), is_list)
    return (
        exp.Case()
        .when(_type_is(value, "TIMESTAMP WITH TIME ZONE"), without_zone)
        .when(differs, _call("ERROR", _DIFFERS))
        .else_(cast.copy())
    )


def _is_unusual_double(value: exp.Expr) -> exp.Expr:
    """One that Spark writes with an exponent, or NaN, or an infinity."""
    text = exp.Cast(this=value.copy(), to=exp.DataType.build("text"))
    number = exp.TryCast(this=text, to=exp.DataType.build("double"))
    usual = exp.Between(this=_call("ABS", number), low=_number("0.001"), high=_number("9999999"))
    return exp.and_(_type_is(value, "DOUBLE", "FLOAT"), exp.not_(exp.or_(number.eq(0), usual)))


def _joined(node: exp.Expr) -> exp.Expr:
    """Of what is joined to a text, too, the type is only known to DuckDB; it may be an array joined to an array."""
    operands = node.expressions or [node.this, node.expression]
    differs = [
        exp.or_(_type_is(value, "TIMESTAMP WITH TIME ZONE", "STRUCT", "MAP"), _is_unusual_double(value))
        for value in operands
        if not value.is_string and not isinstance(value, exp.Case | exp.Cast)  # those are mended already
    ]
    return exp.Case().when(exp.or_(*differs), _call("ERROR", _DIFFERS)).else_(node.copy()) if differs else node


def _number(text: str) -> exp.Expr:
    return exp.Literal.number(text)


def _cast_of(cast: exp.Expr, value: exp.Expr) -> exp.Expr:
    other = cast.copy()
    other.set("this", value)
    return other


def _truncated(value: exp.Expr, type_: exp.DataType) -> exp.Expr:
    return exp.Anonymous(this="TRUNC", expressions=[exp.TryCast(this=value.copy(), to=type_)])


def _type_is(value: exp.Expr, *types: str) -> exp.Expr:
    """The type is only known to DuckDB, which decides such a condition once for a whole query."""
    name = _call("SPLIT_PART", _call("TYPEOF", value), exp.Literal.string("("), exp.Literal.number(1))
    return exp.In(this=name, expressions=[exp.Literal.string(type_) for type_ in types])


def _call(function: str, *values: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[value.copy() for value in values])


def _plus(node: exp.Expr, number: int) -> exp.Expr:
    return exp.paren(exp.Add(this=node.copy(), expression=exp.Literal.number(number)), copy=False)


def _day_of_week(node: exp.Expr) -> exp.Expr:
    return _plus(node, 1)  # Sunday is 1 in Spark and 0 in DuckDB


def _weekday(node: exp.Expr) -> exp.Expr:
    date = exp.Cast(this=node.expressions[0].copy(), to=exp.DataType.build("date"))
    return _plus(_call("ISODOW", date), -1)  # Monday is 0 in Spark


def _date_part(node: exp.Expr) -> exp.Expr:
    part, value = node.expressions
    return _extract(exp.Extract(this=exp.var(part.name.upper()), expression=value.copy()))


def _extract(node: exp.Expr) -> exp.Expr:
    part = node.name.upper()
    if part in ("SECOND", "SECONDS", "S", "SEC", "SECS"):
        raise Unlike("extract(second …) has a fraction in Spark")
    return _plus(node, 1) if part in ("DOW", "DAYOFWEEK") else node


def _like(node: exp.Expr) -> exp.Expr:
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or (pattern.is_string and "\\" not in pattern.name):
        return node
    if isinstance(pattern, exp.Any | exp.All):
        if any("\\" in literal.name for literal in pattern.find_all(exp.Literal)):
            raise Unlike("LIKE with several patterns and a backslash has no equal in DuckDB")
        return node
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _substring(node: exp.Expr) -> exp.Expr:
    start = node.args.get("start")
    if start is None or (isinstance(start, exp.Literal) and start.name != "0"):
        return node
    # Spark counts from 1 and takes 0 for 1.
    first = exp.Case().when(start.copy().eq(0), exp.Literal.number(1)).else_(start.copy())
    mended = node.copy()
    mended.set("start", first)
    return mended


def _array_contains(node: exp.Expr) -> exp.Expr:
    """With a NULL among its elements, an array that does not contain a value may contain it, to Spark."""
    array = node.this
    certain = exp.or_(node.copy(), _call("LIST_COUNT", array).eq(_call("LEN", array)))
    return exp.Case().when(certain, node.copy())


def _lambda(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Transform | exp.ArrayFilter) and len(node.expressions) > 1:
        raise Unlike("the index of an array's elements begins with 0 in Spark and with 1 in DuckDB")
    return node


def _regexp_replace(node: exp.Expr) -> exp.Expr:
    if set(node.text("replacement")) & {"$", "\\"}:
        raise Unlike("regexp_replace writes groups differently in DuckDB than in Spark")
    return node


def _is_nan(node: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=node.copy(), expressions=[exp.false()])


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Is(this=node.expressions[0].copy(), expression=exp.Null()), copy=False)


def _is_not_null(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Not(this=_is_null(node)), copy=False)


def _unix_seconds(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=_call("FLOOR", _call("EPOCH", node.this)), to=exp.DataType.build("bigint"))


def _date_difference(node: exp.Expr) -> exp.Expr:
    if node.args.get("unit") is not None:
        raise Unlike("datediff with a unit counts differently in DuckDB than in Spark")
    return node


def _extreme(node: exp.Expr) -> exp.Expr:
    if isinstance(node.this, exp.Struct):
        raise Unlike(f"{node.key} of a struct takes NULL for the greatest value in DuckDB and for the least in Spark")
    return node


def _lateral(node: exp.Expr) -> exp.Expr:
    if node.args.get("outer"):
        raise Unlike("LATERAL VIEW OUTER has no equal in DuckDB")
    return node


def _select(node: exp.Expr) -> exp.Expr:
    node.set("hint", None)  # it changes how Spark computes, not what
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
    node.set("format", exp.Literal.string(found.name.replace("'", "")))
    return node


def _renamed(function: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: _call(function, *node.expressions)


_MENDERS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "arraycontains": _array_contains,
    "cast": _cast,
    "concat": _joined,
    "concatws": _joined,
    "date_part": _date_part,
    "datediff": _date_difference,
    "dayofweek": _day_of_week,
    "dpipe": _joined,
    "every": _renamed("BOOL_AND"),
    "extract": _extract,
    "ilike": _like,
    "isnan": _is_nan,
    "isnotnull": _is_not_null,
    "isnull": _is_null,
    "lambda": _lambda,
    "lateral": _lateral,
    "like": _like,
    "max": _extreme,
    "min": _extreme,
    "regexpreplace": _regexp_replace,
    "select": _select,
    "some": _renamed("BOOL_OR"),
    "strtodate": _format,
    "strtotime": _format,
    "strtounix": _format,
    "substring": _substring,
    "timetostr": _format,
    "trycast": _cast,
    "tsordstodate": _format,
    "unixseconds": _unix_seconds,
    "unixtostr": _format,
    "weekday": _weekday,
}
