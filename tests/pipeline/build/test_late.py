"""Late data through models of several inputs and grains, while time passes: pure, on a lake in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mere.names import TableName
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.steps import Action, Wish
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, OnChange, Sql, Time
from mere.windows import Grain, Spans
from tests.pipeline.fakes import EPOCH, FakeFacts, Table, build, day, days, result

ORDERS, RETURNS, CITIES, DAILY, WEEKLY, MONTHLY, AGAIN, ROLLING, COARSE = (
    TableName("s", name)
    for name in ("orders", "returns", "cities", "daily", "weekly", "monthly", "again", "rolling", "coarse")
)


def timed(name: TableName, grain: Grain, *read: TableName, **more: Any) -> Model:
    inputs = tuple(Input(each, 1, time="at") for each in read)
    return Model(
        name, Kind.INCREMENTAL, f"models/{name}.sql", Sql("SELECT 1 AS x", 1), inputs, time=Time("at", grain, **more)
    )


GRAPH = Graph.of(
    [
        timed(DAILY, Grain.DAY, ORDERS, RETURNS),
        timed(WEEKLY, Grain.WEEK, ORDERS, DAILY, start=day(10).start),
        timed(MONTHLY, Grain.MONTH, DAILY, unfinished=False),
        timed(AGAIN, Grain.DAY, MONTHLY, RETURNS),  # finer than what it reads
    ]
)
ALL = Graph.of(
    [
        *GRAPH.models.values(),
        timed(ROLLING, Grain.DAY, ORDERS, DAILY, context=timedelta(days=6)),
        timed(COARSE, Grain.WEEK, ROLLING, context=timedelta(days=10), unfinished=False),
    ]
)

some_days = st.dictionaries(st.integers(0, 70), st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=5)
moves = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([ORDERS, RETURNS]), some_days),
        st.tuples(st.just("pass"), st.integers(1, 40)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("run"), st.just(Wish())),
        st.tuples(st.just("run"), st.builds(Wish, limit=st.integers(1, 3))),
        st.tuples(st.just("run"), some_days.map(lambda rows: Wish(only=Spans.of(map(day, rows))))),
    ),
    max_size=10,
)


def new_lake(**rows: dict[int, tuple[int, ...]]) -> FakeFacts:
    facts = FakeFacts({}, now=day(20).start)
    for name, content in rows.items():
        table = facts.tables[TableName("s", name)] = Table(f"uuid of {name}")
        table.write(content, "append")
    return facts


def belongs(model: Model, number: int, facts: FakeFacts) -> bool:
    """Whether the model has the day at all, now."""
    assert model.time
    grain = model.time.grain
    early = model.time.start is not None and day(number).start < grain.floor(model.time.start)
    late = not model.time.unfinished and day(number).start >= grain.floor(facts.now)
    return not early and not late


@settings(max_examples=300)
@given(some_days, some_days, moves)
def test_late_rows_reach_every_model_in_the_end(
    orders: dict[int, tuple[int, ...]], returns: dict[int, tuple[int, ...]], sequence: list[tuple[Any, Any]]
) -> None:
    facts = new_lake(orders=orders, returns=returns)
    for move, what in sequence:
        if move == "pass":
            facts.now += timedelta(days=what)
        elif move == "compact":
            for table in facts.tables.values():
                table.compact()
        elif move == "run":
            build(ALL, facts, what)
        else:
            facts.tables[move].write(what)
    build(ALL, facts)
    for model in ALL.models.values():
        scratch = {n: rows for n, rows in result(model, facts).items() if rows and belongs(model, n, facts)}
        assert facts.tables[model.name].rows == scratch, model.name
    assert all(step.action is Action.SKIP for step in build(ALL, facts))


def test_a_late_row_reaches_the_window_of_each_grain_that_holds_it() -> None:
    facts = new_lake(orders={0: (1,), 12: (1,), 40: (1,)}, returns={1: (1,)})
    facts.now = EPOCH + timedelta(days=100)
    build(GRAPH, facts)
    facts.tables[ORDERS].write({12: (1, 2)}, "append")
    due = {step.model.name: step.spans for step in build(GRAPH, facts) if step.builds}
    assert due[DAILY] == days(12)
    assert due[WEEKLY] == days(12).widened(Grain.WEEK)
    assert due[MONTHLY] == days(12).widened(Grain.MONTH)
    # All days of the month were written again, and any of them may have changed.
    assert due[AGAIN] == days(0, 1, 12)


def test_a_late_row_in_one_input_leaves_the_windows_of_the_other_alone() -> None:
    facts = new_lake(orders={0: (1,), 5: (1,)}, returns={3: (1,)})
    build(GRAPH, facts)
    facts.tables[RETURNS].write({3: (1, 1)}, "append")
    facts.tables[ORDERS].compact()
    (step,) = plan(GRAPH, facts, [DAILY]).steps
    assert (step.spans, step.reasons) == (days(3), ("1 day: 2024-01-04: late rows in s.returns",))


def test_rows_before_the_first_and_after_the_last_window_bring_only_their_own() -> None:
    facts = new_lake(orders={5: (1,), 6: (1,)}, returns={})
    facts.tables[RETURNS].write({}, "append")
    build(GRAPH, facts)
    facts.tables[ORDERS].write({3: (1,), 8: (1,)}, "append")
    (step,) = plan(GRAPH, facts, [DAILY]).steps
    assert step.spans == days(3, 8)
    assert step.reasons == ("2 days: 2024-01-04, 2024-01-09: late rows in s.orders",)


def test_late_rows_of_a_day_that_is_not_over_wait_for_its_end() -> None:
    facts = new_lake(orders={0: (1,), 32: (1,)}, returns={})
    facts.now = day(33).start
    build(GRAPH, facts)
    assert facts.tables[MONTHLY].rows.keys() == {0}
    facts.tables[ORDERS].write({33: (1,)}, "append")
    assert [step.model.name for step in build(GRAPH, facts) if step.builds] == [DAILY, WEEKLY]
    facts.now = day(60).start
    (step,) = (step for step in build(GRAPH, facts) if step.model.name == MONTHLY)
    assert step.reasons == ("1 month: 2024-02: late rows in s.daily",)
    assert facts.tables[MONTHLY].rows.keys() == {0, 32, 33}


def test_a_whole_input_that_is_ignored_does_not_hide_late_rows() -> None:
    both = (Input(ORDERS, 1, time="at"), Input(CITIES, 1, on_change=OnChange.IGNORE))
    name = TableName("s", "named")
    found = Model(name, Kind.INCREMENTAL, "models/named.sql", Sql("SELECT 1 AS x", 1), both, time=Time("at", Grain.DAY))
    graph = Graph.of([found])
    facts = new_lake(orders={0: (1,), 2: (1,)}, cities={0: (1,)})
    build(graph, facts)
    facts.tables[CITIES].write({0: (2,)})
    facts.tables[ORDERS].write({2: (1, 1)}, "append")
    (step,) = plan(graph, facts).steps
    assert (step.spans, step.reasons) == (days(2), ("1 day: 2024-01-03: late rows in s.orders",))
