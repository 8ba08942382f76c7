"""How a table's rows are laid out in its files: as the model declares it, and as the table has it.

Both are told in the words of the table's metadata (`day(at)`, `city desc nulls last`), so that they can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.schema import sort_order
from mere.project.model import Model
from mere.windows import Grain

_TRANSFORMS = {Grain.HOUR: "hour", Grain.DAY: "day", Grain.WEEK: "day", Grain.MONTH: "month", Grain.YEAR: "year"}

_PART = re.compile(
    r"(?:(?P<transform>\w+)(?:\[(?P<width>\d+)\])?\(\s*(?:(?P<number>\d+)\s*,\s*)?)?(?P<column>[^()\s]+)\s*\)?"
)
_ORDER = re.compile(
    r"(?P<by>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE | re.DOTALL
)
_BETWEEN_PARTS = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True)
class Part:
    """Of a partitioning: a column, or what a transform makes of it."""

    column: str
    transform: str = ""
    number: str = ""

    @classmethod
    def parse(cls, text: str) -> Part:
        """As a model writes it, `bucket(4, id)`, or as the metadata does, `bucket[4](id)`."""
        found = _PART.fullmatch(text.strip().replace("`", ""))
        if not found:
            return cls(text.strip())
        transform = (found["transform"] or "").lower()
        return cls(found["column"], transform.removesuffix("s"), found["number"] or found["width"] or "")

    def __str__(self) -> str:
        if not self.transform:
            return self.column
        return f"{self.transform}{f'[{self.number}]' if self.number else ''}({self.column})"

    @property
    def words(self) -> str:
        """As a model writes it."""
        inside = f"{self.number}, {self.column}" if self.number else self.column
        return (f"{self.transform}({inside})" if self.transform else inside).casefold()


@dataclass(frozen=True)
class Layout:
    """As a model declares it."""

    parts: tuple[str, ...]
    order: tuple[str, ...]

    def to_json(self) -> list[list[str]]:
        return [list(self.parts), list(self.order)]

    @classmethod
    def from_json(cls, raw: Sequence[Iterable[str]]) -> Layout:
        return cls(*map(tuple, raw))

    def since(self, before: Layout) -> list[str]:
        """What is otherwise than it was, in words."""
        changed = []
        if self.parts != before.parts:
            changed.append(f"partitioned by {', '.join(self.parts)}" if self.parts else "not partitioned")
        if self.order != before.order:
            changed.append(f"sorted by {', '.join(self.order)}" if self.order else "not sorted")
        return changed


def layout_of(model: Model) -> Layout:
    return Layout(tuple(part.words for part in partitions(model)), tuple(_folded(_orders(model))))


def partitions(model: Model) -> list[Part]:
    """As declared. An incremental table is cut by its time, so that a window is overwritten without the others."""
    parts = [Part.parse(text) for text in model.partition_by]
    if model.time and not any(_is(part.column, model.time.column) for part in parts):
        parts.insert(0, Part(model.time.column, _TRANSFORMS[model.time.grain]))
    return parts


def is_ordered_as(model: Model, table: Metadata) -> bool:
    return _folded(_orders(model)) == _folded(sort_order(table))


def _orders(model: Model) -> list[str]:
    return [_order(text) for text in _BETWEEN_PARTS.split(", ".join(model.sort_by)) if text.strip()]


def _order(text: str) -> str:
    found = _ORDER.fullmatch(text.strip())
    assert found
    direction = (found["direction"] or "asc").lower()
    nulls = (found["nulls"] or ("first" if direction == "asc" else "last")).lower()
    return f"{Part.parse(found['by'])} {direction} nulls {nulls}"


def are_cut_at_windows(model: Model, parts: Iterable[Any]) -> bool:
    """Whether no file of such a partitioning can hold rows of two windows: then a window is overwritten by exchanging
    whole files."""
    assert model.time
    grains, column = list(_TRANSFORMS), model.time.column.casefold()
    fine = (_TRANSFORMS[grain] for grain in grains[: grains.index(model.time.grain) + 1])
    return not {column, *(f"{each}({column})" for each in fine)}.isdisjoint(_folded(map(str, parts)))


def _folded(words: Iterable[str]) -> list[str]:
    return [word.casefold() for word in words]


def _is(name: str, other: str) -> bool:
    return name.casefold() == other.casefold()
