"""What a plan makes of quarantines: who reads them, what is tried again, what is left behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mere import entries
from mere.audits.audit import parse
from mere.audits.quarantine import Counts
from mere.names import TableName
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.steps import Action, Wish
from mere.pipeline.state.state import State
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Sql, Time
from mere.windows import NEVER, Grain, Spans
from tests.pipeline.fakes import FakeFacts, Table, build, days

BRONZE, SILVER, REPORT = (TableName.parse(f"s.{name}") for name in ("bronze", "silver", "report"))
AUDITS = (parse(entries.parse("not_null: id\nquarantine: true", Path("x.sql")), {}),)


def silver(kind: Kind = Kind.FULL) -> Model:
    by_time = "at" if kind is Kind.INCREMENTAL else None
    key = (("id", "id"),) if kind is Kind.MERGE else ()
    read = Input(BRONZE, 1, time=by_time, new_rows=kind is Kind.APPEND, key=key)
    time = Time("at", Grain.DAY) if by_time else None
    return Model(SILVER, kind, "silver.sql", Sql("SELECT 1 AS x", 1), (read,), time=time, audits=AUDITS)


REPORTED = Model(REPORT, Kind.FULL, "report.sql", Sql("SELECT 2 AS x", 1), (Input(SILVER.quarantine, 3),))


def lake() -> FakeFacts:
    facts = FakeFacts({BRONZE: Table("uuid of bronze")})
    facts.tables[BRONZE].write({1: (1,), 5: (2,)}, "append")
    return facts


def with_quarantine(facts: FakeFacts) -> None:
    facts.tables[SILVER.quarantine] = Table("uuid", state=State("", f"quarantine of {SILVER}", {}, None, "run"))


def test_a_model_that_reads_a_quarantine_comes_after_the_model_that_fills_it() -> None:
    graph = Graph.of([REPORTED, silver()])
    assert list(graph.models) == [SILVER, REPORT]
    assert graph.upstream([REPORT]) == graph.downstream([SILVER]) == {SILVER, REPORT}
    assert graph.maker(SILVER.quarantine) == SILVER
    facts = lake()
    steps = plan(graph, facts).steps
    assert [step.reasons for step in steps] == [("never built",), ("never built",)]
    build(Graph.of([silver()]), facts)
    with_quarantine(facts)
    build(graph, facts)
    facts.tables[BRONZE].write({1: (3,)}, "append")
    assert plan(graph, facts).steps[1].reasons == (f"{SILVER.quarantine} is built before it",)


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (Kind.FULL, Action.BUILD),
        (Kind.INCREMENTAL, Action.WINDOWS),
        (Kind.APPEND, Action.ROWS),
        (Kind.MERGE, Action.KEYS),
    ],
)
def test_what_quarantined_rows_belong_to_is_tried_again(kind: Kind, action: Action) -> None:
    graph, facts = Graph.of([silver(kind)]), lake()
    build(graph, facts)
    spans = days(5) if kind is Kind.INCREMENTAL else NEVER
    wish = Wish(retry={SILVER: spans})
    assert Wish.from_json(wish.to_json()) == wish
    (step,) = plan(graph, facts, wish=wish).steps
    assert (step.action, step.spans) == (action, spans)
    assert step.reasons == ("its quarantined rows are tried again",)
    if kind is Kind.APPEND:
        return
    build(graph, facts, wish)
    assert plan(graph, facts).steps[0].action is Action.SKIP  # nothing became due by it


def test_what_is_due_besides_is_built_with_it() -> None:
    graph, facts = Graph.of([silver(Kind.INCREMENTAL)]), lake()
    build(graph, facts)
    facts.tables[BRONZE].write({1: (1, 7)}, "append")
    wish = Wish(retry={SILVER: days(5)})
    (step,) = plan(graph, facts, wish=wish).steps
    assert step.spans == days(1, 5)
    assert len(step.reasons) == 2
    build(graph, facts, wish)
    assert plan(graph, facts).steps[0].action is Action.SKIP


def test_what_came_for_the_unfinished_window_stays_due_after_a_retry() -> None:
    model = replace(silver(Kind.INCREMENTAL), time=Time("at", Grain.DAY, unfinished=False))
    graph, facts = Graph.of([model]), lake()
    build(graph, facts)
    facts.tables[BRONZE].write({400: (3,)}, "append")
    assert plan(graph, facts).steps[0].action is Action.SKIP
    build(graph, facts, Wish(retry={SILVER: days(5)}))
    facts.now += timedelta(days=1)
    assert plan(graph, facts).steps[0].spans == days(400)


def test_a_quarantine_is_left_behind_with_the_last_rule_or_with_its_model() -> None:
    facts = lake()
    graph = Graph.of([silver()])
    build(graph, facts)
    with_quarantine(facts)
    assert plan(graph, facts).left_behind == ()
    (left,) = plan(Graph.of([replace(silver(), audits=())]), facts).left_behind
    assert (left.table, left.renamed_to, left.quarantine_of) == (SILVER.quarantine, None, SILVER)
    other = TableName("s", "gold")
    renamed = plan(Graph.of([replace(silver(), name=other)]), facts).left_behind
    assert [(each.table, each.renamed_to) for each in renamed] == [(SILVER, other)]
    gone = plan(Graph.of([]), facts).left_behind
    assert [(each.table, each.quarantine_of) for each in gone] == [(SILVER, None), (SILVER.quarantine, None)]


def test_a_state_keeps_what_was_counted_while_a_build_is_under_way() -> None:
    state = State("code", "incremental", {}, 1, "run", done=Spans(), sifted=Counts(10, 2, {"time": 2}))
    assert State.from_json(state.to_json()) == state
