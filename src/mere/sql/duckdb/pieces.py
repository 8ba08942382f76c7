"""The building blocks of the translation: calls, casts, literals."""

from __future__ import annotations

from sqlglot import exp

INTEGERS = ("tinyint", "smallint", "int", "bigint")
DIFFERS = exp.Literal.string("Spark has a value here that DuckDB cannot be shown to have: read the view with Spark")


def cast_to(value: exp.Expr, type_: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType.build(type_, dialect="duckdb"))


def call(function: str, *values: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[value.copy() for value in values])


def text(text: str) -> exp.Expr:
    return exp.Literal.string(text)


def number(text: str | int) -> exp.Expr:
    return exp.Literal.number(text)


def or_error(condition: exp.Expr, value: exp.Expr, message: exp.Expr = DIFFERS) -> exp.Expr:
    """The value where the condition holds, or is NULL."""
    return exp.Case().when(exp.paren(condition).not_(), call("ERROR", message)).else_(value)


def raw(sql: str) -> exp.Expr:
    from sqlglot import parse_one

    return parse_one(sql, dialect="duckdb")
