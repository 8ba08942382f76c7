"""The part of the SQL adapters that is the same in every database.

An adapter gives a connection, transactions and triggers; what happens inside a transaction is in `rows`.
"""

from __future__ import annotations

import functools
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Concatenate, ParamSpec, TypeVar

from mere.errors import LakeError, RefExists
from mere.lake import faults
from mere.lake.log.commits import Commit, Entries, Entry, Key
from mere.lake.log.fence import Fence
from mere.lake.log.refs import Ref, RefKind
from mere.lake.log.runs import Run, holds
from mere.lake.store import leases, pointers, receipts, rows, runs
from mere.lake.store.port import After, Divergence, Edit, Head, Lease, Moved, Receipt
from mere.lake.store.rows import CHAIN, COMMIT, IN_CHAIN, REF, Given, Tx, stamp, to_commit
from mere.lake.store.wholeness import damaged
from mere.names import TableName

_PAGE = 200

P = ParamSpec("P")
S = TypeVar("S", bound="SqlStore")
T = TypeVar("T")


def repeatable(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """What can be done twice: an adapter whose connections get lost does it again."""

    @functools.wraps(method)
    def done(self: S, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._again(lambda: method(self, *arguments, **options))

    return done


class SqlStore(ABC):
    """Refs, commits and leases in a SQL database that also holds the Iceberg SQL catalog."""

    root: str
    lake_id: str
    clock: str  # what time it is, in the database's own SQL: the one clock that a lake goes by
    shares_clock: bool  # with other machines: it may differ from this machine's
    wrote = False

    @abstractmethod
    def _read(self) -> AbstractContextManager[Tx]:
        """A transaction that sees one state of the database."""

    @abstractmethod
    def _statement(self) -> AbstractContextManager[Tx]:
        """For one statement to read with: it sees one state by itself, and needs no transaction around it."""

    @abstractmethod
    def _write(self, *, frozen: bool = False) -> AbstractContextManager[Tx]:
        """A transaction that may move pointers: the guards let it through. `frozen`: it sees one state throughout."""

    @abstractmethod
    def _lock(self, tx: Tx, refs: Collection[str], keys: Collection[Key] = (), target: str = "") -> None:
        """Keep all others from these refs, and first from these keys of the target, until the transaction ends.

        A database that lets only one write at a time has nothing to do here.
        """

    @abstractmethod
    def _lock_all(self, tx: Tx, table: str) -> None:
        """Keep all others from writing to a table of mere's own."""

    @abstractmethod
    def _settle(self) -> None:
        """Called after a commit has become durable."""

    def _again(self, act: Callable[[], T]) -> T:
        """Do it, and do it again where that may help."""
        return act()

    # refs

    @repeatable
    def refs(self) -> list[Ref]:
        with self._statement() as tx:
            return [rows.to_ref(row) for row in tx.rows(f"SELECT {REF} FROM mere_refs r ORDER BY r.name")]

    @repeatable
    def ref(self, name: str) -> Ref | None:
        with self._statement() as tx:
            return rows.find_ref(tx, name)

    def create_ref(self, name: str, kind: RefKind, at: Commit, author: str, parent: str | None) -> Ref:
        with self._write(frozen=True) as tx:
            ref = Ref(name, kind, at.seq, parent, rows.now(tx), author)
            if rows.find_ref(tx, name) is not None:
                raise RefExists(f"There is already a ref named {name!r}.")
            if rows.commit_at(tx, at.seq).expired:
                raise LakeError(f"Commit {at.short_id} is in the log, but its files were swept by mere gc.")
            rows.insert_ref(tx, ref)
            rows.fill(tx, name, at.seq)
            faults.point("fork.filled")
        self.wrote = True
        self._settle()
        return ref

    def delete_ref(self, name: str, expected: Ref | None = None, fence: Fence | None = None) -> None:
        """Delete it, if it still is what it is expected to be."""
        with self._write() as tx:
            self._lock(tx, [name])
            if expected and rows.find_ref(tx, name) != expected:
                raise Moved
            if fence:
                leases.hold(tx, name, fence)
            rows.delete_ref(tx, name)

    @repeatable
    def touch(self, name: str) -> None:
        """Make a ref as young as a new one: an alias lives as long as it is used."""
        with self._write() as tx:
            tx.run(f"UPDATE mere_refs SET created_at = {self.clock} WHERE name = ?", (name,))

    # commits

    @repeatable
    def commit_by_seq(self, seq: int) -> Commit:
        with self._statement() as tx:
            return rows.commit_at(tx, seq)

    @repeatable
    def commits_by_prefix(self, prefix: str) -> list[Commit]:
        query = f"SELECT {COMMIT} FROM mere_commits c WHERE c.id >= ? AND c.id < ? ORDER BY c.seq LIMIT 20"
        with self._statement() as tx:
            return [to_commit(row) for row in tx.rows(query, (prefix, prefix + "g"))]

    @repeatable
    def all_commits(self) -> list[Commit]:
        with self._statement() as tx:
            return [to_commit(row) for row in tx.rows(f"SELECT {COMMIT} FROM mere_commits c ORDER BY c.seq")]

    def ancestors(self, commit: Commit) -> Iterator[Commit]:
        below = commit.seq + 1
        while page := self.page(commit, below):
            yield from page
            below = page[-1].seq

    @repeatable
    def page(self, commit: Commit, below: int) -> list[Commit]:
        """Some of the commits that lead to this one, newest first, from below a number on."""
        query = (
            f"{CHAIN} SELECT {COMMIT} FROM mere_commits c {IN_CHAIN} AND c.seq < ? ORDER BY c.seq DESC LIMIT {_PAGE}"
        )
        with self._statement() as tx:
            return [to_commit(row) for row in tx.rows(query, (commit.seq, below))]

    @repeatable
    def ancestor_at(self, commit: Commit, instant: datetime) -> Commit | None:
        query = f"{CHAIN} SELECT {COMMIT} FROM mere_commits c {IN_CHAIN} AND c.at <= ? ORDER BY c.seq DESC LIMIT 1"
        with self._statement() as tx:
            found = tx.rows(query, (commit.seq, stamp(instant)))
        return to_commit(found[0]) if found else None

    @repeatable
    def with_changes(self, commits: Iterable[Commit]) -> list[Commit]:
        seqs = [commit.seq for commit in commits]
        with self._read() as tx:
            return rows.commits_at(tx, seqs)

    @repeatable
    def divergence(self, source: Ref, target: Ref) -> Divergence:
        with self._read() as tx:
            return rows.divergence(tx, source.head, target.head)

    def commit(self, edit: Edit) -> Commit:
        with self._write() as tx:
            faults.point("commit.begun")
            if edit.receipt:
                receipts.keep(tx, edit.receipt)
            keys = {change.key for change in edit.changes} | (edit.reads or {}).keys()
            self._lock(tx, [edit.source.name] if edit.source else [], keys, edit.target)
            target = rows.writable_ref(tx, edit.target)
            if edit.source and rows.find_ref(tx, edit.source.name) != edit.source:
                raise Moved
            if edit.source and edit.fence:
                leases.hold(tx, edit.source.name, edit.fence)
            changes = rows.standing_changes(tx, edit)
            faults.point("commit.checked")
            rows.move_pointers(tx, edit.target, changes)
            faults.point("commit.moved")
            commit = rows.record(tx, edit, target, changes)
            faults.point("commit.recorded")
            if edit.source and edit.after is After.DELETE:
                rows.delete_ref(tx, edit.source.name)
            elif edit.source and edit.after is After.FOLLOW:
                if target.head != edit.meets:
                    rows.catch_up(tx, edit.source, edit.target, commit.seq)
                rows.start_again(tx, edit.source, commit.seq)
            faults.point("commit.followed")
        faults.point("commit.durable")
        self.wrote = True
        self._settle()
        return commit

    def rebase(self, branch: Ref, onto: Ref, edit: Edit) -> Commit | None:
        """A branch that keeps nothing of its own only follows, without a commit."""
        with self._write() as tx:
            faults.point("rebase.begun")
            self._lock(tx, [branch.name], target=onto.name)
            if rows.find_ref(tx, branch.name) != branch or rows.find_ref(tx, onto.name) != onto:
                raise Moved
            rows.catch_up(tx, branch, onto.name, onto.head)
            rows.start_again(tx, branch, onto.head)
            faults.point("rebase.followed")
            commit = None
            if edit.changes:
                rows.move_pointers(tx, branch.name, edit.changes)
                commit = rows.record(tx, edit, replace(branch, head=onto.head), edit.changes)
            faults.point("rebase.recorded")
        faults.point("rebase.durable")
        self.wrote = True
        self._settle()
        return commit

    # entries

    @repeatable
    def heads(self, names: Collection[str]) -> dict[str, Head]:
        with self._read() as tx:
            return {name: rows.head(tx, name) for name in names}

    @repeatable
    def entries(self, commit: Commit) -> Entries:
        with self._statement() as tx:
            return rows.entries_at(tx, commit.seq)

    @repeatable
    def standing(self, name: str, keys: Collection[Key]) -> dict[Key, Entry]:
        with self._statement() if len({key.space for key in keys}) < 2 else self._read() as tx:
            found = rows.astray(tx, name, dict.fromkeys(keys))
        return {key: entry for key, entry in found.items() if entry is not None}

    # leases

    @repeatable
    def acquire(self, target: str, tables: Collection[TableName], holder: str, ttl: timedelta) -> list[Lease]:
        """Take all of the leases or none; what others hold of them is returned."""
        with self._write() as tx:
            self._lock_all(tx, "mere_leases")
            now = rows.now(tx)
            tx.run("DELETE FROM mere_leases WHERE expires_at <= ?", (stamp(now),))
            wanted = set(tables)
            held = [
                lease
                for lease in leases.known(tx)
                if lease.target == target and lease.table in wanted and lease.holder != holder
            ]
            if not held:
                leased = leases.holding(target, wanted, holder, now, now + ttl)
                tx.run_for(leases.RELEASE, leased)
                tx.run_for(leases.TAKE, leased)
        return held

    @repeatable
    def renew(self, holder: str, ttl: timedelta) -> bool:
        """False: the lease had expired, and somebody may have taken it."""
        with self._write() as tx:
            now = rows.now(tx)
            renewed = tx.run(
                "UPDATE mere_leases SET expires_at = ? WHERE holder = ? AND expires_at > ?",
                (stamp(now + ttl), holder, stamp(now)),
            )
        return renewed > 0

    @repeatable
    def release(self, target: str, tables: Collection[TableName], holder: str) -> None:
        with self._write() as tx:
            tx.run_for(leases.RELEASE, leases.holding(target, tables, holder))

    @repeatable
    def leases(self) -> list[Lease]:
        with self._statement() as tx:
            return leases.held(tx)

    # receipts

    @repeatable
    def receipt(self, user: str, operation: str, key: str) -> Receipt | None:
        with self._statement() as tx:
            return receipts.find(tx, user, operation, key)

    def keep_receipt(self, receipt: Receipt) -> None:
        with self._write() as tx:
            receipts.keep(tx, receipt)

    # runs

    @repeatable
    def now(self) -> datetime:
        """By the database's clock: those of the machines that share a lake may differ."""
        with self._statement() as tx:
            return rows.now(tx)

    @repeatable
    def clocks(self) -> tuple[datetime, str, Commit]:
        """What time it is, and of all branches the one whose last commit has the latest time, with that commit."""
        query = (
            f"SELECT {self.clock}, r.name, {COMMIT} FROM mere_refs r JOIN mere_commits c ON c.seq = r.head"
            " WHERE r.kind IN ('branch', 'run') ORDER BY c.at DESC, c.seq DESC LIMIT 1"
        )
        with self._statement() as tx:
            found = tx.rows(query)
        if not found:
            raise damaged(self.root, "its table mere_refs has lost rows")
        ((now, branch, *newest),) = found
        return rows.time(now), branch, to_commit(tuple(newest))

    @repeatable
    def save_run(self, run: Run) -> bool:
        """As it is now, in the place of what was known of it."""
        with self._write() as tx:
            return tx.run(runs.SAVE, runs.to_row(run)) > 0

    @repeatable
    def beat_run(self, id_: str, branch: str) -> bool:
        """False if the run was handed over."""
        later = f"CASE WHEN beat_at < {self.clock} THEN {self.clock} ELSE beat_at END"
        with self._write() as tx:
            return tx.run(f"UPDATE mere_runs SET beat_at = {later} WHERE id = ? AND branch = ?", (id_, branch)) > 0

    def hand_over(self, branch: str, run: Run) -> list[Lease]:
        with self._write() as tx:
            if not tx.run(runs.HAND_OVER, (*runs.to_row(run)[1:], run.id, branch)):
                raise Moved
            faults.point("hand_over.saved")
            if run.branch != branch:
                self._lock(tx, [branch])
                if rows.find_ref(tx, branch) is None:
                    raise Moved
                rows.move_ref(tx, branch, run.branch)
            faults.point("hand_over.moved")
            held = [lease for lease in leases.known(tx) if holds(lease.holder, run.id)]
            for holder in {lease.holder for lease in held}:
                tx.run("DELETE FROM mere_leases WHERE holder = ?", (holder,))
        faults.point("hand_over.durable")
        self._settle()
        return held

    @repeatable
    def run(self, id_: str) -> Run | None:
        with self._statement() as tx:
            found = tx.rows(f"SELECT {runs.RUN} FROM mere_runs WHERE id = ?", (id_,))
        return runs.to_run(found[0]) if found else None

    @repeatable
    def runs(self, limit: int, after: Run | None = None) -> list[Run]:
        older, given = ("WHERE (started_at, id) < (?, ?)", (stamp(after.started_at), after.id)) if after else ("", ())
        query = f"SELECT {runs.RUN} FROM mere_runs {older} ORDER BY started_at DESC, id DESC LIMIT ?"
        with self._statement() as tx:
            return [runs.to_run(row) for row in tx.rows(query, (*given, limit))]

    @repeatable
    def delete_runs(self, before: datetime) -> int:
        """Those of which nothing has been heard since then; how many."""
        with self._write() as tx:
            return tx.run("DELETE FROM mere_runs WHERE beat_at < ?", (stamp(before),))

    # files

    @repeatable
    def pointers(self, *, without: Collection[str] = (), expired: Collection[int] = ()) -> set[str]:
        """Every metadata file that a ref needs, or a commit that was not expired.

        `without`, `expired`: as if these refs had been deleted and these commits expired already.
        """
        with self._read() as tx:
            return pointers.needed(tx, frozenset(without), frozenset(expired))

    @repeatable
    def expire(self, seqs: Collection[int]) -> None:
        """A commit at which a ref stands is passed over: the ref may have been made since the caller looked."""
        with self._write() as tx:
            tx.run_for(
                "UPDATE mere_commits SET expired = 1 WHERE seq IN (SELECT CAST(seq AS BIGINT) FROM {given})"
                " AND seq NOT IN (SELECT head FROM mere_refs)",
                Given(("seq",), [(seq,) for seq in seqs]),
            )

    @repeatable
    def doomed(self) -> dict[str, datetime]:
        with self._statement() as tx:
            return {name: rows.time(since) for name, since in tx.rows("SELECT location, since FROM mere_doomed")}

    @repeatable
    def set_doomed(self, doomed: Mapping[str, datetime]) -> None:
        with self._write() as tx:
            self._lock_all(tx, "mere_doomed")
            tx.run("DELETE FROM mere_doomed")
            tx.run_for(
                "INSERT INTO mere_doomed (location, since) SELECT location, since FROM {given}",
                Given(("location", "since"), [(location, stamp(since)) for location, since in doomed.items()]),
            )

    @repeatable
    def repoint(self, moved: Mapping[str, str], root: str, lake_id: str) -> None:
        """All that names a location in `moved`, pointer or property, names its new one, in one transaction."""
        with self._write() as tx:
            pointers.move(tx, moved)
            faults.point("repoint.moved")
            tx.run("DELETE FROM mere_doomed")
            tx.run("DELETE FROM mere_receipts")  # they point to the old place
            for key, value in (("root", root), ("lake_id", lake_id)):
                tx.run("UPDATE mere_meta SET value = ? WHERE key = ?", (value, key))
        faults.point("repoint.durable")
        self._settle()
        self.root, self.lake_id = root, lake_id


def begin(tx: Tx, root: str, author: str) -> None:
    """The first commit, and main."""
    ((now,),) = tx.rows(f"SELECT {tx.clock}")
    for pair in (("root", root), ("lake_id", secrets.token_hex(16)), ("created_at", now)):
        tx.run("INSERT INTO mere_meta (key, value) VALUES (?, ?)", pair)
    line = rows.new_line(tx, None)
    seq = tx.insert(
        "INSERT INTO mere_commits (id, line, kind, at, author, message) VALUES (?, ?, 'root', ?, ?, ?)",
        (secrets.token_hex(8), line, now, author, "the lake begins"),
        "seq",
    )
    tx.run(
        "INSERT INTO mere_refs (name, kind, line, head, created_at, created_by) VALUES ('main', 'branch', ?, ?, ?, ?)",
        (line, seq, now, author),
    )
