"""The words of a plan: facts about a ref, the user's wishes, and the steps that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, Self

from mere.names import TableName
from mere.pipeline.state.columns import Column
from mere.pipeline.state.observations import Observation
from mere.pipeline.state.state import Point, Points, State
from mere.project.model import Model
from mere.sources.offered import Offered
from mere.sources.source import Loaded, Portion
from mere.windows import NEVER, Grain, Spans


class Action(StrEnum):
    SKIP = "skip"
    BUILD = "build"  # all of it
    WINDOWS = "windows"  # some windows of an incremental model
    ROWS = "rows"  # the new rows, of an append model
    LOAD = "load"  # portions of a source
    KEYS = "keys"  # the keys that changed, of a merge or scd2 model
    ALTER = "alter"  # the table, and none of its rows
    AUDIT = "audit"  # nothing is built, but what it shows has changed
    BLOCKED = "blocked"  # nobody but the user can say what to do


@dataclass(frozen=True)
class Delta:
    """What changed in a table since a point; False in a condition if nothing did."""

    spans: Spans | None  # None: anything may have changed
    why: str = ""
    keeps_all: bool = False  # the rows that stood there then still do
    timeless: bool = False  # whether rows without a time may have come or gone

    def __bool__(self) -> bool:
        return self.spans is None or bool(self.spans) or self.timeless


@dataclass(frozen=True)
class Standing:
    """What stands on the ref under a model's name."""

    view: bool
    state: State | None
    changed_by: str | None = None  # who changed it after mere built it, in words; None: nobody


@dataclass(frozen=True)
class Load:
    """How much a step reads."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(self.rows + other.rows, self.bytes + other.bytes)


_NO_LOAD = Load()


class Facts(Protocol):
    """A ref at one commit, as far as a plan looks at it."""

    @property
    def ref(self) -> str: ...
    @property
    def now(self) -> datetime: ...
    def standing(self, table: TableName) -> Standing | None: ...
    def points(self, table: TableName) -> Points:
        """The table, or the view and all the tables that it reads; empty if there is no such table."""
        ...

    def times(self, table: TableName, column: str) -> Mapping[str, str]:
        """The time column of each table behind a table or view: of those that are missing, any change touches all."""
        ...

    def changes(self, table: str, since: Point, column: str | None, grain: Grain | None) -> Delta: ...
    def has_columns_of(self, table: str, old: Point, new: Point) -> bool:
        """Whether the table has the same columns, in the same order; comments do not count."""
        ...

    def columns_changed(self, table: str, old: Point, new: Point) -> str | None:
        """What became of columns that were there before, in words; None if columns were only added."""
        ...

    def still_has(self, table: str, point: Point) -> bool:
        """Whether the table's rows of then can be read."""
        ...

    def new_rows(self, table: str, since: Point) -> bool | None:
        """Whether rows were added since that stand in place of no others; None if that cannot be told."""
        ...

    def gone_again(self, table: str, since: Point) -> bool:
        """Whether rows that came since have gone again, as far as can be told."""
        ...

    def keyed(self, table: TableName, key: Mapping[str, str]) -> Mapping[str, Mapping[str, str]] | None:
        """A key over the columns of a table or view, by those of each table behind it; None if that cannot be told."""
        ...

    def columns(self, table: TableName) -> Sequence[Column]:
        """Of a table or view; empty if there is none."""
        ...

    def has_key_of(self, model: Model) -> bool:
        """Whether the model's table has the key that the model declares."""
        ...

    def observations(
        self, tables: Sequence[TableName], since: Points, last: datetime | None
    ) -> tuple[Observation, ...]:
        """Of a table, at each snapshot after a point; of several tables, or of a view, as they stand. `last`: when the
        last one was."""
        ...

    def offered(self, model: Model, loaded: Mapping[str, Loaded]) -> Offered:
        """What a source has that is not `loaded`."""
        ...

    def landed(self, model: Model, gone: Iterable[Loaded]) -> list[Portion]:
        """Files that were loaded and are gone from their place, as far as they are kept."""
        ...

    def loaded(self, table: TableName) -> Mapping[str, Loaded]: ...
    def extent(self, table: TableName, column: str) -> Spans: ...
    def timeless(self, table: TableName, column: str, since: Point | None = None) -> int | None:
        """How many rows at most have no time, of all or of those that came since; None: that would have to be read."""
        ...

    def load(self, table: TableName, column: str | None, spans: Spans | None) -> Load: ...
    def built_by_mere(self) -> Mapping[TableName, State]: ...


