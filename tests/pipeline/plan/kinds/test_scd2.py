"""Plans of histories, on a lake in memory: what is observed, and what is never done without being asked."""

from __future__ import annotations

from typing import Any

from mere.names import TableName
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.steps import Action, Step, Wish
from mere.pipeline.state.state import State, shape_of
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Sql
from tests.pipeline.fakes import DAY, EPOCH, FakeFacts, Table, carry_out

RAW, DIM = TableName("s", "raw"), TableName("s", "dim")


def history(sql: str = "SELECT id FROM s.raw", kind: Kind = Kind.SCD2, **more: Any) -> Model:
    return Model(DIM, kind, "models/s/dim.sql", Sql(sql, 1), (Input(RAW, 1),), **{"key": ("id",), **more})


def step(model: Model, facts: FakeFacts, **wish: Any) -> Step:
    (found,) = plan(Graph.of([model]), facts, wish=Wish(**wish)).steps
    return found


def built(model: Model) -> FakeFacts:
    """A lake in which the model has observed two snapshots."""
    facts = FakeFacts({RAW: Table("uuid")})
    facts.tables[RAW].write({1: (1,)}, "append")
    facts.tables[RAW].write({1: (2,)})
    carry_out(step(model, facts), facts)
    return facts


def test_all_snapshots_are_observed_first_and_then_those_that_are_new() -> None:
    facts = built(history())
    state = facts.tables[DIM].state
    assert state is not None
    assert state.observed == EPOCH + 2 * DAY
    assert State.from_json(state.to_json()) == state
    assert step(history(), facts).action is Action.SKIP
    facts.tables[RAW].compact()
    assert step(history(), facts).action is Action.SKIP
    facts.tables[RAW].write({1: (1,)})
    facts.tables[RAW].write({1: (2,)})  # what was there before counts as well: it has been otherwise in between
    found = step(history(), facts)
    assert (found.action, found.reasons) == (Action.KEYS, ("2 new snapshots of s.raw",))
    assert [each.snapshot for each in found.observations] == [4, 5]


def test_new_code_waits_for_a_decision() -> None:
    facts = built(history())
    other = history("SELECT id, name FROM s.raw")
    blocked = step(other, facts)
    assert (blocked.action, blocked.reasons) == (Action.BLOCKED, ("SQL changed",))
    assert "--forward-only s.dim   to keep its history" in blocked.remedy
    assert step(other, facts, forward_only=frozenset({DIM})).action is Action.SKIP
    again = step(other, facts, refresh=frozenset({DIM}))
    assert (again.action, again.afresh, len(again.observations)) == (Action.BUILD, True, 2)


def test_a_history_is_never_lost_by_another_setting() -> None:
    facts = built(history())
    for other in (
        history(key=("id", "shop")),
        history(updated_at="at"),
        history(compare=("name",)),
        history(kind=Kind.FULL),
        history(kind=Kind.MERGE),
    ):
        blocked = step(other, facts)
        assert blocked.action is Action.BLOCKED
        assert blocked.reasons[0].endswith(f"is now {shape_of(other)}: its history would be lost")
        assert "--full-refresh s.dim" in blocked.remedy


def test_a_model_that_becomes_a_history_is_built_as_one() -> None:
    facts = built(history(kind=Kind.FULL))
    found = step(history(), facts)
    assert (found.action, found.afresh, len(found.observations)) == (Action.BUILD, True, 2)


def test_the_shape_says_how_versions_are_told_apart() -> None:
    assert shape_of(history()) == "scd2 of id by comparing all columns"
    assert shape_of(history(compare=("a", "b"))) == "scd2 of id by comparing a, b"
    assert shape_of(history(key=("id", "shop"), updated_at="at")) == "scd2 of id, shop by at"
