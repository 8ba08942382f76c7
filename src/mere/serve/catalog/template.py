"""Expressions written in Postgres's SQL, in which $1 is the first argument, as trees."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlglot import exp

from mere.serve.parse import syntax

Arguments = Sequence[exp.Expr]

# Of a row of mere_relations: whether it is the first of that name in the search path.
VISIBLE = """
    mere_one.mere_schema = ANY(current_schemas(true)) AND NOT EXISTS (
        SELECT 1 FROM pg_catalog.mere_relations mere_other WHERE mere_other.mere_name = mere_one.mere_name
        AND array_position(current_schemas(true), mere_other.mere_schema)
            < array_position(current_schemas(true), mere_one.mere_schema))"""

_ATOMS = (exp.Column, exp.Literal, exp.Paren, exp.Subquery, exp.Null, exp.Boolean, exp.Placeholder, exp.Parameter)


def template(text: str, arguments: Arguments) -> exp.Expr:
    """The text's tree with the arguments in their places."""
    tree = exp.Paren(this=parsed(text).copy())
    for parameter in list(tree.find_all(exp.Parameter)):
        at = int(parameter.name) - 1
        argument = arguments[at].copy() if at < len(arguments) else exp.null()
        parameter.replace(argument if isinstance(argument, _ATOMS) else exp.Paren(this=argument))
    return tree.this if isinstance(tree.this, exp.Subquery | exp.Paren) else tree


@cache
def parsed(text: str) -> exp.Expr:
    return syntax.expression(text)
