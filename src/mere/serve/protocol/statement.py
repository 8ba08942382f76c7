"""Parsed statements: a class for each kind that the protocol treats differently, with what that kind needs.

What a tag has no count for is decided by the wire: only SELECT, FETCH, MOVE and COPY have one. What is not supported,
such as LISTEN, is no statement: reading it fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlglot import exp


class Parsed(Protocol):
    """A query as a tree, which is made again from its text where it was forgotten."""

    @property
    def tree(self) -> exp.Expr: ...
    def forget(self) -> None: ...


@dataclass(frozen=True)
class Statement:
    """One statement of a text."""

    tag: str  # the command tag without a count: SELECT, BEGIN, SET
    text: str
    start: int = 0  # where it begins in the text that was sent

    @property
    def all(self) -> list[Statement]:
        """This one, and the one in it."""
        return [self]

    def forget(self) -> None:
        """It will be kept for long: what can be found out again by its text is let go."""
        for each in self.all:
            if isinstance(each, Select):
                each.parsed.forget()


@dataclass(frozen=True)
class Query(Statement):
    """It returns rows."""


@dataclass(frozen=True, kw_only=True)
class Select(Query):
    parsed: Parsed


@dataclass(frozen=True, kw_only=True)
class Explain(Select):
    """The plan of a query."""


@dataclass(frozen=True, kw_only=True)
class Show(Query):
    name: str  # of a setting, or `all`


@dataclass(frozen=True)
class Nothing(Statement):
    """It is understood, and there is nothing to do: an empty statement, UNLISTEN, SET TRANSACTION."""


# Transactions


@dataclass(frozen=True)
class Begin(Statement):
    pass


@dataclass(frozen=True, kw_only=True)
class End(Statement):
    chain: bool = False  # AND CHAIN: the next transaction begins at once


@dataclass(frozen=True, kw_only=True)
class Commit(End):
    pass


@dataclass(frozen=True, kw_only=True)
class Rollback(End):
    pass


@dataclass(frozen=True, kw_only=True)
class OfSavepoint(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class Savepoint(OfSavepoint):
    pass


@dataclass(frozen=True, kw_only=True)
class Release(OfSavepoint):
    pass


@dataclass(frozen=True, kw_only=True)
class RollbackTo(OfSavepoint):
    pass


# Settings


@dataclass(frozen=True, kw_only=True)
class Set(Statement):
    """And RESET: of one setting to its default, or of all."""

    name: str | None  # None: all
    value: str | None  # None: the default
    local: bool = False


@dataclass(frozen=True, kw_only=True)
class Discard(Statement):
    what: str  # ALL, PLANS, SEQUENCES or TEMP


# What has a query in it


@dataclass(frozen=True, kw_only=True)
class WithQuery(Statement):
    query: Query

    @property
    def all(self) -> list[Statement]:
        return [self, self.query]


@dataclass(frozen=True, kw_only=True)
class Declare(WithQuery):
    """A cursor."""

    name: str
    binary: bool = False
    hold: bool = False


@dataclass(frozen=True)
class CopyOptions:
    format: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    force_quote: frozenset[str] = frozenset()  # with "*" in it, all columns


@dataclass(frozen=True, kw_only=True)
class CopyOut(WithQuery):
    """COPY … TO STDOUT."""

    options: CopyOptions


@dataclass(frozen=True, kw_only=True)
class Prepare(WithQuery):
    name: str
    types: tuple[int, ...] = ()  # oids


@dataclass(frozen=True, kw_only=True)
class CreateView(WithQuery):
    """A temporary one."""

    query: Select
    name: str
    columns: tuple[str, ...] = ()  # the names of the first ones
    replace: bool = False  # one that is there


@dataclass(frozen=True, kw_only=True)
class DropView(Statement):
    names: tuple[tuple[str | None, str], ...]  # the schema, if it is given, and the name
    missing_ok: bool = False
    cascade: bool = False


# Of cursors and prepared statements, by their names


@dataclass(frozen=True, kw_only=True)
class Fetch(Statement):
    """Rows of a cursor."""

    name: str
    count: int | None = 1  # None: all; below 0: backward
    absolute: bool = False  # the count is a row's number: FIRST is 1, LAST is -1


@dataclass(frozen=True, kw_only=True)
class Move(Fetch):
    """The rows are passed over."""


@dataclass(frozen=True, kw_only=True)
class Close(Statement):
    name: str | None  # None: all


@dataclass(frozen=True, kw_only=True)
class Execute(Statement):
    name: str
    values: tuple[str | None, ...] = ()  # the literals' texts, None for NULL


@dataclass(frozen=True, kw_only=True)
class Deallocate(Statement):
    name: str | None  # None: all
