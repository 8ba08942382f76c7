"""What a ref holds and how it changes: entries, changes, commits.

A ref is a mapping from keys to entries. A key is the name of a table or view, or one property of a namespace; an
entry is the pointer to a metadata file, or the property's value. Everything that mere does to refs — publish,
revert, time travel, diff — is arithmetic on these mappings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from mere.names import TableName, spelled_namespace
from mere.text import notebook
from mere.text.words import moment, size


class Space(StrEnum):
    RELATION = "relation"
    PROPERTY = "property"


class Kind(StrEnum):
    TABLE = "table"
    VIEW = "view"
    PROPERTY = "property"


class Key(NamedTuple):
    """Tables and views share one space of names, as they do in every engine; namespace properties have their own."""

    space: Space
    namespace: str
    name: str

    @classmethod
    def of(cls, table: TableName) -> Key:
        return cls(Space.RELATION, table.namespace, table.name)

    @property
    def table(self) -> TableName:
        return TableName(self.namespace, self.name)

    def __str__(self) -> str:
        if self.space is Space.PROPERTY:
            return f"namespace {spelled_namespace(self.namespace)}" + (
                "" if self.name == "exists" else f" ({self.name})"
            )
        return str(self.table)


class Entry(NamedTuple):
    kind: Kind
    value: str  # the location of the metadata file, or the property's value


Entries = Mapping[Key, Entry]


class Stats(NamedTuple):
    """Rows and data files added and removed, as the snapshots' own summaries count them."""

    rows_added: int = 0
    rows_removed: int = 0
    files_added: int = 0
    files_removed: int = 0


class Change(NamedTuple):
    key: Key
    old: Entry | None
    new: Entry | None
    stats: Stats | None = None

    @property
    def verb(self) -> str:
        if self.old is None:
            return "created"
        return "dropped" if self.new is None else "changed"

    @property
    def kind(self) -> Kind:
        entry = self.new or self.old
        return entry.kind if entry else Kind.TABLE

    def inverse(self) -> Change:
        return Change(self.key, self.new, self.old)

    def to_dict(self) -> dict[str, Any]:
        return {
            "space": self.key.space,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "kind": self.kind,
            "verb": self.verb,
            "old": self.old.value if self.old else None,
            "new": self.new.value if self.new else None,
            **(self.stats._asdict() if self.stats else {}),
        }


class CommitKind(StrEnum):
    ROOT = "root"
    WRITE = "write"  # an engine moved a pointer; journalled by the database in the engine's own transaction
    PUBLISH = "publish"
    REVERT = "revert"
    DROP = "drop"
    ALTER = "alter"  # properties of tables
    REBASE = "rebase"
    ADOPT = "adopt"


@dataclass(frozen=True)
class Commit:
    seq: int
    id: str
    line: int
    parent: int | None
    kind: CommitKind
    at: datetime
    author: str | None = None
    message: str | None = None
    run: str | None = None
    source: str | None = None
    expired: bool = False
    changes: tuple[Change, ...] = field(default=(), compare=False)

    @property
    def short_id(self) -> str:
        return self.id[:10]

    @property
    def by(self) -> str:
        return self.author or "an engine"

    def to_dict(self) -> dict[str, Any]:
        """What `mere log --json` prints."""
        return {
            "id": self.id,
            "kind": self.kind,
            "at": self.at.isoformat(timespec="milliseconds"),
            "author": self.author,
            "message": self.message,
            "run": self.run,
            "source": self.source,
            "expired": self.expired,
            "changes": [change.to_dict() for change in self.changes],
        }

    def __repr__(self) -> str:
        return f"<Commit {self.short_id} of {moment(self.at)} by {self.by}: {self.message or self.kind}>"

    def _repr_html_(self) -> str:
        title = f"commit {self.short_id} of {moment(self.at)} by {self.by}: {self.message or self.kind}"
        return notebook.shown(title, notebook.lines(change_lines(self.changes)))


def fold(changes: Iterable[Change]) -> dict[Key, Change]:
    """Many changes, in order, as one change per key; what came back to where it was is no change."""
    folded: dict[Key, Change] = {}
    for change in changes:
        before = folded.get(change.key)
        folded[change.key] = Change(change.key, before.old if before else change.old, change.new)
    return {key: change for key, change in sorted(folded.items()) if change.old != change.new}


def difference(before: Entries, after: Entries) -> dict[Key, Change]:
    """The changes that lead from one set of entries to another."""
    keys = sorted(before.keys() | after.keys())
    return {key: Change(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def growth(stats: object) -> str:
    """`+5 -1 rows, +1 file`, of whatever counts rows, files and perhaps bytes; nothing of None."""
    parts = []
    for noun, unit in (("rows", "rows"), ("files", "files"), ("bytes", "")):
        counts = (("+", getattr(stats, f"{noun}_added", 0)), ("-", getattr(stats, f"{noun}_removed", 0)))
        there = [(sign, n) for sign, n in counts if n]
        text = " ".join(f"{sign}{f'{n:,}' if unit else size(n)}" for sign, n in there)
        if text:
            one = [n for _, n in there] == [1]
            parts.append(f"{text} {unit[:-1] if one else unit}".strip())
    return ", ".join(parts)


def change_line(change: Change) -> str:
    """`changed gold.orders  +5 -1 rows, +1 file`"""
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
    there = {each.new: each for each in changes if each.old is None and each.key.space is Space.RELATION}
    gone = {each.old: each for each in changes if each.new is None and each.key.space is Space.RELATION}
    renamed = {gone[entry]: there[entry] for entry in gone if entry in there}
    for each in changes:
        if each in renamed:
            yield f"renamed {'view ' if each.kind is Kind.VIEW else ''}{each.key} to {renamed[each].key}"
        elif each in renamed.values():
            continue
        elif each.key.space is not Space.PROPERTY or each.key.name == "exists" or each.key.namespace not in made:
            yield change_line(each)
