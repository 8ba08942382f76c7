"""What a plan says of a table besides its rows, on a lake in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mere.names import TableName
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.steps import Action, Step, Wish
from mere.pipeline.state.columns import Column
from mere.pipeline.state.layout import layout_of
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Promise, Python, Sql
from tests.pipeline.fakes import FakeFacts, Table, build

SOURCE, SILVER, GOLD = (TableName("s", name) for name in ("source", "silver", "gold"))


def model(name: TableName, sql: str, source: TableName = SOURCE, kind: Kind = Kind.FULL, **more: Any) -> Model:
    return Model(name, kind, f"models/{name}.sql", Sql(sql, 1), (Input(source, 1),), **more)


def columns(*names: str, required: tuple[str, ...] = ()) -> tuple[Column, ...]:
    return tuple(Column(name, "int", name in required) for name in names)


def built(*models: Model, source: tuple[Column, ...] = columns("a", "b")) -> FakeFacts:
    facts = FakeFacts({SOURCE: Table("uuid", columns=source)})
    facts.tables[SOURCE].write({1: (1,)}, "append")
    build(Graph.of(models), facts)
    facts.tables[models[0].name].columns = columns("a", "b")
    return facts


def planned(facts: FakeFacts, *models: Model, wish: Wish | None = None) -> Step:
    return plan(Graph.of(models), facts, wish=wish).steps[0]


BEFORE = model(SILVER, "SELECT a, b FROM s.source")
READER = model(GOLD, "SELECT a + 1 AS a, sum(b) AS total FROM s.silver GROUP BY a", SILVER)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT a FROM s.source", "drops b, read by s.gold.total"),
        ("SELECT A AS a, B FROM s.source", None),
        ("SELECT 1 AS a, c AS B FROM s.source", None),
        ("SELECT a AS c FROM s.source", "drops a, b, read by s.gold"),
        ("SELECT * FROM s.source", None),
        ("SELECT * EXCEPT (b) FROM s.source", "drops b, read by s.gold.total"),
        ("SELECT * FROM range(5)", None),  # nobody knows
    ],
)
def test_a_column_that_goes_needs_a_word(sql: str, reason: str | None) -> None:
    facts = built(BEFORE, READER)
    now = replace(BEFORE, body=Sql(sql, 1))
    step = planned(facts, now, READER)
    if reason is None:
        assert step.action is Action.BUILD
        return
    assert (step.action, step.reasons) == (Action.BLOCKED, (reason,))
    assert "mere run --allow-breaking s.silver" in step.remedy
    allowed = planned(facts, now, READER, wish=Wish(breaking=frozenset([SILVER])))
    assert (allowed.action, allowed.breaking, allowed.notes) == (Action.BUILD, True, (reason,))
    assert planned(facts, now, READER, wish=Wish(breaking=frozenset([GOLD]))).action is Action.BLOCKED


def test_a_column_that_goes_upstream_goes_through_a_star() -> None:
    star = model(SILVER, "SELECT * FROM s.source")
    facts = built(star)
    facts.tables[SOURCE].columns = columns("a")
    facts.tables[SOURCE].schema += 1
    assert planned(facts, star).reasons == ("drops b",)


def test_what_an_input_will_have_is_not_known_before_it_is_built() -> None:
    star = model(GOLD, "SELECT * FROM s.silver", SILVER)
    facts = built(BEFORE, star)
    facts.tables[GOLD].columns = columns("a", "b", "c")
    facts.tables[SILVER].schema += 1
    changed = replace(BEFORE, body=Sql("SELECT a, b, 1 AS c FROM s.source", 1))
    silver, gold = plan(Graph.of([changed, star]), facts).steps
    assert (silver.action, gold.action) == (Action.BUILD, Action.BUILD)


def test_what_a_function_gives_is_not_known() -> None:
    facts = built(BEFORE)
    python = replace(BEFORE, body=Python("f", 1, (("source", SOURCE),), "other code"))
    assert planned(facts, python).action is Action.BUILD


def test_a_declared_name_is_no_loss() -> None:
    facts = built(BEFORE)
    renamed = replace(BEFORE, body=Sql("SELECT a, b AS c FROM s.source", 1), was={"c": "b"})
    step = planned(facts, renamed)
    assert (step.action, step.notes) == (Action.BUILD, ("renames b to c",))


def test_a_layout_alone_alters_the_table() -> None:
    facts = built(BEFORE, READER)
    cut = replace(BEFORE, partition_by=("bucket(4, a)",))
    step, downstream = plan(Graph.of([cut, READER]), facts).steps
    assert step.action is Action.ALTER
    assert step.reasons == ("partitioned by bucket(4, a) from now on; files stay as they are",)
    assert downstream.action is Action.SKIP
    facts.tables[SOURCE].write({2: (1,)})
    assert planned(facts, cut).notes == ("partitioned by bucket(4, a) from now on",)  # all files are written again
    state = facts.tables[SILVER].state
    assert state
    facts.tables[SILVER].state = replace(state, layout=None)  # of a time when it was not kept
    assert planned(facts, cut).notes == ()
    assert layout_of(cut) != layout_of(BEFORE)


@pytest.mark.parametrize(
    ("kind", "action", "reason"),
    [
        (Kind.FULL, Action.BUILD, "a may no longer be null"),
        (Kind.APPEND, Action.SKIP, "up to date"),  # the next build says what it needs
    ],
)
def test_a_stricter_contract_is_a_reason_to_build(kind: Kind, action: Action, reason: str) -> None:
    before = replace(BEFORE, kind=kind, inputs=(Input(SOURCE, 1, new_rows=kind is Kind.APPEND),))
    facts = built(before)
    strict = {"a": Promise("int", nullable=False), "b": Promise("int")}
    step = planned(facts, replace(before, contract=strict))
    assert (step.action, step.reasons) == (action, (reason,))
    facts.tables[SILVER].columns = columns("a", "b", required=("a",))
    assert planned(facts, replace(before, contract=strict)).action is Action.SKIP
    loose = dict.fromkeys("ab", Promise("int"))
    step = planned(facts, replace(before, contract=loose))
    assert (step.action, step.reasons) == (Action.ALTER, ("a may be null from now on",))
