"""The sources of a query's scope, as Spark sees them."""

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


def table_name(node: exp.Table) -> TableName:
    """As it is written: without a schema, its namespace is empty."""
    *namespace, name = (part.name for part in node.parts)
    return TableName(".".join(namespace), name)
