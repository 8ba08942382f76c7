"""What of a merge model is due, on a lake in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mere.names import TableName
from mere.pipeline.plan.kinds.inputs import points_of
from mere.pipeline.plan.outcome import built
from mere.pipeline.plan.plan import plan, plan_model
from mere.pipeline.plan.steps import Action, Step, Wish
from mere.pipeline.state.state import Point, Points
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, OnChange, Python, Sql
from mere.windows import Grain
from tests.pipeline.fakes import DAY, FakeFacts, Table

ITEMS, NAMES, MERGED = (TableName.parse(f"s.{name}") for name in ("items", "names", "merged"))
BY_KEY = Input(ITEMS, 1, key=(("id", "id"),))
WHOLE = Input(NAMES, 1, on_change=OnChange.REBUILD)


@dataclass
class Facts(FakeFacts):
    """Items may be a view over another table."""

    behind: TableName | None = None
    known: bool = True  # whether the key is followed through it

    def points(self, table: TableName) -> Points:
        if self.behind and table == ITEMS:
            return {str(ITEMS): Point("digest"), **super().points(self.behind)}
        return super().points(table)

    def keyed(self, table: TableName, key: Any) -> Any:
        return super().keyed(table, key) if self.known else None


def merged(*inputs: Input, **settings: Any) -> Model:
    return Model(
        MERGED, Kind.MERGE, "models/s/merged.sql", Sql("SELECT 1 AS id", 1), inputs, **{"key": ("id",), **settings}
    )


def lake(*tables: TableName) -> Facts:
    facts = Facts({})
    for name in tables:
        facts.tables[name] = Table(f"uuid of {name}")
        facts.tables[name].write({1: (1,)}, "append")
    return facts


def build(model: Model, facts: FakeFacts) -> Step:
    """As a run does."""
    step = plan_model(model, facts, Wish())
    table = facts.tables.setdefault(MERGED, Table("uuid"))
    table.write({1: (1,)})
    state = built(step, None, points_of(model, facts), "run", facts.now)
    table.state = replace(state, snapshot=table.current)
    return step


def due(model: Model, facts: FakeFacts, **wish: Any) -> tuple[Action, str]:
    step = plan_model(model, facts, Wish(**wish))
    return step.action, "; ".join(step.reasons)


def test_the_keys_of_changed_rows_are_due_whatever_the_change() -> None:
    model, facts = merged(BY_KEY), lake(ITEMS)
    assert build(model, facts).action is Action.BUILD
    facts.looks = 0
    assert due(model, facts) == (Action.SKIP, "up to date")
    assert facts.looks == 0
    facts.tables[ITEMS].compact()
    assert due(model, facts)[0] is Action.SKIP
    for operation in ("append", "overwrite", "delete"):
        facts.tables[ITEMS].write({2: (2,)}, operation)
        assert due(model, facts) == (Action.KEYS, "late rows in s.items")
        build(model, facts)


def test_what_cannot_be_told_by_key_is_built_whole_and_the_reason_told() -> None:
    model, facts = merged(BY_KEY), lake(ITEMS)
    build(model, facts)
    items = facts.tables[ITEMS]
    facts.tables[ITEMS] = replace(items, uuid="another")
    assert due(model, facts) == (Action.BUILD, "s.items is another table or view now")
    facts.tables[ITEMS] = replace(items, schema=1)
    assert due(model, facts) == (Action.BUILD, "column x changed in s.items")
    items.write({2: (2,)})
    facts.tables[ITEMS] = replace(items, snapshots=items.snapshots[1:])
    assert due(model, facts) == (Action.BUILD, "snapshot 1 of s.items is gone")
    del facts.tables[ITEMS]
    facts.tables[NAMES] = items
    assert due(merged(replace(BY_KEY, table=NAMES)), facts) == (Action.BUILD, "s.names was not read before")


def test_an_input_that_is_read_whole_decides_by_its_policy() -> None:
    facts = lake(ITEMS, NAMES)
    model = merged(BY_KEY, WHOLE)
    build(model, facts)
    facts.tables[NAMES].write({2: (2,)})
    facts.tables[ITEMS].write({2: (2,)})
    assert due(model, facts) == (Action.BUILD, "late rows in s.names; late rows in s.items")
    assert due(merged(BY_KEY, replace(WHOLE, on_change=OnChange.IGNORE)), facts)[0] is Action.KEYS


def test_other_reasons_to_build_it_whole() -> None:
    model, facts = merged(BY_KEY), lake(ITEMS)
    build(model, facts)
    assert due(merged(BY_KEY, key=("id", "day")), facts) == (Action.BUILD, "was merge by id, is now merge by id, day")
    assert due(merged(BY_KEY, latest_by="at"), facts)[1] == "was merge by id, is now merge by id, the latest by at"
    assert due(replace(model, body=Sql("SELECT 2 AS id", 1)), facts) == (Action.BUILD, "SQL changed")
    facts.tables[ITEMS].write({2: (2,)})
    changed = replace(model, body=Sql("SELECT 2 AS id", 1))
    assert due(changed, facts, forward_only=frozenset({MERGED}))[0] is Action.KEYS
    daily = replace(model, now=Grain.DAY)
    build(daily, facts)
    facts.now += DAY
    assert due(daily, facts)[0] is Action.BUILD


def test_an_input_that_is_built_before_is_looked_at_again_then() -> None:
    before = Model(ITEMS, Kind.FULL, "models/s/items.sql", Sql("SELECT 1 AS id", 1), (Input(NAMES, 1),))
    facts, model = lake(ITEMS, NAMES), merged(BY_KEY)
    build(model, facts)
    steps = plan(Graph.of([before, model]), facts, wish=Wish(refresh=frozenset({ITEMS}))).steps
    assert [(step.action, step.reasons[0]) for step in steps] == [
        (Action.BUILD, "asked for by --full-refresh"),
        (Action.KEYS, "s.items is built before it"),
    ]


def test_a_key_goes_through_a_view_if_its_query_tells_how() -> None:
    facts = lake(NAMES)
    facts.behind = NAMES
    model = merged(BY_KEY)
    build(model, facts)
    facts.tables[NAMES].write({2: (2,)})
    assert due(model, facts) == (Action.KEYS, "late rows in s.names")
    facts.known = False
    assert due(model, facts) == (Action.BUILD, "late rows in s.names, read through the view s.items")


def test_an_append_model_that_takes_changes_is_not_stopped_by_them() -> None:
    facts = lake(ITEMS)
    body = Python("log", 1, (("items", ITEMS),), "code")
    model = Model(MERGED, Kind.APPEND, "models/s/log.py", body, (Input(ITEMS, 1, changes=True),))
    build(model, facts)
    facts.tables[ITEMS].write({1: ()}, "delete")
    assert due(model, facts) == (Action.ROWS, "late rows in s.items")
    items = facts.tables[ITEMS]
    facts.tables[ITEMS] = replace(items, snapshots=items.snapshots[1:])
    assert due(model, facts) == (Action.BLOCKED, "snapshot 1 of s.items is gone")
