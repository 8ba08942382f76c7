"""The tables of a query as TableName."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mere.names import TableName

if TYPE_CHECKING:
    from sqlglot import exp


def table_name(node: exp.Table) -> TableName:
    """As it is written: without a schema, its namespace is empty."""
    *namespace, name = (part.name for part in node.parts)
    return TableName(".".join(namespace), name)
