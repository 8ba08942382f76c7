"""The building blocks of the translation for DuckDB."""

from __future__ import annotations

from sqlglot import exp

from mere.sql.spark.pieces import call

DIFFERS = exp.Literal.string("Spark has a value here that DuckDB cannot be shown to have: read the view with Spark")


def cast_to(value: exp.Expr, type_: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType.build(type_, dialect="duckdb"))


def or_error(condition: exp.Expr, value: exp.Expr, message: exp.Expr = DIFFERS) -> exp.Expr:
    """The value where the condition holds, or is NULL."""
    return exp.Case().when(exp.paren(condition).not_(), call("ERROR", message)).else_(value)


def raw(sql: str) -> exp.Expr:
    from sqlglot import parse_one

    return parse_one(sql, dialect="duckdb")
