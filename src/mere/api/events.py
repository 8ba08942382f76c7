"""The events of a run in progress, each an object of its own type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from mere.errors import MereError
from mere.pipeline.run import request
from mere.pipeline.run.record import said

# What is said of the rows of every model, in the events and in the record with `rows_` before it.
ROWS = ("read", "written", "quarantined", "dropped")


class RunState(StrEnum):
    """How a run ended."""

    PUBLISHED = "published"
    NOTHING = "nothing"  # there was nothing to do, or nothing has changed
    SKIPPED = "skipped"  # another run is at it, or it was published before
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, kw_only=True)
class Event:
    """`about`: all that is said of it, as `mere run --json` prints it."""

    kind: ClassVar[str]
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_about(cls, about: Mapping[str, Any]) -> Self:
        """An event from all that is said of it."""
        keys = {each.name: each.metadata.get("key", each.name) for each in fields(cls)}
        own = {name: _frozen(about[key]) for name, key in keys.items() if key in about}
        return cls(**{**own, "about": about})

    def to_dict(self) -> dict[str, Any]:
        """What `mere run --json` prints of it, in one line."""
        return {"event": self.kind, **self.about}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, kw_only=True)
class Waiting(Event):
    """Another run is writing the same tables."""

    kind: ClassVar = "waiting"
    why: str = field(metadata={"key": "for"})
    id: str  # that the run will have


@dataclass(frozen=True, kw_only=True)
class Began(Event):
    """The run has a branch, and a record under its id."""

    kind: ClassVar = "run"
    id: str
    branch: str
    on: str


@dataclass(frozen=True, kw_only=True)
class Planned(Event):
    kind: ClassVar = "plan"
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EngineOpened(Event):
    kind: ClassVar = "engine"
    where: str


@dataclass(frozen=True, kw_only=True)
class Building(Event):
    """A model's turn has come."""

    kind: ClassVar = "building"
    model: str
    action: str
    reasons: tuple[str, ...] = ()
    rows: int = 0  # that it reads, as far as the plan knows
    bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Fetching(Event):
    """How far a portion of a source was fetched."""

    kind: ClassVar = "fetching"
    model: str
    portion: str
    bytes: int
    of: int | None


@dataclass(frozen=True, kw_only=True)
class Outcome(Event):
    """What became of a model; also in the record of a run, where `about` has the rest."""

    kind: ClassVar = "outcome"
    model: str
    state: str  # built, unchanged, failed, unbuilt
    model_kind: str | None = field(default=None, metadata={"key": "kind"})
    branch: str | None = None
    seconds: float = 0.0
    error: str | None = None
    because_of: str | None = None  # the model that failed before
    action: str | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows_added: int = 0
    rows_removed: int = 0
    rows_read: int = 0
    rows_written: int = 0
    rows_quarantined: int = 0
    rows_dropped: int = 0
    bytes_added: int = 0
    audits: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    quarantine: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Built(Outcome):
    kind: ClassVar = "built"


@dataclass(frozen=True, kw_only=True)
class Unchanged(Outcome):
    """There was nothing new in its inputs."""

    kind: ClassVar = "unchanged"


@dataclass(frozen=True, kw_only=True)
class Failed(Outcome):
    kind: ClassVar = "failed"


@dataclass(frozen=True, kw_only=True)
class Audited(Outcome):
    """Audits that compare tables were asked once all of them were built."""

    kind: ClassVar = "audited"


@dataclass(frozen=True, kw_only=True)
class Rebased(Event):
    """These tables moved meanwhile: the run catches up with them."""

    kind: ClassVar = "rebase"
    tables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Published(Event):
    kind: ClassVar = "published"
    commit: str | None
    on: str


@dataclass(frozen=True, kw_only=True)
class Ended(Event):
    """The last event of every run, also of one that failed before it could begin."""

    kind: ClassVar = "end"
    state: RunState
    commit: str | None
    error: str | None = None
    error_kind: str | None = None  # which of mere.errors it was, such as LeaseHeld

    @classmethod
    def of_failure(cls, state: RunState, error: BaseException) -> Self:
        kind = type(error).__name__ if isinstance(error, MereError) else None
        return cls.from_about({"state": state, "commit": None, "error": said(error), "error_kind": kind})


@dataclass(frozen=True, kw_only=True)
class Updated(Event):
    """A branch has the changes of its parent; what they touch is built again after this."""

    kind: ClassVar = "update"
    branch: str
    parent: str
    before: str  # the commit at which it was, to which mere revert leads back
    base: str  # the parent's commit on which it stands now
    after: str
    kept: tuple[str, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LeftAsIs(Event):
    """Models that were built from a part of the data: how much of it there should be, only the user can say."""

    kind: ClassVar = "left"
    branch: str
    models: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Warned(Event):
    """Something that does not change how the run ended, such as a hook that failed."""

    kind: ClassVar = "warning"
    message: str


Listener = Callable[[Event], None]

_TYPES: dict[str, type[Event]] = {
    each.kind: each
    for each in (
        Waiting, Began, Planned, EngineOpened, Building, Fetching, Built, Unchanged, Failed, Audited, Rebased,
        Published,
    )
}  # fmt: skip


def event_of(happened: request.Event) -> Event:
    """What the pipeline tells, typed."""
    about = {"model": str(happened.model), **happened.about} if happened.model else dict(happened.about)
    return _TYPES[happened.kind].from_about(about)
