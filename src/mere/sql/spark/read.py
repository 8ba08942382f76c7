"""Spark's SQL as a syntax tree in which functions keep the names by which they were called."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from mere.sql.spark.forms import NAME

_CASTS = frozenset({"tinyint", "smallint", "bigint", "float", "double", "boolean", "binary"})  # as functions


class SparkView(Spark):
    """Spark's SQL with Spark's quotes: '' inside a string is a quote, not the seam of two strings."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012


class _Named(SparkView):
    """It remembers by which name a function was called: several may become one expression."""

    ORIGINAL_NAME_META_KEY = NAME


def read(sql: str) -> exp.Expr:
    """Spark's SQL, to be translated."""
    from sqlglot import parse_one

    query = parse_one(sql, dialect=_Named)
    for call in list(query.find_all(exp.Anonymous)):
        if call.name.lower() in _CASTS and len(call.expressions) == 1:
            call.replace(exp.Cast(this=call.expressions[0], to=exp.DataType.build(call.name, dialect=Spark)))
    for between in list(query.find_all(exp.Between)):
        if not between.args.get("symmetric"):
            # Spark compares with each bound by itself; other engines give all three one type.
            value, low, high = (between.args[part] for part in ("this", "low", "high"))
            both = exp.and_(exp.GTE(this=value, expression=low), exp.LTE(this=value.copy(), expression=high))
            between.replace(exp.paren(both))
    for group in list(query.find_all(exp.Group)):
        for arg in ("rollup", "cube"):
            if group.args.get(arg):  # GROUP BY a, b WITH ROLLUP
                (sets,) = group.args[arg]
                group.set("expressions", [type(sets)(expressions=group.expressions)])
                group.set(arg, None)
    return query
