"""The health of a lake's database, checked over a connection of its own, as an engine would use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

PROBE = "mere_doctor"  # the namespace of all that a look at a lake writes and takes back


@dataclass(frozen=True)
class Trouble:
    what: str
    remedy: str
    grave: bool = False  # the lake cannot be relied on


@dataclass(frozen=True)
class Condition:
    summary: str
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True)
class Guards:
    """The triggers, and the functions behind them, against those that mere makes."""

    count: int
    missing: tuple[str, ...]
    altered: tuple[str, ...]
    unknown: tuple[str, ...]  # somebody else's, on the same tables

    @property
    def broken(self) -> tuple[str, ...]:
        return self.missing + self.altered


def compare(expected: Mapping[str, str], found: Mapping[str, str]) -> Guards:
    """Both by name, with the text of each."""
    return Guards(
        len(expected),
        missing=tuple(name for name in expected if name not in found),
        altered=tuple(name for name, text in expected.items() if found.get(name, text) != text),
        unknown=tuple(sorted(found.keys() - expected.keys())),
    )


@dataclass(frozen=True)
class Reaction:
    """What the guards did with an engine's write and its drop, in a transaction that was rolled back."""

    journaled: bool
    refused: bool


class Database(Protocol):
    def condition(self) -> Condition: ...
    def guards(self) -> Guards: ...
    def provoke(self) -> Reaction: ...
    def mend(self) -> tuple[str, ...]:
        """Make missing and altered guards anew; their names."""
        ...
