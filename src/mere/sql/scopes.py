"""The sources of a query's scope as Spark sees them, and its SELECT list."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from mere.names import TableName

Source = exp.Table | Scope


def sources_of(scope: Scope) -> dict[str, tuple[exp.Expr, Source]] | None:
    """What stands in FROM and JOIN, by the name that columns use for it.

    None if two have one name, such as silver.orders and gold.orders: which of them a column means is then left open.
    sqlglot's own list raises an error there, and leaves out what is joined by SEMI and ANTI.
    """
    found: dict[str, tuple[exp.Expr, Source]] = {}
    for name, node in scope.references:
        if name in found:
            return None
        if name in scope.sources:
            found[name] = node, scope.sources[name]
    return found


def selects_of(scope: Scope) -> list[exp.Expr]:
    """The SELECT list; of a union none, for each of its branches is a scope."""
    query = scope.expression
    return query.selects if isinstance(query, exp.Query) and not scope.set_operation_scopes else []


def is_star(select: exp.Expr) -> bool:
    """`*` or `t.*`; what sqlglot calls so is also a subquery of one."""
    return isinstance(select, exp.Star) or (isinstance(select, exp.Column) and isinstance(select.this, exp.Star))


def left_out(star: exp.Expr, *clauses: str) -> frozenset[str]:
    """The columns that a `*` does not give as they are, by its EXCEPT or the clauses named; in lower case."""
    inner = star.this if isinstance(star, exp.Column) else star
    found = (each for clause in clauses or ("except_",) for each in inner.args.get(clause) or [])
    return frozenset(name.lower() for each in found for name in (each.name, each.alias_or_name))


def behind(star: exp.Expr, name: str) -> exp.Column:
    """The column of the sources that a column given by a `*` is."""
    return exp.column(name, table=star.table or None if isinstance(star, exp.Column) else None)


def table_name(node: exp.Table) -> TableName:
    """As it is written: without a schema, its namespace is empty."""
    return TableName.of([part.name for part in node.parts])
