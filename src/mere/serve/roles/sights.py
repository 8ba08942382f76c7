"""What a user can see of the lake, for the person who assigns the roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mere.errors import MereError, UsageError
from mere.lake.log.refs import RefKind
from mere.lake.query.bindings import schema_of
from mere.names import MAIN, RefExpression, TableName
from mere.serve.access.roles import Role, Roles, Writes
from mere.serve.language import rights

if TYPE_CHECKING:
    from mere.lake.lake import Lake
    from mere.lake.query.tables import TableSet


@dataclass(frozen=True)
class Seen:
    table: TableName
    kind: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]  # conditions, all of which hold
    refused: str | None = None  # why nothing of it is shown


@dataclass(frozen=True)
class Sight:
    user: str
    role: Role | None
    refs: tuple[str, ...] = ()
    written: tuple[str, ...] = ()  # the branches that it may write to, of which Role.writes names the schemas
    ref: str | None = None  # of which the tables are
    tables: tuple[Seen, ...] = ()
    refused: str | None = None  # why nothing of the ref is shown


def of_user(lake: Lake, roles: Roles, user: str, at: str | None = None) -> Sight:
    role = roles.of(user)
    if role is None:
        return Sight(user, None)
    refs = tuple(ref.name for ref in lake.refs(RefKind.BRANCH, RefKind.TAG) if role.may_connect(ref.name))
    written = tuple(ref.name for ref in lake.refs(RefKind.BRANCH) if role.may_write_to(ref.name))
    if at is not None and not role.may_read_at(RefExpression.parse(at)):
        raise UsageError(f"{user} may not read {at}.", remedy=f"It may read: {', '.join(refs) or 'nothing'}.")
    ref = at or (MAIN if MAIN in refs else next(iter(refs), None))
    if ref is None:
        return Sight(user, role, refs, written)
    tables = lake.at(ref)
    if unmet := role.unmet(tables):
        names = ", ".join(rule.pattern for rule in unmet)
        return Sight(
            user, role, refs, written, ref, refused=f"no table there is named {names}, for which the role has rules"
        )
    return Sight(
        user, role, refs, written, ref, tuple(_seen(tables, table, role) for table in tables if role.may_read(table))
    )


def _seen(tables: TableSet, table: TableName, role: Role) -> Seen:
    kind = tables.entry(table).kind.value
    try:
        columns = [each["name"] for each in schema_of(tables, table)["fields"]]
    except MereError as error:
        return Seen(table, kind, (), (), error.message)
    chosen, conditions = role.chosen(table, columns), tuple(role.conditions(table))
    if (why := rights.misfit(role, table, columns)) is not None:
        return Seen(table, kind, (), conditions, why)
    return Seen(table, kind, tuple(columns if chosen is None else chosen), conditions)


def _as_json(writes: Writes, there: Sequence[str]) -> dict[str, Any]:
    return {"refs": there, "patterns": writes.refs, "schemas": writes.schemas, "publish": writes.publish}


def as_json(found: Sight) -> dict[str, Any]:
    role = found.role
    return {
        "user": found.user,
        "role": role.name if role else None,
        "refs": found.refs,
        "write": _as_json(role.writes, found.written) if role and role.writes else None,
        "history": bool(role and role.history),
        "time": role.limits.time.total_seconds() if role and role.limits.time else None,
        "max_rows": role.limits.rows if role else None,
        "ref": found.ref,
        "refused": found.refused,
        "tables": [
            {
                "table": str(each.table),
                "kind": each.kind,
                "columns": each.columns,
                "rows": each.rows,
                "refused": each.refused,
            }
            for each in found.tables
        ],
    }
