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

from mere.errors import LakeError, LakeUnreadable, MetadataMissing, RefNotFound
from mere.lake import faults
from mere.lake.iceberg.files import Reach
from mere.lake.log.commits import Commit
from mere.lake.log.refs import Ref
from mere.lake.place.places import claim, require_own
from mere.lake.refs import attempts
from mere.lake.refs.premises import Premises
from mere.lake.storage.port import Storage, StoredFile
from mere.lake.store.port import Moved, Store
from mere.lake.upkeep.leavings import Leavings, Live, Policy, find_leavings
from mere.names import run_of

GRACE = timedelta(hours=24)
KEEP_RUNS = timedelta(days=7)
_MOMENT = timedelta(milliseconds=1)  # which a database rounds off: what was written before it is older than now
_BATCH = 1000  # files deleted between two looks at the pointers


class Kept(StrEnum):
    """Why a file stays; the first three are about what reaches it."""

    REACHABLE = "reachable"
    DEAD_RUN = "reached only by branches of runs that ended without publishing"
    UNNAMED = "reached only by commits without a ref, which can still be brought back by their ids"
    YOUNG = "younger than the grace time"
    RUN = "written since the oldest live run began"
    LANDED = "landed, and to be kept"
    WAITING = "doomed, but not yet for the whole grace time"


@dataclass(frozen=True)
class Landed:
    """Files of sources, which nothing in the lake needs: they are kept for a time, counted from when they came."""

    folder: str
    keep: timedelta


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
    live: tuple[Live, ...]  # the runs that are going on: what was written since the first began is kept
    dead: tuple[Ref, ...]  # branches of dead runs that are kept

    @property
    def bytes_doomed(self) -> int:
        return sum(file.size for file in self.doomed)

    @property
    def bytes_deleted(self) -> int:
        return sum(file.size for file in self.deleted)


def sweep(
    lake: Premises,
    *,
    dry_run: bool = False,
    grace: timedelta = GRACE,
    keep_runs: timedelta = KEEP_RUNS,
    keep: timedelta | None = None,
    landed: Landed | None = None,
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
    while leavings.silent and not dry_run:
        _end(store, leavings.silent)
        leavings = find_leavings(store, policy)
    commits = _Commits.of(leavings.commits, store.doomed(), policy)
    look = _Look(lake.storage)
    for why, pointers in _layers(store, leavings):
        look.at(pointers, why)
    faults.point("sweep.reached")
    files = _sort(lake, look, policy, leavings.live_since, landed)
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
        leavings.live,
        leavings.dead,
    )


def _end(store: Store, branches: Iterable[Ref]) -> None:
    """A run that is taken for dead may only be asleep. If it woke up, it could commit files that were swept meanwhile:
    so it is cut off before any is doomed. What it has committed stays, and it can be resumed."""
    for branch in branches:
        faults.point("sweep.silent")
        attempts.end(store, run_of(branch.name), by="mere gc")


# what the database knows


def _layers(store: Store, leavings: Leavings) -> Iterator[tuple[Kept, set[str]]]:
    """The pointers that are needed, in the order in which their reasons count. The last layer has all of them."""
    gone, dead = ([ref.name for ref in refs] for refs in (leavings.refs, leavings.dead))
    some = (leavings.commits, leavings.unnamed, leavings.of_dead)
    expired, unnamed, of_dead = ([commit.seq for commit in commits] for commits in some)
    yield Kept.REACHABLE, store.pointers(without=gone + dead, expired=expired + unnamed + of_dead)
    if dead:
        yield Kept.DEAD_RUN, store.pointers(without=gone, expired=expired + unnamed)
    if unnamed:
        yield Kept.UNNAMED, store.pointers(without=gone, expired=expired)


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
        self._reach = Reach(storage)
        self._seen: set[str] = set()
        self._layers: list[tuple[int, Kept]] = []  # how many files are reached for this reason, or one before it

    def at(self, pointers: Collection[str], why: Kept = Kept.REACHABLE) -> None:
        new = set(pointers) - self._seen
        try:
            for pointer in sorted(new):
                self._reach.add(pointer)
        except (LakeUnreadable, MetadataMissing) as error:
            raise type(error)(
                f"{error.message} Without it nobody can tell which files are needed: the sweep stopped, and nothing"
                " that it may lead to was deleted.",
                remedy="Put the file back from a backup, or repair what keeps it from being read.",
            ) from error
        self._seen |= new
        self._layers.append((len(self._reach), why))

    def why(self, location: str) -> Kept | None:
        """What a file is needed for; None: nothing reaches it."""
        folder, name = os.path.split(location)
        if name.startswith(".") and name.endswith(".crc"):
            name = name[1 : -len(".crc")]  # Hadoop's checksum of the file beside it lives as long as that file
        position = self._reach.position(f"{folder}/{name}")
        if position is None:
            return None
        return next(why for count, why in self._layers if position < count)


@dataclass
class _Files:
    since: dict[str, datetime]  # every doomed file, with the time at which it was first found unreachable
    doomed: list[StoredFile]
    deleted: list[StoredFile]
    kept: dict[Kept, int]


def _sort(lake: Premises, look: _Look, policy: Policy, live_since: datetime | None, landed: Landed | None) -> _Files:
    """Each file of the warehouse, and of the landing, into one heap."""
    before = lake.store.doomed()
    files = _Files({}, [], [], dict.fromkeys(Kept, 0))
    judged = ((file, _keep_reason(file, look, policy, live_since)) for file in lake.storage.files(lake.warehouse))
    for file, reason in (*judged, *(_landed(lake.storage, landed, policy, live_since) if landed else ())):
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


def _keep_reason(file: StoredFile, look: _Look, policy: Policy, live_since: datetime | None) -> Kept | None:
    if why := look.why(file.location):
        return why
    if file.modified_at >= policy.now - policy.grace:
        return Kept.YOUNG
    if live_since is not None and file.modified_at >= live_since:
        return Kept.RUN
    return None


def _landed(
    storage: Storage, landed: Landed, policy: Policy, live_since: datetime | None
) -> Iterator[tuple[StoredFile, Kept | None]]:
    """A run may be reading any of them."""
    for file in storage.files(landed.folder):
        if live_since is not None:
            yield file, Kept.RUN
        else:
            yield file, None if file.modified_at < policy.now - max(landed.keep, policy.grace) else Kept.LANDED


# what is done


def _carry_out(lake: Premises, leavings: Leavings, commits: _Commits, look: _Look, files: _Files) -> _Files:
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
    left = {name: since for name, since in files.since.items() if name not in gone and look.why(name) is None}
    store.set_doomed({**commits.since, **left})
    spared = len(files.deleted) - len(deleted)
    kept = {**files.kept, Kept.REACHABLE: files.kept[Kept.REACHABLE] + spared}
    return _Files(files.since, files.doomed, deleted, kept)


def _delete_ref(store: Store, ref: Ref) -> None:
    """A ref that has moved since it was looked at is not dead, and another sweep may have been quicker."""
    with suppress(Moved, RefNotFound):
        store.delete_ref(ref.name, expected=ref)


def _delete(lake: Premises, commits: _Commits, look: _Look, files: Sequence[StoredFile]) -> Iterator[StoredFile]:
    doomed = _Look(lake.storage)  # what only commits reach that may still be brought back
    for start in range(0, len(files), _BATCH):
        pointers = lake.store.pointers(expired=commits.waiting)
        look.at(pointers)
        doomed.at(lake.store.pointers() - pointers)
        batch = [
            file for file in files[start : start + _BATCH] if not (look.why(file.location) or doomed.why(file.location))
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
