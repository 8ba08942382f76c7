"""The port of the lake: what a database (or a catalog service) must be able to do to carry refs.

An adapter keeps refs, commits and leases. It moves pointers only by compare-and-swap inside one transaction
(`commit`), and it makes a commit of every pointer that an engine moves by itself. All else is built on top of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Protocol

from mere.lake.log.commits import Change, Commit, CommitKind, Entries, Entry, Key
from mere.lake.log.fence import Fence
from mere.lake.log.refs import Ref, RefKind
from mere.lake.log.runs import Run
from mere.names import TableName

RECEIPTS_LAST = timedelta(minutes=30)


class After(Enum):
    """What becomes of the branch that a commit was made from."""

    STAY = "stay"
    FOLLOW = "follow"  # it starts again from the new commit
    DELETE = "delete"


@dataclass(frozen=True)
class Receipt:
    """What was answered to a request that is done once only, however often it is sent: the same answer is given again.

    A request is known by who sent it, what it asks for, and the key that the client gave it.
    """

    user: str
    operation: str
    key: str
    status: int
    pointer: str | None = None  # the metadata file that the answer told of
    content: str = ""  # the whole answer, where it is none of those
    request: str = ""  # a digest of what was sent, to tell another request under the same key


@dataclass(frozen=True)
class Edit:
    """One atomic commit to a branch: every change's old entry must still stand, or nothing happens."""

    target: str
    kind: CommitKind
    changes: tuple[Change, ...]
    author: str
    message: str
    run: str | None = None
    source: Ref | None = None  # must still be at this head
    after: After = After.STAY
    meets: int | None = None  # if the target is still at this commit, it and the source hold the same after the edit
    reads: Mapping[Key, Entry | None] | None = None  # must also still stand, though they are not changed
    fence: Fence | None = None
    receipt: Receipt | None = None  # kept with the commit, or neither is; Repeated, if there is one already
    id: str = field(default_factory=lambda: secrets.token_hex(8))  # known beforehand, to ask whether it happened


class Moved(Exception):
    """An edit's preconditions no longer hold. Never leaves the lake: it becomes a conflict or a new attempt."""

    def __init__(self, keys: Collection[Key] = ()) -> None:
        super().__init__(", ".join(map(str, keys)))
        self.keys = tuple(keys)


class Repeated(Exception):
    """There is a receipt for this request already: it was done, and nothing is done again. Never leaves the server."""


@dataclass(frozen=True)
class Lease:
    target: str
    table: TableName
    holder: str
    expires_at: datetime
    acquired_at: datetime


@dataclass(frozen=True)
class Head:
    """A ref as it stands: its head commit and all its entries, read at one instant."""

    ref: Ref
    commit: Commit
    entries: Entries


@dataclass(frozen=True)
class Divergence:
    """How two commits came apart: their common base, and each side's changes since, oldest first."""

    base: Commit
    source: tuple[Commit, ...]
    target: tuple[Commit, ...]


class Store(Protocol):
    """Implemented by `sqlite.SqliteStore` and `postgres.PostgresStore`. One contract suite runs against each."""

    root: str
    lake_id: str
    shares_clock: bool  # its clock is not that of this machine
    wrote: bool  # whether refs were moved or made through it

    @property
    def jdbc(self) -> Mapping[str, str]: ...
    @property
    def sqlalchemy_url(self) -> str: ...
    @property
    def place(self) -> str:
        """Where the catalog is, in words and without a password; nobody is asked."""
        ...

    def close(self) -> None: ...
    def database(self) -> str | None:
        """The database that the catalog is in, without a password; None: a file of the lake's folder."""

    def destroy(self) -> list[Lease]:
        """Remove the catalog, unless somebody holds a lease: then that is returned, and nothing was done."""
        ...

    # refs
    def refs(self) -> list[Ref]: ...
    def ref(self, name: str) -> Ref | None: ...
    def create_ref(self, name: str, kind: RefKind, at: Commit, author: str, parent: str | None) -> Ref: ...
    def delete_ref(self, name: str, expected: Ref | None = None, fence: Fence | None = None) -> None: ...
    def touch(self, name: str) -> None: ...

    # commits
    def commit_by_seq(self, seq: int) -> Commit: ...
    def commits_by_prefix(self, prefix: str) -> list[Commit]: ...
    def ancestors(self, commit: Commit) -> Iterator[Commit]: ...
    def ancestor_at(self, commit: Commit, instant: datetime) -> Commit | None: ...
    def with_changes(self, commits: Iterable[Commit]) -> list[Commit]: ...
    def divergence(self, source: Ref, target: Ref) -> Divergence: ...
    def commit(self, edit: Edit) -> Commit: ...
    def rebase(self, branch: Ref, onto: Ref, edit: Edit) -> Commit | None:
        """Start a branch again from another's head and commit there, if both still stand where they are said to."""
        ...

    # entries
    def heads(self, names: Collection[str]) -> dict[str, Head]: ...
    def entries(self, commit: Commit) -> Entries: ...
    def standing(self, name: str, keys: Collection[Key]) -> dict[Key, Entry]:
        """What stands on a ref under some keys, without a look at the others. Of a ref that is not there: nothing."""
        ...

    # leases
    def acquire(self, target: str, tables: Collection[TableName], holder: str, ttl: timedelta) -> list[Lease]: ...
    def renew(self, holder: str, ttl: timedelta) -> bool: ...
    def release(self, target: str, tables: Collection[TableName], holder: str) -> None: ...
    def leases(self) -> list[Lease]: ...

    # receipts, kept for RECEIPTS_LAST
    def receipt(self, user: str, operation: str, key: str) -> Receipt | None: ...
    def keep_receipt(self, receipt: Receipt) -> None:
        """Of a request that changed nothing. Repeated, if there is one already."""
        ...

    # time
    def now(self) -> datetime: ...
    def clocks(self) -> tuple[datetime, str, Commit]: ...

    # runs
    def save_run(self, run: Run) -> bool:
        """False if the run was handed over: it goes on, or ended, on another branch."""
        ...

    def beat_run(self, id_: str, branch: str) -> bool: ...
    def hand_over(self, branch: str, run: Run) -> list[Lease]:
        """Move a run from a branch to that of the record given, save it, and end its leases, in one transaction.

        What the run had before writes, beats and publishes no more: its branch is gone. Moved, if it was gone already.
        """
        ...

    def run(self, id_: str) -> Run | None: ...
    def runs(self, limit: int, after: Run | None = None) -> list[Run]:
        """The last ones, newest first; of those before one, if it is given."""
        ...

    def delete_runs(self, before: datetime) -> int: ...

    # files: what the sweep and the move of a lake need
    def pointers(self, *, without: Collection[str] = (), expired: Collection[int] = ()) -> set[str]: ...
    def all_commits(self) -> list[Commit]: ...
    def expire(self, seqs: Collection[int]) -> None: ...
    def doomed(self) -> dict[str, datetime]: ...
    def set_doomed(self, doomed: Mapping[str, datetime]) -> None: ...
    def repoint(self, moved: Mapping[str, str], root: str, lake_id: str) -> None: ...
