"""The conditions of roles: which rows of a table somebody may read, in Postgres's SQL."""

from __future__ import annotations

from sqlglot import exp

from mere.serve.engine import functions
from mere.serve.language import guard
from mere.serve.parse import syntax
from mere.serve.parse.words import words
from mere.serve.protocol.port import PgError

# A condition is about one row: it names columns, and no other rows, tables or values of the client's.
_NEVER: dict[type[exp.Expr], str] = {
    exp.Query: "a query",
    exp.Exists: "a query",
    exp.Table: "a table",
    exp.Unnest: "a set of rows",
    exp.Lateral: "a set of rows",
    exp.Values: "a set of rows",
    exp.Window: "a window",
    exp.Star: "`*`",
    exp.Alias: "`AS`",
    exp.Aliases: "`AS`",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
    exp.CurrentDate: "the client's time zone; write (now() AT TIME ZONE 'UTC')::date",
    exp.CurrentTime: "the client's time zone; write (now() AT TIME ZONE 'UTC')::time",
    exp.Localtime: "the client's time zone; write (now() AT TIME ZONE 'UTC')::time",
    exp.Localtimestamp: "the client's time zone; write now() AT TIME ZONE 'UTC'",
    exp.CurrentSchema: "a setting of the client's",
}
_OF_THE_LOGIN = words("current_user session_user user current_role current_database current_catalog")
_OF_CHANCE = frozenset({"random", "gen_random_uuid"})


def read(text: str) -> exp.Expr:
    """PgError where it is no condition, or one whose answer is not the row's alone."""
    found = syntax.expressions(text)
    if len(found) != 1:
        raise PgError("42601", "it has to be one condition")
    for node in found[0].walk():
        _check(node)
        guard.check_node(node)
    return found[0]


def columns(condition: exp.Expr) -> list[str]:
    """The columns that it names; of a field of a struct, the column."""
    return list(dict.fromkeys(each.parts[0].name for each in condition.find_all(exp.Column)))


def _check(node: exp.Expr) -> None:
    for kind, what in _NEVER.items():
        if isinstance(node, kind):
            raise PgError("42601", f"it uses {what}")
    if not isinstance(node, exp.Anonymous):
        return
    name = guard.function_name(node)
    if name in functions.SESSION - _OF_THE_LOGIN or name in guard.OF_CATALOG or name in functions.TABLES:
        raise PgError("42601", f"it uses {name}(), whose answer is not the row's alone")
    if name in _OF_CHANCE:
        raise PgError("42601", f"it uses {name}(), whose answer is another one each time")
