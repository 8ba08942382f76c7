"""Names and texts as Spark's SQL spells them."""

from __future__ import annotations

from mere.names import TableName


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def name_of(table: TableName) -> str:
    return ".".join(quoted(part) for part in (*table.namespace.split("."), table.name))


def text_literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
