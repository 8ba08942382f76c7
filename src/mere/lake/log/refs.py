"""Refs: names for commits. A branch moves with every commit; a tag and an alias stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mere.errors import UsageError
from mere.lake.log.commits import Commit
from mere.names import EXPRESSION_RULE
from mere.text.notebook import Column, Listing
from mere.text.words import moment


class RefKind(StrEnum):
    BRANCH = "branch"
    TAG = "tag"
    RUN = "run"  # the branch of one run: deleted when it is published
    ALIAS = "alias"  # a commit made visible to engines as a catalog; read-only, swept when old

    @property
    def writable(self) -> bool:
        return self in (RefKind.BRANCH, RefKind.RUN)


@dataclass(frozen=True)
class Ref:
    name: str
    kind: RefKind
    head: int  # seq of the commit it points to
    parent: str | None  # the ref it was forked from, and publishes into by default
    created_at: datetime
    created_by: str | None = None

    def to_dict(self, head: Commit) -> dict[str, Any]:
        """What `mere branch --json` prints. `head`: the commit it points to."""
        return {
            "name": self.name,
            "kind": self.kind,
            "commit": head.id,
            "at": head.at.isoformat(timespec="milliseconds"),
            "parent": self.parent,
            "created_at": self.created_at.isoformat(timespec="milliseconds"),
            "created_by": self.created_by,
        }


RefLike = str | Ref | Commit  # what names a ref or a commit: as people write it, or as an object


def spelled(ref: RefLike) -> str:
    """A ref as people write it: a Ref by its name, a Commit by its id."""
    match ref:
        case str():
            return ref
        case Ref():
            return ref.name
        case Commit():
            return ref.id
    raise UsageError(  # by a caller without types
        f"{ref!r} is a {type(ref).__name__}, not a ref.", remedy=f"Give a str, a Ref or a Commit. {EXPRESSION_RULE}"
    )


_COLUMNS = (Column("name"), Column("kind"), Column("from"), Column("created"), Column("by"))


def listing(refs: Iterable[Ref]) -> Listing[Ref]:
    """Refs as one table in a notebook."""
    return Listing(refs, "refs", _COLUMNS, _cells)


def _cells(ref: Ref) -> tuple[object, ...]:
    return ref.name, ref.kind, ref.parent, moment(ref.created_at), ref.created_by
