"""What a role may read of one table at a commit. A rule that no longer fits the table shows nothing of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from mere.names import TableName
from mere.serve.access.roles import Role, Rule
from mere.serve.language import conditions
from mere.serve.protocol.port import PgError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class OfTable:
    columns: tuple[str, ...] | None  # None: all
    conditions: tuple[exp.Expr, ...]  # of the caller's own


def of_table(role: Role, table: TableName, columns: Sequence[str]) -> OfTable:
    """PgError 42501 where what the role says does not fit the table's columns."""
    if (wrong := misfit(role, table, columns)) is not None:
        _LOG.warning("nothing of %s is shown to the role %s: %s", table, role.name, wrong)
        raise PgError("42501", f"permission denied for table {table.name}", hint=_ASK)
    chosen = role.chosen(table, columns)
    found = tuple(conditions.read(each) for each in role.conditions(table))
    return OfTable(None if chosen is None else tuple(chosen), found)


def misfit(role: Role, table: TableName, columns: Sequence[str]) -> str | None:
    """Why what the role says of a table cannot be kept, in words for whoever runs the server."""
    chosen = role.chosen(table, columns)
    if chosen is not None and not chosen:
        return f"{table} has none of the columns that it may read"
    folded = [each.lower() for each in chosen or ()]
    for each in columns:
        if chosen is not None and each not in chosen and each.lower() in folded:
            return f"{table} has two columns {each}, which differ only in case"
    known = {each.lower() for each in columns}
    for condition in role.conditions(table):
        if missing := [each for each in conditions.columns(conditions.read(condition)) if each.lower() not in known]:
            return f"{table} has no column {missing[0]}, which {condition!r} needs"
    return None


def at_commit(role: Role, unmet: Sequence[Rule], ref: str) -> PgError:
    """Of a commit without a table that the role has rules for."""
    _LOG.warning(
        "nothing of %s is shown to the role %s: no table there has the name %s", ref, role.name, unmet[0].pattern
    )
    return PgError("42501", f'permission denied for database "{ref}"', hint=_ASK)


_ASK = "What this role may read does not fit the tables that are there. Ask whoever runs the server."
