"""The building blocks of the translation for Trino."""

from __future__ import annotations

from sqlglot import exp

from mere.sql.spark.pieces import call, text

DIFFERS = text("Spark has a value here that Trino cannot be shown to have: read the view with Spark")
UTC = text("UTC")


def cast_to(value: exp.Expr, type_: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType.build(type_, dialect="trino"))


def or_error(condition: exp.Expr, value: exp.Expr, message: exp.Expr = DIFFERS) -> exp.Expr:
    """The value where the condition holds, or is NULL."""
    return exp.Case().when(exp.paren(condition).not_(), call("FAIL", message)).else_(value)


def in_parens(value: exp.Expr) -> exp.Expr:
    return exp.paren(value.copy())


def matches(value: exp.Expr, pattern: str) -> exp.Expr:
    """Whether all of a text is one of these."""
    return call("REGEXP_LIKE", value, text(f"^(?:{pattern})$"))


def known_of(values: exp.Expr) -> exp.Expr:
    """The elements of an array that are not NULL."""
    return call("FILTER", values, each(exp.Is(this=exp.to_identifier("x"), expression=exp.Null()).not_()))


def each(condition: exp.Expr) -> exp.Lambda:
    """A lambda of x."""
    return exp.Lambda(this=condition, expressions=[exp.to_identifier("x")])
