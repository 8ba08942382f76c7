"""The attempts at a run: each writes on a branch of its own, and only one has the run.

To take a run from whoever has it, its branch gets another name, in one transaction with its record and its leases.
What goes by the old name is cut off for good, even if it slept for an hour in the middle of a statement: the catalog
knows no such branch, so its engine commits nothing, and its heartbeats and records are of an attempt that is past.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mere.errors import RunNotFound
from mere.lake.log.runs import Run, RunStatus, run_of_holder
from mere.lake.refs.retry import retried_while_moving
from mere.lake.store.port import Lease, Store
from mere.names import next_attempt, run_of


@dataclass(frozen=True)
class Ended:
    """What came of ending a run."""

    run: Run
    already: bool = False
    was_alive: bool = False  # as far as could be seen
    released: tuple[Lease, ...] = ()
    branch: str | None = None  # where what it built is; None if the branch is gone

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.run.to_dict(),
            "already_ended": self.already,
            "was_running": self.was_alive,
            "released": [{"target": each.target, "table": str(each.table)} for each in self.released],
            "branch": self.branch,
        }


def branch_of(store: Store, run: Run) -> str | None:
    """The branch of its last attempt; None if it was published, or deleted."""
    return run.branch if store.ref(run.branch) else None


def published(store: Store, run: Run) -> str | None:
    """The commit by which a run was published, even if it died before it could say so."""
    return run.about.get("commit") or _published(store, run)


def take_over(store: Store, past: Run, run: Run) -> Run:
    """Make it another attempt's. Moved, if somebody else was quicker."""
    run = replace(run, branch=next_attempt(past.branch))
    store.hand_over(past.branch, run)
    return run


def end(store: Store, id_: str, by: str) -> Ended:
    """End a run, whoever has it and wherever that is. Idempotent."""
    # It moves when somebody resumes it, or when it comes to its own end.
    return retried_while_moving(
        lambda: _end(store, id_, by), f"Run {id_} is being taken over again and again. It was left as it was."
    )


def _end(store: Store, id_: str, by: str) -> Ended:
    found = store.run(id_)
    if found is None:
        raise RunNotFound(f"There is no run {id_!r}.")
    past = found.seen(store.now())
    branch = branch_of(store, past)
    if past.ended_at is not None:
        return Ended(past, already=True, branch=branch)
    was_alive = past.status is RunStatus.RUNNING
    run = _ended(store, past, f"ended by {by}" if was_alive else None)
    if branch is not None:
        run = replace(run, branch=next_attempt(branch))
    released = store.hand_over(branch or past.branch, run)
    return Ended(run, was_alive=was_alive, released=tuple(released), branch=run.branch if branch else None)


def end_dead(store: Store, leases: Iterable[Lease]) -> bool:
    """End those of the holders whose process on this machine is gone: they need no time to prove that they live."""
    ended = False
    for id_ in sorted({id_ for lease in leases if (id_ := run_of_holder(lease.holder))}):
        run = store.run(id_)
        if run is not None and run.ended_at is None and run.process and run.process.is_gone:
            end(store, id_, by="")
            ended = True
    return ended


def _ended(store: Store, past: Run, why: str | None) -> Run:
    now = store.now()
    if store.ref(past.branch) is None and (commit := published(store, past)):
        return replace(past, status=RunStatus.SUCCEEDED, ended_at=now, about={**past.about, "commit": commit})
    status = RunStatus.CANCELLED if why else RunStatus.INTERRUPTED
    return replace(past, status=status, ended_at=now, about={**past.about, **({"error": why} if why else {})})


def _published(store: Store, run: Run) -> str | None:
    target = store.ref(run.target)
    if target is None:
        return None
    for commit in store.ancestors(store.commit_by_seq(target.head)):
        if commit.at < run.started_at:
            break
        if commit.run == run.id and run_of(commit.source or "") == run.id:
            return commit.id
    return None
