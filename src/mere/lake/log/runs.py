"""The history of runs in the lake's database: what ran, on what, and how it ended."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from mere.errors import LakeError
from mere.lake.log.process import Process
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import moment

BEAT = timedelta(seconds=10)
_MISSED = 3  # beats, after which nobody believes that it lives


class RunStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # seen by others, or written by them: a run that was killed cannot say so


@dataclass(frozen=True)
class Run:
    id: str
    target: str  # the branch it was for
    branch: str  # of its last attempt, which alone may write, beat and publish; see `attempts`
    status: RunStatus
    author: str
    started_at: datetime  # the first time
    beat_at: datetime  # when it last said that it lives
    ended_at: datetime | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # as JSON has it: models, timings, audits

    def __repr__(self) -> str:
        return f"<Run {self.id} for {self.target}: {self.status}, started {moment(self.started_at)}>"

    def _repr_html_(self) -> str:
        columns = [Column("model"), Column("state"), Column("attempt", True)]
        rows = [(name, each["state"], each["attempt"]) for name, each in self.models.items()]
        error = [str(self.about["error"])] if self.about.get("error") else []
        return notebook.shown(repr(self).strip("<>"), notebook.table(columns, rows), notebook.lines(error))

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "target": self.target,
            "branch": self.branch,
            "status": self.status,
            "author": self.author,
            "started_at": self.started_at.isoformat(timespec="milliseconds"),
            "ended_at": self.ended_at.isoformat(timespec="milliseconds") if self.ended_at else None,
            **{name: value for name, value in self.about.items() if name != "resumed_at"},
            "models": self.models,
            "attempts": self.attempts,
        }

    @property
    def process(self) -> Process | None:
        found = self.about.get("process")
        return Process.from_json(found) if found else None

    @property
    def models(self) -> dict[str, Any]:
        """What became of each model at last, with the number of the attempt in which it did."""
        found: dict[str, Any] = {}
        for number, attempt in enumerate(self.attempts, start=1):
            for name, each in attempt["models"].items():
                if name not in found or (each["state"], found[name]["state"]) != ("unchanged", "built"):
                    found[name] = {**each, "attempt": number}
        return found

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """All of them, oldest first: the record itself is that of the last one."""
        last = {
            "branch": self.branch,
            "status": self.status,
            "author": self.author,
            "started_at": self.about.get("resumed_at") or self.started_at.isoformat(timespec="milliseconds"),
            "ended_at": self.ended_at.isoformat(timespec="milliseconds") if self.ended_at else None,
            "process": self.about.get("process"),
            "models": self.about.get("models", {}),
            "error": self.about.get("error"),
        }
        return [*self.about.get("attempts", ()), last]

    @property
    def seconds(self) -> float | None:
        """How long it was at work, over all attempts that have ended."""
        spans = [(each["started_at"], each["ended_at"]) for each in self.attempts if each["ended_at"]]
        times = [datetime.fromisoformat(end) - datetime.fromisoformat(start) for start, end in spans]
        return sum(each.total_seconds() for each in times) if times else None

    def seen(self, now: datetime) -> Run:
        """As others see it: a run that has not been heard of for a while was interrupted, or whose process is gone."""
        if self.status is not RunStatus.RUNNING:
            return self
        if now - self.beat_at > _MISSED * BEAT or (self.process is not None and self.process.is_gone):
            return replace(self, status=RunStatus.INTERRUPTED)
        return self


def holder(id_: str) -> str:
    """Who holds the leases of a run. Two processes never hold them as one, though both resume the same run."""
    return f"run {id_} {secrets.token_hex(4)}"


def holds(holder: str, id_: str) -> bool:
    return holder.split(" ")[:2] == ["run", id_]


def run_of_holder(holder: str) -> str | None:
    kind, id_, *_ = [*holder.split(" "), ""]
    return id_ if kind == "run" and id_ else None


def shown(holder: str) -> str:
    """For people, who know a run by its id alone."""
    return holder.rpartition(" ")[0] if holder.startswith("run ") and holder.count(" ") == 2 else holder


class Held(Protocol):
    """A lease, as far as it is of interest here."""

    @property
    def holder(self) -> str: ...


class Runs(Protocol):
    """The part of a store in which runs are kept."""

    def run(self, id_: str) -> Run | None: ...
    def now(self) -> datetime: ...
    def beat_run(self, id_: str, branch: str) -> bool: ...


def is_alive(store: Runs, id_: str, leases: Iterable[Held]) -> bool:
    """By its leases or by its heartbeat: a run that has only to publish holds none. Whose process is gone has neither,
    though its leases take their time to expire."""
    found = store.run(id_)
    if found is not None and found.process is not None and found.process.is_gone:
        return False
    if any(holds(lease.holder, id_) for lease in leases):
        return True
    return found is not None and found.seen(store.now()).status is RunStatus.RUNNING


@contextmanager
def beating(store: Runs, run: Run, lost: Callable[[], None], every: timedelta | None = None) -> Iterator[None]:
    """A run says that it lives for as long as the block lasts. `lost` is called when it is somebody else's."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait((every or BEAT).total_seconds()):
            with suppress(LakeError):  # busy or away: there are more turns before it counts as dead
                if not store.beat_run(run.id, run.branch):
                    lost()
                    return

    thread = threading.Thread(target=beat, name="mere-run", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
