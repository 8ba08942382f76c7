"""Where a column of a query comes from: the columns whose values it takes, and those that decide which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mere.names import TableName

if TYPE_CHECKING:
    from sqlglot import exp

# Stands for a column of a table of which it is not known which one it is.
ANY = "*"


@dataclass(frozen=True, order=True)
class ColumnName:
    """`schema.table.column`, or the rows of a table as such: `schema.table`."""

    table: TableName
    column: str | None = None

    def __str__(self) -> str:
        return f"{self.table}.{self.column}" if self.column else str(self.table)


@dataclass(frozen=True)
class Place:
    """Where a query uses a column."""

    node: exp.Expr  # the column itself, or the star or table that stands for it
    around: exp.Expr  # the expression in which it stands
    clause: str = ""  # WHERE, JOIN …, if it is a condition
    certain: bool = True

    @property
    def is_bare(self) -> bool:
        """Whether the column is only passed on here, perhaps under another name."""
        return self.around.key in ("table", "star", "column") or self.around.unalias().key in ("column", "star")


Origins = Mapping[ColumnName, Place]
NO_ORIGINS: Origins = {}


@dataclass(frozen=True)
class Made:
    values: Origins = field(default_factory=dict)
    conditions: Origins = field(default_factory=dict)

    def placed(self, node: exp.Expr, around: exp.Expr) -> Made:
        """As it is used by an expression. Where something happened to a value before, that place tells more."""
        values = {
            name: replace(place, node=node, around=around) if place.is_bare else place
            for name, place in self.values.items()
        }
        return Made(values, self.conditions)

    def guessed(self) -> Made:
        return Made(*({name: replace(at, certain=False) for name, at in each.items()} for each in self._both))

    @property
    def _both(self) -> tuple[Origins, Origins]:
        return self.values, self.conditions


NOTHING = Made()


def joined(origins: Iterable[Origins]) -> Origins:
    """What is certain in one place goes before what is a guess in another."""
    found: dict[ColumnName, Place] = {}
    for each in origins:
        for name, place in each.items():
            if name not in found or (place.certain and not found[name].certain):
                found[name] = place
    return found


def together(made: Iterable[Made]) -> Made:
    parts = list(made)
    if len(parts) == 1:
        return parts[0]
    return Made(joined(each.values for each in parts), joined(each.conditions for each in parts))


def as_conditions(made: Made, around: exp.Expr, clause: str) -> Origins:
    """Of what a clause looks at, all is a condition of the rows that come through it."""
    values = {name: Place(_within(place.node, around), around, clause, place.certain)
              for name, place in made.values.items()}  # fmt: skip
    return joined((values, made.conditions))


def _within(node: exp.Expr, around: exp.Expr) -> exp.Expr:
    """The node, if it stands in the clause itself and not in a query that the clause uses."""
    at: exp.Expr | None = node
    while at is not None and at is not around:
        at = at.parent
    return around if at is None else node


@dataclass(frozen=True)
class Output:
    name: str
    made: Made


@dataclass(frozen=True)
class Open:
    """A table whose columns are not known, and that come through by their names."""

    table: TableName
    place: Place
    without: frozenset[str] = frozenset()

    def find(self, name: str) -> Made | None:
        return None if name in self.without else Made({ColumnName(self.table, name): self.place})


@dataclass(frozen=True)
class Relation:
    """A table or query: its columns, and what decides which rows it has."""

    outputs: tuple[Output, ...] = ()
    rows: Origins = field(default_factory=dict)
    opened: tuple[Open, ...] = ()
    other: Made | None = None  # of columns whose names are not known

    @property
    def is_known(self) -> bool:
        return not self.opened and self.other is None

    def find(self, name: str) -> Made | None:
        """Of the column with that name, in lower case; None if there is none."""
        found = [each.made for each in self.outputs if each.name.lower() == name]
        if found:
            return together(found)
        found = [made for each in self.opened if (made := each.find(name)) is not None]
        found += [self.other] if self.other is not None else []
        if not found:
            return None
        return found[0] if len(found) == 1 and self.other is None else together(found).guessed()

    def whole(self) -> Made:
        """Of all columns at once."""
        opened = [Made({ColumnName(each.table, ANY): replace(each.place, certain=False)}) for each in self.opened]
        others = [self.other] if self.other is not None else []
        return together([*(each.made for each in self.outputs), *opened, *others])

    def without(self, names: Iterable[str]) -> Relation:
        left_out = {name.lower() for name in names}
        opened = tuple(replace(each, without=each.without | left_out) for each in self.opened)
        return replace(
            self, outputs=tuple(each for each in self.outputs if each.name.lower() not in left_out), opened=opened
        )

    def renamed(self, names: Iterable[str]) -> Relation:
        """Its columns get other names, by position: `AS t(a, b)`."""
        given = list(names)
        if not given:
            return self
        if self.is_known and len(given) == len(self.outputs):
            outputs = [Output(name, each.made) for name, each in zip(given, self.outputs, strict=True)]
        else:
            outputs = [Output(name, self.whole().guessed()) for name in given]
        return Relation(tuple(outputs), self.rows)
