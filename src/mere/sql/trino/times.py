"""Dates and times that Spark and Trino compute differently."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from mere.sql.spark.pieces import INTEGERS, call, number, text
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import type_of
from mere.sql.spark.translate import Mender
from mere.sql.trino.casts import convert, seconds
from mere.sql.trino.pieces import cast_to

# Spark's units, and the function of Trino's that has them.
_PARTS = {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAY": "DAY",
    "DOY": "DAY_OF_YEAR",
    "DAYOFYEAR": "DAY_OF_YEAR",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
}
# MySQL's directives, which Trino reads, that give what Java's do.
_DIRECTIVES = {
    "%Y": "%Y", "%m": "%m", "%d": "%d", "%H": "%H", "%M": "%i", "%S": "%s",
    "%b": "%b", "%B": "%M", "%a": "%a", "%A": "%W",
}  # fmt: skip
_SHORT = {"yyyy": "year", "yy": "year", "mm": "month", "mon": "month", "dd": "day"}
_DIRECTIVE = re.compile(r"%-?[A-Za-z]")


def moved(node: exp.Expr) -> exp.Expr | None:
    """A time plus or minus an interval or a number of days; None if it is another sum."""
    left, right = node.this, node.expression
    back = isinstance(node, exp.Sub)
    if isinstance(left, exp.Interval) and not back:
        left, right = right, left
    if isinstance(right, exp.Interval):
        count, unit = int(right.this.name), right.args["unit"].name.lower().removesuffix("s")
        return _moved(left, number(str(-count if back else count)), unit)
    if type_of(left) == "date" and type_of(right) in INTEGERS:
        return _moved(left, exp.Neg(this=exp.paren(right.copy())) if back else right, "day")
    if {type_of(left), type_of(right)} & {"date", "timestamp", "timestamp_ntz"}:
        raise Unlike(f"`{node.sql('spark')[:60]}` is not proven to give the same value in Trino as in Spark")
    return None


def _moved(value: exp.Expr, count: exp.Expr, unit: str) -> exp.Expr:
    return call("DATE_ADD", text(unit), count, value)


def _days_later(node: exp.Expr) -> exp.Expr:
    """date_add, date_sub, timestampadd"""
    unit = node.args.get("unit")
    name = (unit.name if unit is not None else "day").lower()
    count = node.expression if not isinstance(node.expression, exp.Interval) else node.expression.this
    if isinstance(node, exp.DateSub | exp.TsOrDsAdd) and isinstance(node, exp.DateSub):
        count = exp.Neg(this=exp.paren(count.copy()))
    return _moved(convert(node.this, type_of(node)), count, name)


def _months_later(node: exp.Expr) -> exp.Expr:
    return _moved(convert(node.this, "date"), node.expression, "month")


def _date_difference(node: exp.Expr) -> exp.Expr:
    if node.args.get("unit") is not None and node.args["unit"].name.upper() not in ("DAY", "DAYS"):
        raise Unlike("datediff with a unit counts differently in Trino than in Spark")
    return call("DATE_DIFF", text("day"), convert(node.expression, "date"), convert(node.this, "date"))


def _part(node: exp.Expr) -> exp.Expr:
    """extract(… from …)"""
    return _part_of(node.name.upper(), node.expression)


def _date_part(node: exp.Expr) -> exp.Expr:
    part, value = node.expressions
    return _part_of(part.name.upper(), value)


def _part_of(part: str, value: exp.Expr) -> exp.Expr:
    if part in ("DOW", "DAYOFWEEK"):
        return _from_sunday(value)
    if part not in _PARTS:
        raise Unlike(f"{part.lower()} of a time is not proven to give the same value in Trino as in Spark")
    return call(_PARTS[part], value)


def _from_sunday(value: exp.Expr) -> exp.Expr:
    rest = exp.Mod(this=call("DAY_OF_WEEK", value), expression=number(7))
    return exp.paren(exp.Add(this=rest, expression=number(1)), copy=False)


def _day_of_week(node: exp.Expr) -> exp.Expr:
    return _from_sunday(node.this)


def _weekday(node: exp.Expr) -> exp.Expr:
    (value,) = node.expressions
    return exp.paren(exp.Sub(this=call("DAY_OF_WEEK", value), expression=number(1)), copy=False)


def _named(function: str) -> Mender:
    return lambda node: call(function, *node.iter_expressions())


def _truncated(node: exp.Expr) -> exp.Expr:
    """date_trunc gives a time, trunc a date."""
    unit = node.args.get("unit")
    if unit is None:
        raise Unlike("a time is truncated to a unit")
    name = unit.name.lower()
    return call("DATE_TRUNC", text(_SHORT.get(name, name)), convert(node.this, type_of(node)))


def _to_date(node: exp.Expr) -> exp.Expr:
    if node.args.get("format") is not None:
        raise Unlike("a date read by a format is not proven to be the same in Trino as in Spark")
    return convert(node.this, type_of(node))


def _written(node: exp.Expr) -> exp.Expr:
    """date_format; sqlglot has put strftime's letters for Java's."""
    found = node.args.get("format")
    if not isinstance(found, exp.Literal):
        raise Unlike("a time format that is not a plain string cannot be translated")
    format_ = found.name.replace("strict", "")
    used, others = _DIRECTIVE.findall(format_), _DIRECTIVE.sub("", format_)
    if set(used) - _DIRECTIVES.keys() or re.search(r"[A-Za-z'%\\]", others):
        raise Unlike("a time format has letters that Trino does not have")
    pattern = _DIRECTIVE.sub(lambda each: _DIRECTIVES[each[0]], format_)
    return call("DATE_FORMAT", _to_the_second(node.this), text(pattern))


def _to_the_second(value: exp.Expr) -> exp.Expr:
    """Trino rounds a time to milliseconds before it writes it."""
    if type_of(value) == "date":
        return convert(value, "timestamp_ntz")
    return call("DATE_TRUNC", text("second"), value)


def _abbreviated(directive: str) -> Mender:
    def mended(node: exp.Expr) -> exp.Expr:
        return call("DATE_FORMAT", _to_the_second(node.this), text(directive))

    return mended


def _unix_seconds(node: exp.Expr) -> exp.Expr:
    return seconds(node.this)


def _unix_millis(node: exp.Expr) -> exp.Expr:
    whole = exp.Mul(this=seconds(node.this), expression=number(1000))
    return exp.paren(exp.Add(this=whole, expression=call("MILLISECOND", node.this)), copy=False)


def _last_day(node: exp.Expr) -> exp.Expr:
    return call("LAST_DAY_OF_MONTH", convert(node.this, "date"))


def _days_since_1970(node: exp.Expr) -> exp.Expr:
    (value,) = node.iter_expressions()
    return call("DATE_DIFF", text("day"), cast_to(text("1970-01-01"), "DATE"), value)


MENDERS: Mapping[str, Mender] = {
    "addmonths": _months_later,
    "date_part": _date_part,
    "dateadd": _days_later,
    "datediff": _date_difference,
    "datesub": _days_later,
    "datetrunc": _truncated,
    "dayname": _abbreviated("%a"),
    "dayofmonth": _named("DAY"),
    "dayofweek": _day_of_week,
    "dayofyear": _named("DAY_OF_YEAR"),
    "extract": _part,
    "lastday": _last_day,
    "monthname": _abbreviated("%b"),
    "timestampadd": _days_later,
    "timestamptrunc": _truncated,
    "timetostr": _written,
    "tsordsadd": _days_later,
    "tsordsdiff": _date_difference,
    "tsordstodate": _to_date,
    "tsordstotimestamp": _to_date,
    "timestrtotime": _to_date,
    "unixdate": _days_since_1970,
    "unixmillis": _unix_millis,
    "unixseconds": _unix_seconds,
    "weekday": _weekday,
    "weekofyear": _named("WEEK"),
}
