"""The building blocks of a translation that all engines share: calls and literals."""

from __future__ import annotations

from sqlglot import exp

INTEGERS = ("tinyint", "smallint", "int", "bigint")


def call(function: str, *values: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[value.copy() for value in values])


def text(text: str) -> exp.Expr:
    return exp.Literal.string(text)


def number(text: str | int) -> exp.Expr:
    return exp.Literal.number(text)
