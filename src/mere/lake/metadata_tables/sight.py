"""Who reads a metadata table, as far as it has to know."""

from __future__ import annotations

from typing import Protocol

from mere.names import TableName


class Sight(Protocol):
    """A role implements it."""

    @property
    def reads_everything(self) -> bool:
        """On all refs, and at all times."""
        ...

    @property
    def is_restricted(self) -> bool:
        """To some tables, or some of the columns or rows of one."""
        ...

    @property
    def history(self) -> bool:
        """Whether it reads more than the present of a ref."""
        ...

    def may_connect(self, ref: str) -> bool:
        """To a branch or a tag."""
        ...

    def may_read_all_of(self, table: TableName) -> bool:
        """All of its rows and columns."""
        ...


class _Everything:
    reads_everything = True
    is_restricted = False
    history = True

    def may_connect(self, ref: str) -> bool:
        del ref
        return True

    def may_read_all_of(self, table: TableName) -> bool:
        del table
        return True


EVERYTHING: Sight = _Everything()
