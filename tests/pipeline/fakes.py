"""A lake in memory: tables as days of rows, changed by snapshots, as the planner sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from mere.names import TableName
from mere.pipeline.plan.kinds.inputs import points_of
from mere.pipeline.plan.outcome import built, under_way
from mere.pipeline.plan.plan import plan, plan_model
from mere.pipeline.plan.steps import Action, Delta, Load, Standing, Step, Wish
from mere.pipeline.state.columns import Column
from mere.pipeline.state.observations import Observation
from mere.pipeline.state.state import Point, Points, State
from mere.project.graph import Graph
from mere.project.model import Model
from mere.sources.offered import Offered
from mere.sources.source import Loaded, Portion
from mere.windows import NEVER, Grain, Span, Spans

DAY = timedelta(days=1)
EPOCH = datetime(2024, 1, 1, tzinfo=UTC)


def day(number: int) -> Span:
    return Span(EPOCH + number * DAY, EPOCH + (number + 1) * DAY)


def days(*numbers: int) -> Spans:
    return Spans.of(map(day, numbers))


@dataclass(frozen=True)
class Snapshot:
    id: int
    operation: str
    touched: Spans


@dataclass
class Table:
    uuid: str
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by day
    snapshots: list[Snapshot] = field(default_factory=list)
    state: State | None = None
    view: bool = False
    schema: int = 0
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] | None = None  # None: whatever the model declares

    @property
    def current(self) -> int | None:
        return self.snapshots[-1].id if self.snapshots else None

    def write(self, rows: Mapping[int, tuple[int, ...]], operation: str = "overwrite") -> None:
        """Whole days; an empty one is deleted."""
        self.rows = {**self.rows, **rows}
        self.rows = {number: found for number, found in self.rows.items() if found}
        touched = Spans.of(day(number) for number in rows)
        self.snapshots.append(Snapshot(len(self.snapshots) + 1, operation, touched))

    def compact(self) -> None:
        self.snapshots.append(Snapshot(len(self.snapshots) + 1, "replace", Spans.of(day(n) for n in self.rows)))


@dataclass
class FakeFacts:
    tables: dict[TableName, Table]
    now: datetime = EPOCH + 400 * DAY
    ref: str = "main"
    looks: int = 0  # how often manifests would have been read

    def standing(self, table: TableName) -> Standing | None:
        if table not in self.tables:
            return None
        found = self.tables[table]
        later = [] if found.state is None else [s for s in found.snapshots if s.id > (found.state.snapshot or 0)]
        outside = any(snapshot.operation != "replace" for snapshot in later)
        return Standing(found.view, found.state, "at commit 1234 by ann" if outside else None)

    def points(self, table: TableName) -> Points:
        found = self.tables.get(table)
        return {str(table): Point(found.uuid, found.current, found.schema)} if found else {}

    def landed(self, model: Model, gone: Iterable[Loaded]) -> list[Portion]:
        return []

    def offered(self, model: Model, loaded: Mapping[str, Loaded]) -> Offered:
        raise AssertionError(f"{model} is no source ({loaded})")

    def loaded(self, table: TableName) -> Mapping[str, Loaded]:
        raise AssertionError(f"{table} is no source")

    def times(self, table: TableName, column: str) -> Mapping[str, str]:
        return {str(table): column}

    def changes(self, table: str, since: Point, column: str | None, grain: Grain | None) -> Delta:
        self.looks += 1
        found = self.tables[TableName.parse(table)]
        later = [s for s in found.snapshots if s.id > (since.snapshot or 0) and s.operation != "replace"]
        if not later:
            return Delta(NEVER)
        touched = Spans.of(span for snapshot in later for span in snapshot.touched)
        appends = all(snapshot.operation == "append" for snapshot in later)
        return Delta(touched if column else None, "late rows", appends)

    def has_columns_of(self, table: str, old: Point, new: Point) -> bool:
        return (old.id, old.schema) == (new.id, new.schema)

    def columns_changed(self, table: str, old: Point, new: Point) -> str | None:
        return "column x changed"

    def still_has(self, table: str, point: Point) -> bool:
        if point.snapshot is None:
            return True
        return any(each.id == point.snapshot for each in self.tables[TableName.parse(table)].snapshots)

    def new_rows(self, table: str, since: Point) -> bool | None:
        found = self.tables[TableName.parse(table)]
        return any(each.operation == "append" for each in found.snapshots if each.id > (since.snapshot or 0))

    def gone_again(self, table: str, since: Point) -> bool:
        return False

    def keyed(self, table: TableName, key: Mapping[str, str]) -> Mapping[str, Mapping[str, str]] | None:
        return {str(table): key}

    def columns(self, table: TableName) -> Sequence[Column]:
        return self.tables[table].columns if table in self.tables else ()

    def has_key_of(self, model: Model) -> bool:
        return self.tables[model.name].key in (None, model.row_key)

    def observations(
        self, tables: Sequence[TableName], since: Points, last: datetime | None
    ) -> tuple[Observation, ...]:
        """Each snapshot has the time of its number."""
        (name,) = tables
        seen = since[str(name)].snapshot if str(name) in since else None
        snapshots = self.tables[name].snapshots if name in self.tables else []
        found = [each.id for each in snapshots if each.operation != "replace"]
        return tuple(Observation(EPOCH + id_ * DAY, id_, id_ - 1 or None) for id_ in found if id_ > (seen or 0))

    def extent(self, table: TableName, column: str) -> Spans:
        self.looks += 1
        return Spans.of(day(number) for number in self.tables[table].rows)

    def timeless(self, table: TableName, column: str, since: Point | None = None) -> int | None:
        return 0

    def load(self, table: TableName, column: str | None, spans: Spans | None) -> Load:
        found = self.tables.get(table)
        count = sum(len(rows) for rows in found.rows.values()) if found else 0
        return Load(count, count)

    def built_by_mere(self) -> Mapping[TableName, State]:
        return {name: table.state for name, table in self.tables.items() if table.state}


def build(graph: Graph, facts: FakeFacts, wish: Wish | None = None) -> list[Step]:
    """What a run does, each day of a model being the sum of each day's rows of its inputs."""
    steps = []
    due = {step.model.name for step in plan(graph, facts, wish=wish).tried}
    for model in graph.models.values():
        step = plan_model(model, facts, wish or Wish())
        assert model.name in due or not step.builds, f"the plan overlooked {model}: {step.reasons}"
        steps.append(step)
        if step.builds:
            carry_out(step, facts)
    return steps


