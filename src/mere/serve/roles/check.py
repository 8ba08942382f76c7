"""Checks roles against the lake: names that nothing has, missing columns, conditions that cannot be computed.

A problem keeps the server from starting. A note is something that does no harm, and may be meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from mere.errors import ConfigError, MereError
from mere.lake.log.refs import RefKind
from mere.lake.query.bindings import schema_of
from mere.names import MAIN, TableName, near
from mere.serve.access.limits import Resources
from mere.serve.access.roles import Declared, Role, Rule, Writes
from mere.serve.access.tokens import Token
from mere.serve.language import rights
from mere.serve.protocol.port import PgError
from mere.serve.session.backend import LakeBackend
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    from mere.lake.lake import Lake
    from mere.lake.query.tables import TableSet

_BOOLEAN = 16  # the oid


@dataclass
class Found:
    problems: list[ConfigError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    writes: dict[str, Writes] = field(default_factory=dict)  # by the role

    def raise_problems(self) -> None:
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            lines = [str(each).replace("\n", "\n    ") for each in self.problems]
            raise ConfigError("\n  ".join([f"{len(lines)} problems in the roles file", *lines]))


def check(roles: Declared, lake: Lake, users: Iterable[str] | None = None, *, compute: bool = True) -> Found:
    """`users`: who can log in, if that is not everybody. `compute`: whether conditions are tried on their tables."""
    found = Found()
    refs = lake.refs(RefKind.BRANCH, RefKind.TAG)
    branches = [ref.name for ref in refs if ref.kind.writable]
    sets = lake.at_each([ref.name for ref in refs])
    for role in roles.roles.values():
        served = {ref: tables for ref, tables in sets.items() if role.may_connect(ref)}
        of_role = _OfRole(roles, role, served, found)
        of_role.check(sets)
        if role.writes is not None:
            of_role.check_writes(role.writes, branches)
            found.writes[role.name] = role.writes
    found.notes += _of_users(roles, users)
    if compute and not found.problems:
        _compute(roles, lake, sets, found)
    return found


def _of_users(roles: Declared, users: Iterable[str] | None) -> Iterator[str]:
    if users is None:
        return
    known = sorted(users)
    yield from (f"{user} has no role and cannot connect" for user in known if roles.of(user) is None)
    yield from (
        f"{user} has a role, but cannot log in: mere user add {user}" for user in roles.users if user not in known
    )
    given = {roles.users.get(user, user) for user in known}
    yield from (f"nobody has the role {name}" for name in roles.roles if name not in given)


def of_tokens(roles: Declared | None, tokens: Iterable[Token]) -> Iterator[str]:
    """Those that let nobody in."""
    for token in tokens:
        if token.role is not None and (roles is None or roles.named(token.role) is None):
            yield f"the token {token.id} of {token.user} lets nobody in: there is no role {token.role}"
        elif roles is not None and token.role is None and roles.of(token.user) is None:
            yield f"the token {token.id} of {token.user} lets nobody in: {token.user} has no role"


@dataclass
class _OfRole:
    roles: Declared
    role: Role
    served: Mapping[str, TableSet]  # by the refs that it may connect to
    found: Found

    def check(self, refs: Iterable[str]) -> None:
        if not self.served:
            wanted = ", ".join(map(_shown, self.role.refs))
            hint = near(self.role.refs[0], refs).strip() or None
            self._problem(
                self.role.line,
                f"no branch or tag has a name that the role {self.role.name} may connect to: {wanted}",
                hint,
            )
            return
        for rule in self.role.tables:
            self._check_name(rule, "tables")
        for key, rules in (("columns", self.role.columns), ("rows", self.role.rows)):
            for rule in rules:
                if self._check_name(rule, key):
                    self._check_columns(rule)
        self._check_fit()

    def check_writes(self, writes: Writes, branches: Iterable[str]) -> None:
        """Nothing is written that is not read. Patterns may be for what is still to come."""
        role = self.role
        for ref in writes.refs:
            if not _is_pattern(ref) and not role.may_connect(ref):
                self._problem(writes.line, f"the role {role.name} writes to {_shown(ref)}, which its `refs` leave out")
        for ref in writes.publish:
            if not _is_pattern(ref) and not role.may_connect(ref):
                message = f"the role {role.name} publishes into {_shown(ref)}, which its `refs` leave out"
                self._problem(writes.line, message)
        for schema in writes.schemas:
            if not _is_pattern(schema) and not any(_could_name(rule, schema) for rule in role.tables):
                message = f"the role {role.name} writes to {_shown(schema)}, of which it reads no table"
                self._problem(writes.line, message, f"Add to its `tables`: {{table: {schema}.*, optional: true}}")
        if MAIN in writes.refs:
            self.found.notes.append(f"the role {role.name} writes to {MAIN} without a run and a publish")
        elif not any(map(role.publishing.may_write_to, branches)):
            self.found.notes.append(f"the role {role.name} may write, but no branch is there that it may write to")

    def _check_name(self, rule: Rule, key: str) -> bool:
        refs = [ref for ref, tables in self.served.items() if any(map(rule.names, tables))]
        if not refs and not rule.optional:
            hint = near(rule.pattern, self._tables).strip() or None
            remedy = f"{hint or 'See them with: mere tables.'} If a branch will add it later, write: optional: true."
            self._problem(
                rule.line,
                f"the role {self.role.name} names {_shown(rule.pattern)} in `{key}`, and no table has such a name",
                remedy,
            )
        elif key != "tables" and not rule.optional and len(refs) < len(self.served):
            missing = ", ".join(ref for ref in self.served if ref not in refs)
            self.found.notes.append(
                f"the role {self.role.name} is shown nothing of {missing}: no table there is named {rule.pattern}"
            )
        return bool(refs)

    @cached_property
    def _tables(self) -> list[TableName]:
        return sorted({table for tables in self.served.values() for table in tables})

    def _check_columns(self, rule: Rule) -> None:
        if rule.optional or not rule.columns:
            return
        there = {
            column
            for tables in self.served.values()
            for table in tables
            if rule.names(table)
            for column in self._columns(tables, table)
        }
        for pattern in rule.columns:
            if there and not any(fnmatchcase(column, pattern) for column in there):
                self._problem(
                    rule.line,
                    f"no table named {_shown(rule.pattern)} has a column {_shown(pattern)}",
                    near(pattern, sorted(there)).strip() or f"Its columns: {', '.join(sorted(there))}.",
                )

    def _check_fit(self) -> None:
        """A table is shown on one ref at least; where it is not, that may be of the past."""
        wrong: dict[TableName, dict[str, str]] = {}
        right: set[TableName] = set()
        for ref, tables in self.served.items():
            for table in filter(self.role.may_read, tables):
                columns = self._columns(tables, table)
                why = rights.misfit(self.role, table, columns) if columns else None
                if why is None:
                    right.add(table)
                else:
                    wrong.setdefault(table, {})[ref] = why
        for table, refs in wrong.items():
            if table in right:
                self.found.notes.append(
                    f"the role {self.role.name} is not shown {table} of {', '.join(refs)}: {next(iter(refs.values()))}"
                )
            else:
                self._problem(
                    self._line(table), f"the role {self.role.name} cannot be shown {table}: {next(iter(refs.values()))}"
                )

    def _line(self, table: TableName) -> int:
        return next(rule.line for rule in (*self.role.rows, *self.role.columns) if rule.restricts(table))

    def _columns(self, tables: TableSet, table: TableName) -> list[str]:
        if self.role.chosen(table, ()) is None and not self.role.conditions(table):
            return []
        try:
            return [each["name"] for each in schema_of(tables, table)["fields"]]
        except MereError as error:
            self.found.notes.append(f"{table} of {tables.ref} cannot be read: {error.message}")
            return []

    def _problem(self, line: int, message: str, remedy: str | None = None) -> None:
        self.found.problems.append(self.roles.error(line, message, remedy))


def _compute(roles: Declared, lake: Lake, sets: Mapping[str, TableSet], found: Found) -> None:
    """Each condition once for each metadata file of a table that it is for, by a statement that reads no row."""
    with closing(LakeBackend(lake, resources=Resources(threads=1))) as backend:
        tried: set[tuple[str, str]] = set()
        for role in roles.roles.values():
            for ref, tables in sets.items():
                if not role.may_connect(ref) or role.unmet(tables):
                    continue
                for table in filter(role.may_read, tables):
                    for rule in role.rows:
                        key = (tables.pointer(table), rule.condition or "")
                        if not rule.restricts(table) or key in tried:
                            continue
                        tried.add(key)
                        if (why := _failure(backend, role, ref, table, rule)) is not None:
                            found.problems.append(
                                roles.error(
                                    rule.line,
                                    f"the rows of {table} cannot be chosen by {rule.condition!r} on {ref}: {why}",
                                )
                            )


def _failure(backend: LakeBackend, role: Role, ref: str, table: TableName, rule: Rule) -> str | None:
    place = f"{quoted(table.namespace)}.{quoted(table.name)}"
    sql = f"SELECT (\n{rule.condition}\n) AS fits FROM {place} WHERE (\n{rule.condition}\n)"
    try:
        session = backend.connect(role.name, ref, {})
        (statement,) = session.read(sql)
        (column,) = session.describe(statement, ()).fields
    except PgError as error:
        return error.message
    return None if column.oid == _BOOLEAN else "it is neither true nor false"


def _is_pattern(name: str) -> bool:
    return any(each in name for each in "*?[")


def _could_name(rule: Rule, schema: str) -> bool:
    """Whether a rule names a table of the schema, which need not be there."""
    of_schema, dot, _ = rule.pattern.partition(".")
    return not dot or fnmatchcase(schema, of_schema)


def _shown(name: str) -> str:
    """A letter that looks like another one is told apart."""
    return name if name.isascii() else f"{name} ({name!a})"
