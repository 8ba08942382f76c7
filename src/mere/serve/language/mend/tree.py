"""Small pieces of a syntax tree for DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mere.serve.engine import functions


def call(function: str, *values: exp.Expr) -> exp.Expr:
    """A function of DuckDB's."""
    made = exp.Anonymous(this=function, expressions=[value.copy() for value in values])
    made.meta["mended"] = True
    return made


def macro(name: str, *values: exp.Expr) -> exp.Expr:
    """One of our own, from `functions`."""
    return call(f"{functions.SCHEMA}.{name}", *values)


def roomy(made: exp.Expr, parts: Sequence[exp.Expr], times: int = 1) -> exp.Expr:
    """A text made of others, if there is room for it; the last of them is in it so many times."""
    known = sum(len(each.name.encode()) for each in parts[:-1] if each.is_string)
    last = parts[-1] if parts else None
    size: exp.Expr = number(known)
    for each in parts[:-1]:
        if not isinstance(each, exp.Literal):
            size = exp.Add(this=size, expression=call("coalesce", macro("bytes", each), number(0)))
    if last is not None:
        times_last = exp.Mul(this=call("coalesce", macro("bytes", last), number(0)), expression=number(max(times, 1)))
        size = exp.Add(this=size, expression=times_last)
    error = call("error", text(functions.TOO_LONG))
    return exp.paren(exp.Case().when(macro("room", size), made.copy()).else_(error), copy=False)


def text(value: str) -> exp.Expr:
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def cast(value: exp.Expr, type_: str) -> exp.Expr:
    """To a type of DuckDB's, by its name there."""
    made = exp.Cast(this=value.copy(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_))
    made.meta["mended"] = True
    return made
