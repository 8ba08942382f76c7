"""What is no longer needed, and who may still be writing, according to the lake's database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mere.lake.log.commits import Commit, CommitKind
from mere.lake.log.refs import Ref, RefKind
from mere.lake.log.runs import is_alive, run_of_holder, shown
from mere.lake.store.port import Lease, Store
from mere.names import run_of


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
class Live:
    """A run that is going on, or another holder of a lease: it may have written files that it has not committed."""

    who: str
    since: datetime


@dataclass(frozen=True)
class Leavings:
    """`commits` are not needed at all; the others are told apart because only their owners know what they are for."""

    runs: tuple[Ref, ...]  # branches of dead runs that have stayed long enough
    aliases: tuple[Ref, ...]
    commits: tuple[Commit, ...]  # not expired yet
    live: tuple[Live, ...]  # the oldest first
    dead: tuple[Ref, ...]  # branches of runs that ended without publishing, and that stay
    silent: tuple[Ref, ...]  # those of them that nobody has ended, and whose files may be old enough to be swept
    of_dead: tuple[Commit, ...]  # to which no other ref leads
    unnamed: tuple[Commit, ...]  # to which no ref leads: they can be brought back by their ids for a while

    @property
    def refs(self) -> tuple[Ref, ...]:
        return self.runs + self.aliases

    @property
    def live_since(self) -> datetime | None:
        return self.live[0].since if self.live else None


def find_leavings(store: Store, policy: Policy) -> Leavings:
    refs, commits, leases = store.refs(), store.all_commits(), store.leases()
    by_seq = {commit.seq: commit for commit in commits}
    all_dead = dead_runs(store, refs, leases)
    runs = tuple(ref for ref in all_dead if policy.older(last_moved(ref, by_seq[ref.head]), policy.keep_runs))
    aliases = tuple(ref for ref in refs if ref.kind is RefKind.ALIAS and policy.older(ref.created_at, policy.grace))
    left = [ref for ref in refs if ref not in runs and ref not in aliases]
    dead = tuple(ref for ref in all_dead if ref not in runs)
    in_reach = _history((ref.head for ref in left), by_seq)
    kept = _kept_commits(left, in_reach, by_seq, policy)
    needed = _history((ref.head for ref in left if ref not in dead), by_seq)

    def of(seqs: Collection[int]) -> tuple[Commit, ...]:
        return tuple(commit for commit in commits if commit.seq in seqs and not commit.expired)

    unnamed = {seq for seq in kept - in_reach if by_seq[seq].kind is not CommitKind.ROOT}
    ended = {run_of(ref.name) for ref in all_dead}
    holding = [lease for lease in leases if run_of_holder(lease.holder) not in ended]
    return Leavings(
        runs,
        aliases,
        commits=of(by_seq.keys() - kept),
        live=_live([ref for ref in left if ref.kind is RefKind.RUN and ref not in dead], holding),
        dead=dead,
        silent=tuple(ref for ref in dead if policy.older(ref.created_at, policy.grace) and _is_open(store, ref)),
        of_dead=of((in_reach & kept) - needed),
        unnamed=of(unnamed),
    )


def _is_open(store: Store, branch: Ref) -> bool:
    """Nobody has ended the run, so that it could go on if it were only asleep."""
    run = store.run(run_of(branch.name))
    return run is not None and run.branch == branch.name and run.ended_at is None


def dead_runs(store: Store, refs: Iterable[Ref], leases: Collection[Lease]) -> list[Ref]:
    """The branches of runs that are not going on: what they began was not published."""
    return [ref for ref in refs if ref.kind is RefKind.RUN and not is_alive(store, run_of(ref.name), leases)]


def last_moved(run: Ref, head: Commit) -> datetime:
    return max(run.created_at, head.at)


def _live(runs: Iterable[Ref], leases: Iterable[Lease]) -> tuple[Live, ...]:
    """A run has a lease and a branch, and often more than one lease: it began with the oldest of them."""
    begun = [(f"run {run_of(ref.name)}", ref.created_at) for ref in runs]
    begun += [(shown(lease.holder), lease.acquired_at) for lease in leases]
    oldest: dict[str, datetime] = {}
    for who, since in begun:
        oldest[who] = min(since, oldest.get(who, since))
    return tuple(sorted((Live(who, since) for who, since in oldest.items()), key=lambda each: (each.since, each.who)))


def _kept_commits(
    refs: Sequence[Ref], in_reach: Collection[int], by_seq: Mapping[int, Commit], policy: Policy
) -> set[int]:
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
