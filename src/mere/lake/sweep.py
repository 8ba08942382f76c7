"""The sweep (`mere gc`): the only place where files of the lake are deleted.

A file dies when nothing reaches it: no branch, tag or alias, no commit that is kept, no run that is going on. It dies
in two phases: one sweep dooms it, and a later one deletes it if it has been doomed for the grace time and nothing has
come to reach it meanwhile. So do commits: until they are given up, they can be brought back by their ids. All that
could fail by what is on the disk is read before anything is changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from mere.errors import LakeError, LakeUnreadable, MetadataMissing, RefNotFound
from mere.lake import faults
from mere.lake.commits import Commit, CommitKind
from mere.lake.files import Reach
from mere.lake.places import claim, require_own
from mere.lake.port import Moved, Store
from mere.lake.refs import Ref, RefKind
from mere.lake.runs import is_alive
from mere.lake.storage import Storage, StoredFile
from mere.names import RUN_PREFIX

if TYPE_CHECKING:
    from mere.lake.lake import Lake

GRACE = timedelta(hours=24)
KEEP_RUNS = timedelta(days=7)
_MOMENT = timedelta(milliseconds=1)  # which a database rounds off: what was written before it is older than now
_BATCH = 1000  # files deleted between two looks at the pointers


class Kept(StrEnum):
    REACHABLE = "reachable"
    YOUNG = "younger than the grace time"
    RUN = "written since the oldest live run began"
    WAITING = "doomed, but not for the whole grace time yet"


@dataclass(frozen=True)
class Sweep:
    """What a sweep did, or would do."""

    dry_run: bool
    runs: tuple[Ref, ...]  # branches of dead runs, deleted
    aliases: tuple[Ref, ...]  # deleted
    commits_doomed: tuple[Commit, ...]  # found to be unneeded for the first time
    commits: tuple[Commit, ...]  # expired: they stay in the log, their files may go
    doomed: tuple[StoredFile, ...]  # found unreachable for the first time
    deleted: tuple[StoredFile, ...]
    kept: Mapping[Kept, int]  # how many other files were kept, and why

    @property
    def bytes_doomed(self) -> int:
        return sum(file.size for file in self.doomed)

    @property
    def bytes_deleted(self) -> int:
        return sum(file.size for file in self.deleted)


@dataclass(frozen=True)
class Policy:
    now: datetime
    grace: timedelta
    keep_runs: timedelta
    keep: timedelta | None  # how much history of live refs is kept; None: all

    def older(self, instant: datetime, age: timedelta) -> bool:
        return instant < self.now - age

    def since(self, doomed: datetime | None) -> datetime:
        """When something was doomed: now, if it was not yet, or by a clock that was ahead."""
        return self.now if doomed is None else min(doomed, self.now)

    def has_waited(self, doomed: datetime | None) -> bool:
        return doomed is not None and self.now - self.since(doomed) >= self.grace


@dataclass(frozen=True)
class Leavings:
    """What nobody needs any longer, as far as the database knows."""

    runs: tuple[Ref, ...]
    aliases: tuple[Ref, ...]
    commits: tuple[Commit, ...]  # not expired yet
    live_since: datetime | None  # when the oldest run began that may still be writing

    @property
    def refs(self) -> tuple[Ref, ...]:
        return self.runs + self.aliases


def sweep(
    lake: Lake,
    *,
    dry_run: bool = False,
    grace: timedelta = GRACE,
    keep_runs: timedelta = KEEP_RUNS,
    keep: timedelta | None = None,
    now: datetime | None = None,
) -> Sweep:
    """Delete dead runs, expire old commits, and delete the files that have long been unreachable.

    With a grace time of zero a file is still doomed by one sweep and deleted by the next: only that protects a write
    that is going on. `now` is the time to judge ages by.
    """
    store = lake.store
    require_own(lake.storage, lake.location, store.lake_id)
    policy = Policy(now or store.now() + _MOMENT, grace, keep_runs, keep)
    leavings = find_leavings(store, policy)
    commits = _Commits.of(leavings.commits, store.doomed(), policy)
    gone = [ref.name for ref in leavings.refs]
    look = _Look(lake.storage)
    look.at(store.pointers(without=gone, expired=[commit.seq for commit in leavings.commits]))
    faults.point("sweep.reached")
    files = _sort(lake, look.reach, policy, leavings.live_since)
    if not dry_run:
        claim(lake.storage, lake.location, store.lake_id)  # a lake of an older mere has not done so
        files = _carry_out(lake, leavings, commits, look, files)
        # Only those that have been empty for the grace time: a writer makes the folder first and the file then.
        oldest = min(policy.now - policy.grace, leavings.live_since or policy.now)
        lake.storage.remove_empty_folders(lake.warehouse, oldest)
    kept = {reason: count for reason, count in files.kept.items() if count}
    return Sweep(
        dry_run,
        leavings.runs,
        leavings.aliases,
        commits.doomed,
        commits.expired,
        tuple(files.doomed),
        tuple(files.deleted),
        kept,
    )


# what the database knows


def find_leavings(store: Store, policy: Policy) -> Leavings:
    refs, commits, leases = store.refs(), store.all_commits(), store.leases()
    by_seq = {commit.seq: commit for commit in commits}
    still = [ref for ref in refs if ref.kind is RefKind.RUN and _is_still(ref, by_seq[ref.head], policy)]
    runs = tuple(ref for ref in still if not is_alive(store, ref.name.removeprefix(RUN_PREFIX), leases))
    aliases = tuple(ref for ref in refs if ref.kind is RefKind.ALIAS and policy.older(ref.created_at, policy.grace))
    left = [ref for ref in refs if ref not in runs and ref not in aliases]
    kept = _kept_commits(left, by_seq, policy)
    expired = tuple(commit for commit in commits if commit.seq not in kept and not commit.expired)
    begun = [ref.created_at for ref in left if ref.kind is RefKind.RUN] + [lease.acquired_at for lease in leases]
    return Leavings(runs, aliases, expired, min(begun, default=None))


def _is_still(run: Ref, head: Commit, policy: Policy) -> bool:
    """Nothing has been committed to it for as long as dead runs are kept."""
    return policy.older(max(run.created_at, head.at), policy.keep_runs)


def _kept_commits(refs: Sequence[Ref], by_seq: Mapping[int, Commit], policy: Policy) -> set[int]:
    in_reach = _history((ref.head for ref in refs), by_seq)
    kept = set(in_reach)
    if policy.keep is not None:
        main = _history((ref.head for ref in refs if ref.name == "main"), by_seq)
        kept = {seq for seq in in_reach if not policy.older(by_seq[seq].at, policy.keep)}
        # The commit before the first of these was the lake's state until then: `main@…` may ask for it.
        kept |= {parent for seq in kept if (parent := by_seq[seq].parent) is not None}
        kept |= {ref.head for ref in refs}
        # Publishing a branch compares all that it did with where it began, however long ago that was.
        kept |= _history((ref.head for ref in refs if ref.kind.writable), by_seq, main)
    return kept | {seq for seq, commit in by_seq.items() if _stays_by_itself(commit, seq in in_reach, policy)}


def _stays_by_itself(commit: Commit, in_reach: bool, policy: Policy) -> bool:
    """The empty lake needs no file; a commit that no ref leads to can be brought back by its id for a while."""
    return commit.kind is CommitKind.ROOT or not (in_reach or policy.older(commit.at, policy.grace))


def _history(heads: Iterable[int], by_seq: Mapping[int, Commit], known: Collection[int] = ()) -> set[int]:
    """The commits that lead to the heads, without those that are known."""
    found: set[int] = set()
    for head in heads:
        seq: int | None = head
        while seq is not None and seq not in found and seq not in known:
            found.add(seq)
            seq = by_seq[seq].parent
    return found


@dataclass(frozen=True)
class _Commits:
    """The commits that are not needed any longer. They die in two phases, as files do: how long one has been doomed is
    told by the sweeps alone, so a clock that jumps ahead gives up no commit at once."""

    since: Mapping[str, datetime]  # every one that is doomed and not expired yet, by `mark`
    waiting: tuple[int, ...]  # the same, by their numbers
    doomed: tuple[Commit, ...]  # for the first time
    expired: tuple[Commit, ...]

    @classmethod
    def of(cls, commits: Sequence[Commit], before: Mapping[str, datetime], policy: Policy) -> _Commits:
        expired = tuple(commit for commit in commits if policy.has_waited(before.get(mark(commit))))
        left = [commit for commit in commits if commit not in expired]
        return cls(
            {mark(commit): policy.since(before.get(mark(commit))) for commit in left},
            tuple(commit.seq for commit in left),
            tuple(commit for commit in left if mark(commit) not in before),
            expired,
        )


def mark(commit: Commit) -> str:
    """How a commit is named among what is doomed."""
    return f"commit:{commit.id}"


# what the disk knows


class _Look:
    """A growing view of what is reachable: pointers may appear while a sweep is going on, and are followed too."""

    def __init__(self, storage: Storage) -> None:
        self.reach = Reach(storage)
        self._seen: set[str] = set()

    def at(self, pointers: Collection[str]) -> None:
        new = set(pointers) - self._seen
        try:
            for pointer in sorted(new):
                self.reach.add(pointer)
        except (LakeUnreadable, MetadataMissing) as error:
            raise type(error)(
                f"{error.message} Without it nobody can tell which files are needed: the sweep stopped, and nothing"
                " that it may lead to was deleted.",
                remedy="Put the file back from a backup, or repair what keeps it from being read.",
            ) from error
        self._seen |= new


@dataclass
class _Files:
    since: dict[str, datetime]  # every doomed file, with the time at which it was first found unreachable
    doomed: list[StoredFile]
    deleted: list[StoredFile]
    kept: dict[Kept, int]


def _sort(lake: Lake, reach: Reach, policy: Policy, live_since: datetime | None) -> _Files:
    """Each file of the warehouse into one heap."""
    before = lake.store.doomed()
    files = _Files({}, [], [], dict.fromkeys(Kept, 0))
    for file in lake.storage.files(lake.warehouse):
        reason = _keep_reason(file, reach, policy, live_since)
        if reason is None:
            doomed = before.get(file.location)
            files.since[file.location] = policy.since(doomed)
            if doomed is None:
                files.doomed.append(file)
            elif policy.has_waited(doomed):
                files.deleted.append(file)
            else:
                reason = Kept.WAITING
        if reason is not None:
            files.kept[reason] += 1
    return files


def _keep_reason(file: StoredFile, reach: Reach, policy: Policy, live_since: datetime | None) -> Kept | None:
    if _is_needed(file, reach):
        return Kept.REACHABLE
    if file.modified_at >= policy.now - policy.grace:
        return Kept.YOUNG
    if live_since is not None and file.modified_at >= live_since:
        return Kept.RUN
    return None


def _is_needed(file: StoredFile, reach: Reach) -> bool:
    folder, name = os.path.split(file.location)
    if name.startswith(".") and name.endswith(".crc"):
        name = name[1 : -len(".crc")]  # Hadoop's checksum of the file beside it lives as long as that file
    return f"{folder}/{name}" in reach


# what is done


def _carry_out(lake: Lake, leavings: Leavings, commits: _Commits, look: _Look, files: _Files) -> _Files:
    store = lake.store
    for ref in leavings.refs:
        _delete_ref(store, ref)
    faults.point("sweep.refs")
    store.expire([commit.seq for commit in commits.expired])
    faults.point("sweep.expired")
    store.set_doomed({**commits.since, **files.since})
    faults.point("sweep.doomed")
    deleted = list(_delete(lake, commits, look, files.deleted))
    faults.point("sweep.deleted")
    gone = {file.location for file in deleted}
    left = {name: since for name, since in files.since.items() if name not in gone and name not in look.reach}
    store.set_doomed({**commits.since, **left})
    spared = len(files.deleted) - len(deleted)
    kept = {**files.kept, Kept.REACHABLE: files.kept[Kept.REACHABLE] + spared}
    return _Files(files.since, files.doomed, deleted, kept)


def _delete_ref(store: Store, ref: Ref) -> None:
    """A ref that has moved since it was looked at is not dead, and another sweep may have been quicker."""
    with suppress(Moved, RefNotFound):
        store.delete_ref(ref.name, expected=ref)


def _delete(lake: Lake, commits: _Commits, look: _Look, files: Sequence[StoredFile]) -> Iterator[StoredFile]:
    doomed = _Look(lake.storage)  # what only commits reach that may still be brought back
    for start in range(0, len(files), _BATCH):
        pointers = lake.store.pointers(expired=commits.waiting)
        look.at(pointers)
        doomed.at(lake.store.pointers() - pointers)
        batch = [
            file
            for file in files[start : start + _BATCH]
            if not (_is_needed(file, look.reach) or _is_needed(file, doomed.reach))
        ]
        try:
            lake.storage.delete(*(file.location for file in batch))
        except LakeError as error:
            raise type(error)(
                f"{error.message} Nothing needs it; the sweep stopped here.",
                remedy=f"{error.remedy or ''} Then run mere gc again.".strip(),
            ) from error
        faults.point("sweep.batch")
        yield from batch
