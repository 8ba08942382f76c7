"""The sources of a SELECT, and the column that a name refers to, resolved as Spark does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from mere.sql.lineage.derivation import Made, Output, Relation, together

Ctes = Mapping[str, Relation]  # by their names in lower case


@dataclass(frozen=True)
class Source:
    """What stands in FROM or JOIN. `names`: by which columns may call it, such as `o`, or `orders`, `silver.orders`."""

    names: frozenset[tuple[str, ...]]
    relation: Relation


class Frame:
    """Grows from left to right, as FROM, joins and lateral views do."""

    def __init__(self, ctes: Ctes, outer: Frame | None = None) -> None:
        self.ctes = ctes
        self.outer = outer
        self.all = Relation()  # what `*` stands for
        self.aliases: dict[str, Made] = {}
        self.windows: dict[str, exp.Expr] = {}
        self._sources: list[Source] = []
        self._hidden: list[Relation] = []  # of SEMI and ANTI joins

    def add(self, source: Source, using: Sequence[str] = (), side: str = "") -> None:
        """`using`: the names of columns that both sides share, and that are then one."""
        self._sources.append(source)
        left, right = self.all, source.relation
        shared = tuple(Output(name, _shared(left.find(name.lower()), right.find(name.lower()), side)) for name in using)
        left, right = left.without(using), right.without(using)
        others = [each for each in (left.other, right.other) if each is not None]
        self.all = Relation(
            (*shared, *left.outputs, *right.outputs),
            opened=(*left.opened, *right.opened),
            other=together(others) if others else None,
        )

    def add_hidden(self, source: Source) -> None:
        self._sources.append(source)
        self._hidden.append(source.relation)

    def called(self, parts: Sequence[str]) -> Relation | None:
        """The source with that name."""
        found = [each.relation for each in self._sources if tuple(parts) in each.names]
        return found[0] if found else None

    def find(self, parts: Sequence[str]) -> Made | None:
        """Of `column`, `source.column`, `schema.table.column`, each of which may go on with fields; in lower case."""
        for length in (2, 1):
            source = self.called(parts[:length]) if len(parts) > length else None
            if source is not None and (made := source.find(parts[length])) is not None:
                return made
        known = [each.made for each in self.all.outputs if each.name.lower() == parts[0]]
        if known:
            return together(known)
        guesses = [made for made in (self.all.find(parts[0]), self.aliases.get(parts[0])) if made is not None]
        if guesses and self.all.is_known:
            return guesses[0]
        guesses += [made for each in self._hidden if (made := each.find(parts[0])) is not None]
        if self.outer is not None and (made := self.outer.find(parts)) is not None:
            guesses.append(made)
        if not guesses:
            return None
        return guesses[0] if len(guesses) == 1 else together(guesses).guessed()

    def alias(self, parts: Sequence[str]) -> Made | None:
        """Of a name of the SELECT list, which goes before the sources in HAVING and ORDER BY."""
        return self.aliases.get(parts[0]) if len(parts) == 1 else None


def _shared(left: Made | None, right: Made | None, side: str) -> Made:
    both = [each for each in (left, right) if each is not None]
    if side == "FULL" or len(both) < 2:
        return together(both)
    return both[1] if side == "RIGHT" else both[0]