@dataclass(frozen=True)
class Wish:
    """What the user asks for beyond what is due."""

    refresh: frozenset[TableName] = frozenset()
    forward_only: frozenset[TableName] = frozenset()
    breaking: frozenset[TableName] = frozenset()  # may lose columns, or have them narrowed
    # Append models that leave out rows which are not just new, and sources that load renamed files as new ones.
    accepted: frozenset[TableName] = frozenset()
    only: Spans | None = None  # these windows, whether they are due or not, and no others
    settled: frozenset[TableName] = frozenset()  # models that this run has built: of them, only what came since is due
    limit: int | None = None  # at most so many windows of a model, the newest
    sample: float | None = None  # the share of rows taken from each input
    # Models whose quarantined rows are tried again, with the windows in which these lie; see `quarantine.retry`.
    retry: Mapping[TableName, Spans] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        """Whether tables will lack rows that they should have."""
        return self.limit is not None or self.sample is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "refresh": sorted(map(str, self.refresh)),
            "forward_only": sorted(map(str, self.forward_only)),
            "breaking": sorted(map(str, self.breaking)),
            "accepted": sorted(map(str, self.accepted)),
            "only": self.only.to_json() if self.only is not None else None,
            "limit": self.limit,
            "sample": self.sample,
            "retry": {str(name): spans.to_json() for name, spans in sorted(self.retry.items())},
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        return cls(
            refresh=frozenset(map(TableName.parse, raw.get("refresh", ()))),
            forward_only=frozenset(map(TableName.parse, raw.get("forward_only", ()))),
            breaking=frozenset(map(TableName.parse, raw.get("breaking", ()))),
            accepted=frozenset(map(TableName.parse, raw.get("accepted", ()))),
            only=Spans.from_json(raw["only"]) if raw.get("only") is not None else None,
            limit=raw.get("limit"),
            sample=raw.get("sample"),
            retry={TableName.parse(name): Spans.from_json(spans) for name, spans in raw.get("retry", {}).items()},
        )


@dataclass(frozen=True)
class Step:
    model: Model
    action: Action
    reasons: tuple[str, ...]
    spans: Spans = NEVER
    afresh: bool = False  # whatever stands there is replaced
    timeless: bool = False  # whether the rows of its inputs without a time are due: see `timeless`
    pending: Spans = NEVER  # windows that are due and are not built now: they stay due
    observations: tuple[Observation, ...] = ()  # that go into a history
    portions: tuple[Portion, ...] = ()  # that are loaded
    load: Load = _NO_LOAD
    remedy: str = ""
    drops: tuple[str, ...] = ()  # columns, as far as the plan can know them
    breaking: bool = False  # whether columns may be dropped or narrowed
    notes: tuple[str, ...] = ()  # what the user should know, whatever is done
    asks: str = ""  # the decision that it will need once what it reads is built; `remedy` says which ways there are
    waits: bool = False  # up to date, as far as can be told: a run looks again once what it reads is built

    @property
    def builds(self) -> bool:
        return self.action not in (Action.SKIP, Action.BLOCKED)


@dataclass(frozen=True)
class LeftBehind:
    """A table that mere built for a model which is no longer in the project."""

    table: TableName
    renamed_to: TableName | None
    quarantine_of: TableName | None = None  # the model may still be there, with no rule that puts rows aside


@dataclass(frozen=True)
class Plan:
    ref: str
    now: datetime
    steps: tuple[Step, ...]  # in dependency order
    left_behind: tuple[LeftBehind, ...] = ()

    @property
    def building(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.builds)

    @property
    def tried(self) -> tuple[Step, ...]:
        """What a run looks at again, in order."""
        return tuple(step for step in self.steps if step.builds or step.waits)

    @property
    def undecided(self) -> tuple[Step, ...]:
        """What needs a decision, now or in the run."""
        return tuple(step for step in self.steps if step.action is Action.BLOCKED or step.asks)

    @property
    def blocked(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.action is Action.BLOCKED)

    @property
    def load(self) -> Load:
        return sum((step.load for step in self.building), Load())


def load_of(model: Model, facts: Facts, spans: Spans | None = None) -> Load:
    """How much a build of the model reads; with windows, a build of these."""
    times = model.time.read_for(spans) if model.time and spans is not None else spans
    return sum((facts.load(each.table, each.time, times if each.time else None) for each in model.inputs), Load())
