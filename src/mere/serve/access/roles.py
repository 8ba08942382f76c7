"""Who may read and write what: refs, tables, columns, rows. A role sees nothing else, in the catalogs either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Protocol

from mere.errors import ConfigError
from mere.names import ALIAS_PREFIX, MAIN, RefExpression, TableName
from mere.serve.access.limits import Limits

ALL = "*"


@dataclass(frozen=True)
class Rule:
    """What a role says of the tables whose names fit a pattern, which is one of file names: `gold.*`, `*.orders`."""

    pattern: str
    columns: tuple[str, ...] = ()  # patterns of those that it may read; none: the rule is not about columns
    condition: str | None = None  # of the rows that it may read
    optional: bool = False  # no such table need be there
    line: int = field(default=0, compare=False)  # in the file

    def names(self, table: TableName) -> bool:
        return fnmatchcase(str(table), self.pattern)

    def restricts(self, table: TableName) -> bool:
        """In any case: a table that differs from the one that is meant in nothing else is not shown instead of it."""
        return fnmatchcase(str(table).lower(), self.pattern.lower())


EVERYTHING = (Rule(ALL, optional=True),)


@dataclass(frozen=True)
class Writes:
    """Where a role writes: in all schemas that fit, on all branches that fit."""

    refs: tuple[str, ...]
    schemas: tuple[str, ...]
    publish: tuple[str, ...] = ()  # branches that it changes by publishes and runs alone
    line: int = field(default=0, compare=False)

    def names_ref(self, ref: str) -> bool:
        """Runs and publishes write main. It is written by nobody else, unless it is named: no pattern means it."""
        return MAIN in self.refs if ref == MAIN else _fits(ref, self.refs)

    @property
    def by_publishing(self) -> Writes:
        return replace(self, refs=(*self.refs, *self.publish))

    def names_schema(self, schema: str) -> bool:
        return _fits(schema, self.schemas)


BRANCHES = Writes((ALL,), (ALL,))


@dataclass(frozen=True)
class Role:
    """The default reads all, and writes nothing. Where several rules fit a table, all of them hold."""

    name: str
    refs: tuple[str, ...] = (ALL,)
    tables: tuple[Rule, ...] = EVERYTHING
    columns: tuple[Rule, ...] = ()
    rows: tuple[Rule, ...] = ()
    writes: Writes | None = None
    history: bool = True  # whether it reads more than the present of a ref
    limits: Limits = field(default_factory=Limits)
    line: int = field(default=0, compare=False)

    def may_connect(self, ref: str) -> bool:
        """To a branch or a tag."""
        return _fits(ref, self.refs)

    def may_read_at(self, ref: RefExpression) -> bool:
        """The id of a commit could be one of any branch; an alias stands for one."""
        allowed = ALL in self.refs if ref.may_be_commit else self.may_connect(ref.base)
        is_present = not ref.steps and not ref.may_be_commit and not ref.base.startswith(ALIAS_PREFIX)
        return allowed and (self.history or is_present)

    def may_read(self, table: TableName) -> bool:
        """Of a table whose rows or columns are restricted, a quarantine and a ledger hold the same: they are not shown
        either, unless what restricts the table restricts them, too."""
        if not any(rule.names(table) for rule in self.tables):
            return False
        owner = table.owner
        return owner is None or set(self._rules(owner)) <= set(self._rules(table))

    def may_read_all_of(self, table: TableName) -> bool:
        """All of its rows and columns."""
        return self.may_read(table) and not self._rules(table)

    def may_write_to(self, ref: str) -> bool:
        """To some of the schemas of a branch."""
        return self.writes is not None and self.may_connect(ref) and self.writes.names_ref(ref)

    @property
    def publishing(self) -> Role:
        """What the role may do in a publish or a run."""
        return self if self.writes is None else replace(self, writes=self.writes.by_publishing)

    def may_write(self, ref: str, schema: str, table: str | None = None) -> bool:
        """Without a table: the schema itself. Who writes a table replaces files, which have all of its rows and
        columns: it has to be one that the role reads as a whole."""
        if self.writes is None or not self.may_write_to(ref) or not self.writes.names_schema(schema):
            return False
        return table is None or self.may_read_all_of(TableName(schema, table))

    def chosen(self, table: TableName, columns: Sequence[str]) -> list[str] | None:
        """Those of a table's columns that it may read; None: all."""
        rules = [rule for rule in self.columns if rule.restricts(table)]
        if not rules:
            return None
        return [each for each in columns if all(_fits(each, rule.columns) for rule in rules)]

    def conditions(self, table: TableName) -> list[str]:
        """All of which have to hold for a row."""
        return [rule.condition for rule in self.rows if rule.restricts(table) and rule.condition is not None]

    def _rules(self, table: TableName) -> list[Rule]:
        return [rule for rule in (*self.columns, *self.rows) if rule.restricts(table)]

    def unmet(self, tables: Iterable[TableName]) -> list[Rule]:
        """The rules for columns and rows that name no table of a commit. What they protect may be there under another
        name: nothing is shown at such a commit."""
        known = list(tables)
        wanted = [rule for rule in (*self.columns, *self.rows) if not rule.optional]
        return [rule for rule in wanted if not any(map(rule.names, known))]

    @property
    def is_restricted(self) -> bool:
        """To some tables, or some of the columns or rows of one."""
        return self.tables != EVERYTHING or bool(self.columns or self.rows)

    @property
    def reads_everything(self) -> bool:
        """On all refs, and at all times: no file of the lake is hidden from it."""
        return not self.is_restricted and ALL in self.refs and self.history

    def reads_always(self, table: TableName) -> bool:
        """All of it, on all refs and at all times."""
        return self.may_read_all_of(table) and ALL in self.refs and self.history

    @property
    def is_unrestricted(self) -> bool:
        """It reads everything, and writes to all branches."""
        writes = self.writes
        return self.reads_everything and writes is not None and ALL in writes.refs and ALL in writes.schemas

    @cached_property
    def key(self) -> str:
        """The same for roles that may read the same: what is computed for one serves the other."""
        rules = [(rule.pattern, rule.columns, rule.condition) for rule in (*self.tables, *self.columns, *self.rows)]
        return blake2b(repr((len(self.tables), rules)).encode(), digest_size=6).hexdigest()


class Roles(Protocol):
    """Which role a user has at the moment."""

    def of(self, user: str) -> Role | None:
        """None: the user may read nothing."""
        ...

    def named(self, role: str) -> Role | None:
        """None: there is no such role."""
        ...

    def admit(self) -> None:
        """PgError while nobody is to be let in."""
        ...


class Everybody:
    """Without roles, every user reads all, and writes to branches."""

    def of(self, user: str) -> Role | None:
        return _unlimited(user)

    def named(self, role: str) -> Role | None:
        """A token says who may do less than everybody, and it is not known what."""
        del role
        return None

    def admit(self) -> None:
        pass


@lru_cache(1000)
def _unlimited(user: str) -> Role:
    """The same object for all statements of a user: what sessions know of it is known by its identity."""
    return Role(user, writes=BRANCHES)


@dataclass(frozen=True)
class Declared:
    """The roles of a file. A user without an entry has the role of the same name."""

    roles: Mapping[str, Role]
    users: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None

    def of(self, user: str) -> Role | None:
        return self.named(self.users.get(user, user))

    def named(self, role: str) -> Role | None:
        return self.roles.get(role)

    def admit(self) -> None:
        pass

    def error(self, line: int, message: str, remedy: str | None = None) -> ConfigError:
        return ConfigError(message, remedy=remedy, file=self.file, line=line)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