def carry_out(step: Step, facts: FakeFacts, batch: Spans | None = None) -> None:
    """All of it, or a batch of its windows, after which it was cut off."""
    model = step.model
    points = points_of(model, facts)
    table = facts.tables.setdefault(model.name, Table(f"uuid of {model}"))
    before = None if step.afresh else table.state
    if step.action is Action.BLOCKED:
        raise AssertionError(step.reasons)
    spans = (
        (step.spans if batch is None else batch)
        if model.time
        else Spans((Span(EPOCH - 1000 * DAY, EPOCH + 1000 * DAY),))
    )
    kept = {} if before is None else {n: rows for n, rows in table.rows.items() if not spans.overlaps(day(n))}
    made = {n: rows for n, rows in result(model, facts).items() if spans.overlaps(day(n))}
    gone = {n: () for n in table.rows if n not in kept and n not in made}
    table.write({**made, **gone})
    if batch is None:
        state = built(step, before, points, "run", facts.now)
    else:
        done = before.done if before and before.towards == points else NEVER
        state = under_way(step, before, points, "run", done | batch)
    table.state = replace(state, snapshot=table.current)


def result(model: Model, facts: FakeFacts) -> dict[int, tuple[int, ...]]:
    """From scratch. A model with a context looks from each of its days at those before."""
    found: dict[int, tuple[int, ...]] = {}
    back = model.time.context.days if model.time else 0
    for each in model.inputs:
        there = facts.tables[each.table].rows
        for number in there:
            rows = [row for at in range(number - back, number + 1) for row in there.get(at, ())]
            found[number] = (*found.get(number, ()), sum(rows), len(rows))
    return found
