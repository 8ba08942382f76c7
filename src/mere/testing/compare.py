"""Compares expected rows with actual ones as multisets, and says in words what differs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

Values = tuple[Any, ...]

# Of rows that are shown; and of rows that are looked at for pairs, each with each.
_SHOWN, _PAIRED = 10, 200


@dataclass(frozen=True)
class Pair:
    """A row that was expected and one that came, which are one row by their looks."""

    expected: Values
    found: Values

    def differing(self) -> list[int]:
        pairs = enumerate(zip(self.expected, self.found, strict=True))
        return [index for index, (one, other) in pairs if not is_same(one, other)]


@dataclass(frozen=True)
class Difference:
    columns: tuple[str, ...]
    expected: int  # rows
    near: tuple[Pair, ...] = ()
    missing: tuple[Values, ...] = ()
    unexpected: tuple[Values, ...] = ()

    def lines(self) -> list[str]:
        good = self.expected - len(self.near) - len(self.missing)
        counts = [f"{good} of {self.expected} rows as expected"]
        for rows, word in ((self.near, "differ"), (self.missing, "missing"), (self.unexpected, "unexpected")):
            counts += [f"{len(rows)} {word}"] if rows else []
        lines = [", ".join(counts)]
        for pair in self.near[:_SHOWN]:
            lines += self._pair(pair)
        for rows, word in ((self.missing, "missing"), (self.unexpected, "unexpected")):
            lines += [f"{word}: {self._row(row)}" for row in rows[:_SHOWN]]
        hidden = sum(max(len(rows) - _SHOWN, 0) for rows in (self.near, self.missing, self.unexpected))
        return [*lines, f"… and {hidden} more"] if hidden else lines

    def _pair(self, pair: Pair) -> list[str]:
        differing = pair.differing()
        same = [index for index in range(len(self.columns)) if index not in differing]
        width = max(len(self.columns[index]) for index in differing)
        told = [(self.columns[index], shown(pair.expected[index]), shown(pair.found[index])) for index in differing]
        wide = max(len(expected) for _, expected, _ in told)
        lines = [f"differs: {self._row(pair.expected, same)}" if same else "differs:"]
        return lines + [f"  {name:{width}}  expected {one:{wide}}  found {other}" for name, one, other in told]

    def _row(self, row: Values, indexes: Sequence[int] | None = None) -> str:
        chosen = range(len(row)) if indexes is None else indexes
        return ", ".join(f"{self.columns[index]} = {shown(row[index])}" for index in chosen)

    def to_dict(self) -> dict[str, Any]:
        def named(row: Values) -> dict[str, Any]:
            return {name: _plain(value) for name, value in zip(self.columns, row, strict=True)}

        return {
            "differing": [{"expected": named(pair.expected), "found": named(pair.found)} for pair in self.near],
            "missing": [named(row) for row in self.missing],
            "unexpected": [named(row) for row in self.unexpected],
        }


def compare(
    columns: Sequence[str], expected: Sequence[Values], found: Sequence[Values], key: Sequence[str] = ()
) -> Difference | None:
    """None if they are the same rows, each as often, in any order. `key`: columns by which rows belong together."""
    came = Counter(map(_hashable, found))
    missing: list[Values] = []
    for row in expected:
        if came[like := _hashable(row)]:
            came[like] -= 1
        else:
            missing.append(row)
    unexpected = []
    for row in found:
        if came[like := _hashable(row)]:
            came[like] -= 1
            unexpected.append(row)
    missing, unexpected = _without_close(missing, unexpected)
    if not missing and not unexpected:
        return None
    by = [index for index, name in enumerate(columns) if name.casefold() in {each.casefold() for each in key}]
    near = _near(missing, unexpected, by if len(by) == len(key) else [])
    for pair in near:
        missing.remove(pair.expected)
        unexpected.remove(pair.found)
    return Difference(tuple(columns), len(expected), tuple(near), tuple(missing), tuple(unexpected))


def is_same(one: Any, other: Any) -> bool:
    """NULL is NULL, NaN is NaN; floating-point numbers may differ in their last digits."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(_hashable(one) == _hashable(other))


def _without_close(missing: list[Values], unexpected: list[Values]) -> tuple[list[Values], list[Values]]:
    """Leave out what differs in nothing but the last digits of floating-point numbers."""
    if not any(isinstance(value, float | list | dict) for row in missing for value in row):
        return missing, unexpected
    left = list(unexpected)
    without = []
    for row in missing:
        index = next((index for index, other in enumerate(left) if is_same(row, other)), None)
        if index is None:
            without.append(row)
        else:
            del left[index]
    return without, left


def _near(missing: Sequence[Values], unexpected: Sequence[Values], key: Sequence[int]) -> list[Pair]:
    """Rows of one key; else those that agree in at least half of their columns, the most alike first."""
    scored = []
    for left, one in enumerate(missing[:_PAIRED]):
        for right, other in enumerate(unexpected[:_PAIRED]):
            same = len(one) - len(Pair(one, other).differing())
            if all(is_same(one[index], other[index]) for index in key) if key else same * 2 >= len(one):
                scored.append((-same, left, right))
    pairs, lefts, rights = [], set(), set()
    for _, left, right in sorted(scored):
        if left not in lefts and right not in rights:
            lefts.add(left)
            rights.add(right)
            pairs.append((left, Pair(missing[left], unexpected[right])))
    return [pair for _, pair in sorted(pairs, key=lambda each: each[0])]


def _hashable(value: Any) -> Any:
    match value:
        case float() if math.isnan(value):
            return "NaN", None
        case datetime() if value.tzinfo:
            return value.astimezone(UTC).replace(tzinfo=None)
        case list():
            # A map is a list of pairs, in no order.
            parts = map(_hashable, value)
            return frozenset(parts) if value and all(isinstance(each, tuple) for each in value) else tuple(parts)
        case tuple():
            return tuple(map(_hashable, value))
        case dict():
            return tuple((name, _hashable(each)) for name, each in value.items())
    return value


def shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if value.strip() == value and value else repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, tuple):
        return ": ".join(map(shown, value))
    if isinstance(value, datetime) and value.tzinfo:
        return f"{value.astimezone(UTC).replace(tzinfo=None)}Z"
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal | datetime | bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return shown(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | str | None) else str(value)
