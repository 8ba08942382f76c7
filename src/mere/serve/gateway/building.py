"""Small pieces of a tree for DuckDB."""

from __future__ import annotations

from sqlglot import exp

from mere.serve.gateway import functions


def call(function: str, *values: exp.Expr) -> exp.Expr:
    """A function of DuckDB's."""
    made = exp.Anonymous(this=function, expressions=[value.copy() for value in values])
    made.meta["mended"] = True
    return made


def macro(name: str, *values: exp.Expr) -> exp.Expr:
    """One of our own, from `functions`."""
    return call(f"{functions.SCHEMA}.{name}", *values)


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def cast(value: exp.Expr, type_: str) -> exp.Expr:
    """To a type of DuckDB's, by its name there."""
    made = exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_))
    made.meta["mended"] = True
    return made
