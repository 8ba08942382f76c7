"""What changed, in lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mere.lake.log.commits import Change, Kind, Space
from mere.words import size


def growth(stats: object) -> str:
    """`+5 -1 rows, +1 files`, of whatever counts rows, files and perhaps bytes; nothing of None."""
    parts = []
    for noun, unit in (("rows", "rows"), ("files", "files"), ("bytes", "")):
        counts = (("+", getattr(stats, f"{noun}_added", 0)), ("-", getattr(stats, f"{noun}_removed", 0)))
        text = " ".join(f"{sign}{f'{n:,}' if unit else size(n)}" for sign, n in counts if n)
        if text:
            parts.append(f"{text} {unit}".strip())
    return ", ".join(parts)


def change_line(change: Change) -> str:
    """`changed gold.orders  +5 -1 rows, +1 files`"""
    is_view = change.kind is Kind.VIEW
    grown = "" if is_view or change.key.space is Space.PROPERTY else growth(change.stats)
    return f"{change.verb} {'view ' if is_view else ''}{change.key}" + (f"  {grown}" if grown else "")


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    """A line for each. What a namespace was made with, such as its owner, is no news beside that it was made."""
    changes = list(changes)
    made = {
        each.key.namespace
        for each in changes
        if each.key.space is Space.PROPERTY and each.key.name == "exists" and each.old is None
    }
    for each in changes:
        if each.key.space is not Space.PROPERTY or each.key.name == "exists" or each.key.namespace not in made:
            yield change_line(each)
