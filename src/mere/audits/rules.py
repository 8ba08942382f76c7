"""The rules that an audit can have, each with its arguments, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar

from mere.names import TableName

Columns = tuple[str, ...]


class Severity(StrEnum):
    ERROR = "error"  # blocks publishing
    WARN = "warn"


@dataclass(frozen=True)
class Allowed:
    """So many rows, or so many in a hundred of those that were looked at. `floor`: so many rows are permitted whatever
    their share, as long as they are not more than half: a share says little about a few rows."""

    amount: Decimal = Decimal(0)
    percent: bool = False
    floor: int = 0

    def permits(self, rows: int, of: int) -> bool:
        if self.percent:
            return rows * 100 <= self.amount * of or (rows <= self.floor and rows * 2 <= of)
        return rows <= self.amount

    def __str__(self) -> str:
        if self.percent and self.floor:
            return f"{self.amount}%, or up to {self.floor} rows that are at most half of them"
        return f"{self.amount}%" if self.percent else f"{self.amount} row{'' if self.amount == 1 else 's'}"


@dataclass(frozen=True)
class NotNull:
    word: ClassVar[str] = "not_null"
    columns: Columns

    def __str__(self) -> str:
        return ", ".join(self.columns)


@dataclass(frozen=True)
class Unique:
    """A row with a NULL among these columns is like no other, as for UNIQUE in SQL."""

    word: ClassVar[str] = "unique"
    columns: Columns

    def __str__(self) -> str:
        return ", ".join(self.columns)


@dataclass(frozen=True)
class Key:
    """A declared key tells every row from all others: none of its columns is NULL, no two rows have the same values."""

    word: ClassVar[str] = "key"
    columns: Columns
    built: bool = False  # the build itself lets no key stand twice: only NULL is looked for
    whole: bool = True  # among all rows of the table, not only those of the windows that were just built

    def __str__(self) -> str:
        return ", ".join(self.columns)


@dataclass(frozen=True)
class AcceptedValues:
    """NULL is accepted: not_null is the rule against it."""

    word: ClassVar[str] = "accepted_values"
    column: str
    values: tuple[str, ...]  # SQL literals

    def __str__(self) -> str:
        return f"{self.column}: {', '.join(self.values)}"


@dataclass(frozen=True)
class Relationships:
    """Every value stands in another table. One with a NULL points nowhere, as for FOREIGN KEY in SQL."""

    word: ClassVar[str] = "relationships"
    columns: Columns
    to: TableName
    key: Columns

    def __str__(self) -> str:
        return f"{', '.join(self.columns)} → {self.to}.{', '.join(self.key)}"


@dataclass(frozen=True)
class Assert:
    """A condition on each row. One that is neither true nor false, for a NULL, is met, as for CHECK in SQL."""

    word: ClassVar[str] = "assert"
    condition: str

    def __str__(self) -> str:
        return self.condition


@dataclass(frozen=True)
class RowCount:
    word: ClassVar[str] = "row_count"
    min: int | None = None
    max: int | None = None

    def __str__(self) -> str:
        if self.min is None or self.max is None:
            return f"at most {self.max:,}" if self.min is None else f"at least {self.min:,}"
        return f"{self.min:,} to {self.max:,}"


@dataclass(frozen=True)
class Freshness:
    """The latest value of a column is not older than this. That of a date is compared by the day."""

    word: ClassVar[str] = "freshness"
    column: str
    within: timedelta

    def __str__(self) -> str:
        return f"{self.column} within {self.within}"


@dataclass(frozen=True)
class MaxChange:
    """The number of rows may differ by so much, up or down, from that before."""

    word: ClassVar[str] = "max_change"
    by: Allowed

    def __str__(self) -> str:
        return f"{self.by}"


@dataclass(frozen=True)
class CustomQuery:
    """A query of bad rows from audits/*.sql, its parameters filled in. `this` in it is the audited table."""

    custom: str
    arguments: str
    sql: str
    reads: tuple[TableName, ...]

    @property
    def word(self) -> str:
        return self.custom

    def __str__(self) -> str:
        return self.arguments


Rule = NotNull | Unique | Key | AcceptedValues | Relationships | Assert | RowCount | Freshness | MaxChange | CustomQuery
# The rule of every incremental model that quarantines: a row without a time belongs to no window.
TIME = "time"
# What holds of each row by itself, whatever other rows the table has: only such a rule can put a row aside.
OF_ONE_ROW = (NotNull, AcceptedValues, Relationships, Assert)
BUILT_IN: dict[str, type[Rule]] = {
    rule.word: rule for rule in (NotNull, Unique, AcceptedValues, Relationships, Assert, RowCount, Freshness, MaxChange)
}
