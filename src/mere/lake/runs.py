"""The history of runs, kept in the lake's database: what was run, on what, how it ended."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mere.errors import LakeError
from mere.names import RUN_PREFIX

if TYPE_CHECKING:
    from mere.lake.port import Lease, Store

BEAT = timedelta(seconds=10)
_MISSED = 3  # beats, after which nobody believes that it lives


class RunStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # never written: a run that was killed cannot say so


@dataclass(frozen=True)
class Run:
    id: str
    target: str  # the branch it was for
    branch: str  # the branch it wrote to
    status: RunStatus
    author: str
    started_at: datetime
    beat_at: datetime  # when it last said that it lives
    ended_at: datetime | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # as JSON has it: models, timings, audits

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "target": self.target,
            "branch": self.branch,
            "status": self.status,
            "author": self.author,
            "started_at": self.started_at.isoformat(timespec="milliseconds"),
            "ended_at": self.ended_at.isoformat(timespec="milliseconds") if self.ended_at else None,
            **self.about,
        }

    def seen(self, now: datetime) -> Run:
        """As others see it: a run that has not been heard of for a while was interrupted."""
        if self.status is RunStatus.RUNNING and now - self.beat_at > _MISSED * BEAT:
            return replace(self, status=RunStatus.INTERRUPTED)
        return self


def holder(id_: str) -> str:
    """Who holds the leases of a run. Two processes never hold them as one, though both resume the same run."""
    return f"run {id_} {secrets.token_hex(4)}"


def holds(holder: str, id_: str) -> bool:
    return holder.split(" ")[:2] == ["run", id_]


def shown(holder: str) -> str:
    """For people, who know a run by its id alone."""
    return holder.rpartition(" ")[0] if holder.startswith("run ") and holder.count(" ") == 2 else holder


def of_branch(name: str) -> str:
    """The id of the run that a branch belongs to."""
    return name.removeprefix(RUN_PREFIX)


def is_alive(store: Store, id_: str, leases: Iterable[Lease]) -> bool:
    """By its leases or by its heartbeat: a run that has only to publish holds none."""
    if any(holds(lease.holder, id_) for lease in leases):
        return True
    found = store.run(id_)
    return found is not None and found.seen(store.now()).status is RunStatus.RUNNING


@contextmanager
def beating(store: Store, id_: str, every: timedelta = BEAT) -> Iterator[None]:
    """A run says that it lives for as long as the block lasts."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(every.total_seconds()):
            with suppress(LakeError):  # busy or away: there are more turns before it counts as dead
                store.beat_run(id_)

    thread = threading.Thread(target=beat, name="mere-run", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
