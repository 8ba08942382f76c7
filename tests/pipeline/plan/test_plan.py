"""The planner on a lake in memory: reasons, windows, and that incremental equals from scratch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mere import entries
from mere.audits.audit import parse
from mere.errors import PlanError
from mere.names import TableName
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.steps import Action, Step, Wish
from mere.pipeline.state.state import State
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, OnChange, Sql, Time
from mere.windows import Grain, Spans
from tests.pipeline.fakes import EPOCH, FakeFacts, Table, build, carry_out, day, days, result

BRONZE, SILVER, GOLD, CITIES = (TableName.parse(f"s.{name}") for name in ("bronze", "silver", "gold", "cities"))


def model(name: TableName, *inputs: Input, sql: str = "SELECT 1 AS x", **settings: Any) -> Model:
    kind = Kind.INCREMENTAL if "time" in settings else settings.pop("kind", Kind.FULL)
    return Model(name, kind, f"models/{name}.sql", Sql(sql, 1), inputs, **settings)


def timed(name: TableName, *read: TableName, grain: Grain = Grain.DAY, **more: Any) -> Model:
    return model(name, *(Input(each, 1, time="at") for each in read), time=Time("at", grain, **more))


def graph(*models: Model) -> Graph:
    return Graph.of(models)


CHAIN = graph(timed(SILVER, BRONZE), timed(GOLD, SILVER, grain=Grain.MONTH))


def lake(**rows: dict[int, tuple[int, ...]]) -> FakeFacts:
    facts = FakeFacts({})
    for name, content in rows.items():
        table = facts.tables[TableName("s", name)] = Table(f"uuid of {name}")
        table.write(content, "append")
    return facts


def why(found: Graph, facts: FakeFacts, **options: Any) -> dict[str, str]:
    return {step.model.name.name: "; ".join(step.reasons) for step in plan(found, facts, **options).steps}


def actions(found: Graph, facts: FakeFacts, **options: Any) -> dict[str, Action]:
    return {step.model.name.name: step.action for step in plan(found, facts, **options).steps}


def test_nothing_to_do_looks_at_no_manifest() -> None:
    facts = lake(bronze={1: (1,), 5: (2,)})
    build(CHAIN, facts)
    facts.looks = 0
    assert actions(CHAIN, facts) == {"silver": Action.SKIP, "gold": Action.SKIP}
    assert facts.looks == 0


def test_first_build() -> None:
    facts = lake(bronze={1: (1,), 5: (2,)})
    found = plan(CHAIN, facts)
    assert [step.action for step in found.steps] == [Action.BUILD, Action.BUILD]
    assert found.steps[0].reasons == ("never built",)
    assert found.steps[0].spans == days(1, 5)  # in between there is nothing to build from


def test_late_rows_rebuild_their_windows_and_those_that_read_them() -> None:
    facts = lake(bronze={1: (1,), 2: (2,), 40: (3,)})
    build(CHAIN, facts)
    facts.tables[BRONZE].write({1: (1, 9), 2: (2, 9)}, "append")
    found = plan(CHAIN, facts)
    silver, gold = found.steps
    assert (silver.action, silver.spans) == (Action.WINDOWS, days(1, 2))
    assert silver.reasons == ("2 days: 2024-01-02, 2024-01-03: late rows in s.bronze",)
    assert gold.spans == Spans.of([day(0)]).widened(Grain.MONTH)
    assert gold.reasons == ("1 month: 2024-01: s.silver is built before it",)


def test_compaction_rebuilds_nothing() -> None:
    facts = lake(bronze={1: (1,), 40: (3,)})
    build(CHAIN, facts)
    facts.tables[BRONZE].compact()
    facts.tables[SILVER].compact()
    assert actions(CHAIN, facts) == {"silver": Action.SKIP, "gold": Action.SKIP}


def test_code() -> None:
    facts = lake(bronze={1: (1,)})
    build(CHAIN, facts)
    reformatted = graph(replace(CHAIN.models[SILVER], body=Sql("select 1 as X -- the same", 1)), CHAIN.models[GOLD])
    assert actions(reformatted, facts)["silver"] is Action.SKIP
    changed = graph(replace(CHAIN.models[SILVER], body=Sql("SELECT 2 AS x", 1)), CHAIN.models[GOLD])
    assert why(changed, facts)["silver"] == "SQL changed"
    assert plan(changed, facts).steps[0].afresh
    forward = Wish(forward_only=frozenset([SILVER]))
    assert actions(changed, facts, wish=forward)["silver"] is Action.SKIP


def test_a_change_of_kind_is_told() -> None:
    facts = lake(bronze={1: (1,)})
    build(CHAIN, facts)
    whole = graph(model(SILVER, Input(BRONZE, 1)))
    assert why(whole, facts)["silver"] == "was incremental by day of at, is now full"


def test_changed_outside_is_for_the_user_to_decide() -> None:
    facts = lake(bronze={1: (1,)})
    build(CHAIN, facts)
    facts.tables[SILVER].write({1: (7,)})
    found = plan(CHAIN, facts)
    assert [step.model.name for step in found.blocked] == [SILVER]
    assert found.blocked[0].reasons == ("changed outside mere at commit 1234 by ann",)
    assert "mere plan --accept s.silver" in found.blocked[0].remedy
    assert actions(CHAIN, facts, wish=Wish(refresh=frozenset([SILVER])))["silver"] is Action.BUILD


def test_a_table_that_mere_did_not_build() -> None:
    facts = lake(bronze={1: (1,)}, silver={1: (1,)})
    assert plan(CHAIN, facts).blocked[0].reasons == ("already exists, and mere did not build it",)


def test_what_a_whole_input_means_is_declared() -> None:
    facts = lake(bronze={1: (1,), 2: (1,)}, cities={0: (1,)})
    both = (Input(BRONZE, 1, time="at"), Input(CITIES, 1, on_change=OnChange.REBUILD))
    rebuilding = graph(model(SILVER, *both, time=Time("at", Grain.DAY)))
    build(rebuilding, facts)
    facts.tables[CITIES].write({0: (2,)})
    assert why(rebuilding, facts)["silver"] == "all days: late rows in s.cities"
    ignoring = graph(model(SILVER, both[0], replace(both[1], on_change=OnChange.IGNORE), time=Time("at", Grain.DAY)))
    assert actions(ignoring, facts)["silver"] is Action.SKIP


def test_windows_that_were_asked_for_leave_the_rest_due() -> None:
    facts = lake(bronze={number: (number,) for number in range(10)})
    build(CHAIN, facts, Wish(only=days(3, 4)))
    assert facts.tables[SILVER].rows.keys() == {3, 4}
    later = plan(CHAIN, facts, [SILVER]).steps[0]
    assert later.spans == days(0, 1, 2, 5, 6, 7, 8, 9)
    facts.tables[BRONZE].write({1: (5,)})
    build(CHAIN, facts, Wish(only=days(5)))
    assert plan(CHAIN, facts, [SILVER]).steps[0].spans == days(0, 1, 2, 6, 7, 8, 9)
    build(CHAIN, facts)
    assert facts.tables[SILVER].rows == result(CHAIN.models[SILVER], facts)


def test_asked_for_windows_are_not_due_again_and_late_ones_stay_due() -> None:
    facts = lake(bronze={number: (number,) for number in range(10)})
    build(CHAIN, facts)
    facts.tables[BRONZE].write({1: (5,), 8: (5,)})
    build(CHAIN, facts, Wish(only=days(8)))
    step = plan(CHAIN, facts, [SILVER]).steps[0]
    assert (step.spans, step.reasons) == (days(1), ("1 day: 2024-01-02: due since an earlier run",))
    facts.tables[BRONZE].write({1: (6,), 2: (6,)})
    assert plan(CHAIN, facts, [SILVER]).steps[0].spans == days(1, 2)
    build(CHAIN, facts, Wish(only=days(2)))
    assert plan(CHAIN, facts, [SILVER]).steps[0].spans == days(1)
    facts.tables[BRONZE].write({2: (7,)})
    assert plan(CHAIN, facts, [SILVER]).steps[0].spans == days(1, 2)


def test_what_this_run_has_built_is_built_again_only_if_more_came() -> None:
    facts = lake(bronze={number: (number,) for number in range(10)})
    build(CHAIN, facts, Wish(only=days(3, 4)))
    again = Wish(only=days(3, 4), settled=frozenset([SILVER]))
    assert actions(CHAIN, facts, selected=[SILVER], wish=again)["silver"] is Action.SKIP
    facts.tables[BRONZE].write({4: (7,), 5: (7,)})
    assert plan(CHAIN, facts, [SILVER], again).steps[0].spans == days(4)


def test_a_state_without_pending_windows_is_searched_for_what_is_missing() -> None:
    """As mere wrote it before there were any: a run of some windows kept the inputs that were seen before."""
    facts = lake(bronze={number: (number,) for number in range(5)})
    build(CHAIN, facts)
    table = facts.tables[SILVER]
    assert table.state
    older = replace(table.state, built=days(0, 1), complete=False, pending=Spans())
    text = older.to_json()
    assert "pending" not in text
    table.state = State.from_json(text)
    facts.tables[BRONZE].write({0: (5,)})
    assert plan(CHAIN, facts, [SILVER]).steps[0].spans == days(0, 2, 3, 4)
    build(CHAIN, facts, Wish(only=days(0, 2)))
    assert plan(CHAIN, facts, [SILVER]).steps[0].spans == days(3, 4)


def test_a_later_start_does_not_forget_what_came_before_it() -> None:
    facts = lake(bronze={1: (1,), 2: (1,), 3: (1,)})
    build(graph(timed(SILVER, BRONZE)), facts)
    later = graph(timed(SILVER, BRONZE, start=day(3).start))
    facts.tables[BRONZE].write({1: (2,), 3: (2,)})
    build(later, facts)
    assert plan(graph(timed(SILVER, BRONZE)), facts).steps[0].spans == days(1)


def test_the_unfinished_window_waits_if_asked() -> None:
    careful = graph(timed(SILVER, BRONZE, unfinished=False))
    facts = lake(bronze={1: (1,), 2: (1,), 3: (1,)})
    facts.now = EPOCH + (day(3).start - EPOCH) + (day(0).end - day(0).start) / 2
    build(careful, facts)
    assert facts.tables[SILVER].rows.keys() == {1, 2}
    assert actions(careful, facts)["silver"] is Action.SKIP
    facts.tables[BRONZE].write({4: (1,)}, "append")
    facts.now = day(4).start
    assert plan(careful, facts).steps[0].spans == days(3)
    build(careful, facts)
    facts.now = day(5).start
    assert plan(careful, facts).steps[0].spans == days(4)


def test_start() -> None:
    late = graph(timed(SILVER, BRONZE, start=day(2).start))
    facts = lake(bronze={1: (1,), 2: (1,), 3: (1,)})
    build(late, facts)
    assert facts.tables[SILVER].rows.keys() == {2, 3}
    facts.tables[BRONZE].write({1: (9,)})
    assert actions(late, facts)["silver"] is Action.SKIP


def test_an_earlier_start_brings_what_is_before() -> None:
    facts = lake(bronze={1: (1,), 2: (1,), 3: (1,)})
    build(graph(timed(SILVER, BRONZE, start=day(3).start)), facts)
    assert facts.tables[SILVER].rows.keys() == {3}
    earlier = graph(timed(SILVER, BRONZE, start=day(2).start))
    assert plan(earlier, facts).steps[0].spans == days(2)
    build(earlier, facts)
    assert actions(earlier, facts)["silver"] is Action.SKIP


def test_a_window_that_is_late_and_may_not_be_built_yet_is_not_forgotten() -> None:
    facts = lake(bronze={1: (1,), 3: (1,)})
    facts.now = day(3).start
    build(graph(timed(SILVER, BRONZE)), facts)
    careful = graph(timed(SILVER, BRONZE, unfinished=False))
    facts.tables[BRONZE].write({1: (2,), 3: (2,)})
    build(careful, facts)
    facts.now = day(4).start
    build(careful, facts)
    assert facts.tables[SILVER].rows == result(careful.models[SILVER], facts)


def test_some_windows_of_new_code_leave_the_others_and_stay_due() -> None:
    facts = lake(bronze={1: (1,), 2: (1,), 3: (1,)})
    build(CHAIN, facts)
    changed = graph(replace(CHAIN.models[SILVER], body=Sql("SELECT 2 AS x", 1)))
    for wish in (Wish(only=days(2)), Wish(only=days(2), refresh=frozenset([SILVER]))):
        step = plan(changed, facts, wish=wish).steps[0]
        assert (step.action, step.spans, step.afresh) == (Action.WINDOWS, days(2), False)
    build(changed, facts, Wish(only=days(2)))
    assert facts.tables[SILVER].rows.keys() == {1, 2, 3}
    assert plan(changed, facts).steps[0].spans == days(1, 3)
    assert why(CHAIN, facts, selected=[SILVER])["silver"] == "SQL changed"  # back to the code of before
    other = graph(timed(SILVER, BRONZE, grain=Grain.MONTH))
    assert actions(other, facts, wish=Wish(only=days(2)))["silver"] is Action.BLOCKED


def test_windows_that_were_written_and_not_audited_are_built_again() -> None:
    facts = lake(bronze={1: (1,), 2: (1,)})
    build(CHAIN, facts)
    table = facts.tables[SILVER]
    assert table.state
    table.state = replace(table.state, towards=facts.points(BRONZE), done=days(1))
    step = plan(CHAIN, facts, [SILVER]).steps[0]
    assert (step.spans, step.reasons) == (days(1), ("1 day: 2024-01-02: not audited yet",))


def test_forward_only_says_nothing_to_what_is_built_whole() -> None:
    whole = graph(model(SILVER, Input(BRONZE, 1)))
    facts = lake(bronze={1: (1,)})
    build(whole, facts)
    changed = graph(model(SILVER, Input(BRONZE, 1), sql="SELECT 2 AS x"))
    assert actions(changed, facts, wish=Wish(forward_only=frozenset([SILVER])))["silver"] is Action.BUILD


def test_new_code_of_an_append_model_is_for_the_user_to_decide() -> None:
    log = graph(model(SILVER, Input(BRONZE, 1, new_rows=True), kind=Kind.APPEND))
    facts = lake(bronze={1: (1,)})
    build(log, facts)
    changed = graph(model(SILVER, Input(BRONZE, 1, new_rows=True), kind=Kind.APPEND, sql="SELECT 2 AS x"))
    assert "--forward-only s.silver" in plan(changed, facts).blocked[0].remedy
    assert actions(changed, facts, wish=Wish(forward_only=frozenset([SILVER])))["silver"] is Action.SKIP
    assert actions(changed, facts, wish=Wish(refresh=frozenset([SILVER])))["silver"] is Action.BUILD


def test_columns_that_changed_are_a_reason() -> None:
    facts = lake(bronze={1: (1,)})
    build(CHAIN, facts)
    facts.tables[BRONZE].schema = 1
    assert why(CHAIN, facts)["silver"] == "all days: column x changed in s.bronze"


def test_a_view_with_audits_is_asked_again_when_its_tables_change() -> None:
    audit = parse(entries.parse("not_null: x", Path("v.sql")), {})
    seen = graph(model(SILVER, Input(BRONZE, 1), kind=Kind.VIEW, audits=(audit,)))
    facts = lake(bronze={1: (1,)})
    build(seen, facts)
    facts.tables[SILVER].view = True
    assert actions(seen, facts)["silver"] is Action.SKIP
    facts.tables[BRONZE].write({2: (1,)}, "append")
    assert actions(seen, facts)["silver"] is Action.AUDIT
    assert actions(graph(model(SILVER, Input(BRONZE, 1), kind=Kind.VIEW)), facts)["silver"] is Action.SKIP


def test_what_is_built_on_a_sample_is_a_sample_until_that_is_whole() -> None:
    facts = lake(bronze={1: (1,), 2: (1,)})
    build(CHAIN, facts)
    for name in (SILVER, GOLD):
        state = facts.tables[name].state
        assert state
        facts.tables[name].state = replace(state, sample=True)
    assert actions(CHAIN, facts, selected=[GOLD])["gold"] is Action.SKIP
    build(graph(CHAIN.models[SILVER]), facts)
    assert why(CHAIN, facts)["gold"] == "was built from a part of the data"


def test_limited_runs_are_marked_and_rebuilt() -> None:
    facts = lake(bronze={number: (number,) for number in range(10)})
    build(CHAIN, facts, Wish(limit=2))
    assert facts.tables[SILVER].rows.keys() == {8, 9}
    state = facts.tables[SILVER].state
    assert state
    facts.tables[SILVER].state = replace(state, sample=True)
    assert why(CHAIN, facts)["silver"] == "was built from a part of the data"


def test_a_state_from_when_partitions_counted_as_shape_is_still_good() -> None:
    state = State("SELECT 1", "append; new rows of s.bronze", {}, 7, "run")
    older = state.to_json().replace("s.bronze", "s.bronze; partitioned by city, day(at)")
    assert State.from_json(older) == state


def test_a_batch_that_was_done_is_not_done_again() -> None:
    facts = lake(bronze={1: (1,), 2: (1,), 3: (1,)})
    build(CHAIN, facts)
    facts.tables[BRONZE].write({1: (2,), 2: (2,), 3: (2,)})
    state = facts.tables[SILVER].state
    assert state
    facts.tables[SILVER].state = replace(state, towards=facts.points(BRONZE), done=days(1, 2))
    assert plan(CHAIN, facts).steps[0].spans == days(3)
    facts.tables[BRONZE].write({1: (3,)})
    assert plan(CHAIN, facts).steps[0].spans == days(1, 2, 3)


def test_append() -> None:
    log = graph(model(SILVER, Input(BRONZE, 1, new_rows=True), kind=Kind.APPEND))
    facts = lake(bronze={1: (1,)})
    build(log, facts)
    assert actions(log, facts)["silver"] is Action.SKIP
    facts.tables[BRONZE].write({2: (1,)}, "append")
    assert why(log, facts)["silver"] == "new rows in s.bronze"
    facts.tables[BRONZE].write({1: ()})
    assert plan(log, facts).blocked[0].reasons == ("s.bronze was not only appended to: late rows",)


def test_windows_that_are_not_known_yet_are_not_overlooked() -> None:
    """The rows of an append model may come into any day, also into the first one that a model after it has at all."""
    landing = TableName.parse("s.landing")
    taken = model(BRONZE, Input(landing, 1, new_rows=True), kind=Kind.APPEND)
    found = graph(taken, timed(SILVER, BRONZE), timed(GOLD, SILVER, start=day(50).start))
    facts = lake(landing={})
    build(found, facts)
    for number in (3, 60):
        facts.tables[landing].write({number: (1,)}, "append")
        assert actions(found, facts) == {"bronze": Action.ROWS, "silver": Action.WINDOWS, "gold": Action.WINDOWS}
        build(found, facts)
        assert set(actions(found, facts).values()) == {Action.SKIP}
    assert facts.tables[SILVER].rows.keys() == {3, 60}
    assert facts.tables[GOLD].rows.keys() == {60}


def test_time_that_passes_is_a_reason() -> None:
    aged = graph(model(SILVER, Input(BRONZE, 1), now=Grain.DAY))
    facts = lake(bronze={1: (1,)})
    build(aged, facts)
    assert actions(aged, facts)["silver"] is Action.SKIP
    facts.now += day(0).end - day(0).start
    assert why(aged, facts)["silver"] == ":now is 2025-02-05, it was built for 2025-02-04"


def test_tables_left_behind_and_missing() -> None:
    facts = lake(bronze={1: (1,)})
    build(CHAIN, facts)
    renamed = graph(
        CHAIN.models[SILVER], replace(CHAIN.models[GOLD], name=TableName("s", "platinum"), body=Sql("SELECT 1 AS x", 1))
    )
    left = plan(renamed, facts).left_behind
    assert [(each.table, each.renamed_to) for each in left] == [(GOLD, TableName("s", "platinum"))]
    with pytest.raises(PlanError, match=r"models/s\.gold\.sql:1: s\.gold reads s\.silver, which is not built yet"):
        plan(CHAIN, lake(bronze={1: (1,)}), [GOLD])
    misspelt = replace(
        CHAIN.models[GOLD], inputs=(replace(CHAIN.models[GOLD].inputs[0], table=TableName("s", "silvr")),)
    )
    with pytest.raises(PlanError, match=r"s\.silvr, which is not on main\. Did you mean s\.silver\?"):
        plan(graph(CHAIN.models[SILVER], misspelt), facts)
    with pytest.raises(PlanError, match="is not on main"):
        plan(CHAIN, FakeFacts({}))


contents = st.dictionaries(st.integers(0, 70), st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=6)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("write"), contents),
        st.tuples(st.just("compact"), st.just({})),
        st.tuples(st.just("run"), st.just({})),
        st.tuples(st.sampled_from(["only", "only", "only and resumed", "code", "only with new code"]), contents),
    ),
    max_size=14,
)


@settings(max_examples=300, deadline=None)
@given(contents, moves)
def test_incremental_equals_from_scratch(first: dict[int, tuple[int, ...]], sequence: list[tuple[str, Any]]) -> None:
    facts = lake(bronze=first)
    made = CHAIN
    for number, (move, rows) in enumerate(sequence):
        asked = Wish(only=Spans.of(map(day, rows)))
        if move in ("code", "only with new code"):
            silver = replace(made.models[SILVER], body=Sql(f"SELECT {number} AS x", 1))
            made = graph(silver, made.models[GOLD])
        match move:
            case "write":
                facts.tables[BRONZE].write(rows)
            case "compact":
                for table in facts.tables.values():
                    table.compact()
            case "run" | "code":
                build(made, facts)
            case _:
                before = due(plan(made, facts, [SILVER]).steps[0], facts)
                if move == "only and resumed":
                    interrupt(made, facts, asked)
                build(made, facts, asked)
                # No more and no less than the rest.
                assert asked.only is not None
                assert due(plan(made, facts, [SILVER]).steps[0], facts) == before - asked.only
    build(made, facts)
    for each in made.models.values():
        assert facts.tables[each.name].rows == {n: rows for n, rows in result(each, facts).items() if rows}
    assert all(step.action is Action.SKIP for step in build(made, facts))


def due(step: Step, facts: FakeFacts) -> Spans:
    """The windows in which there is something to build or to take away."""
    table = facts.tables.get(step.model.name)
    stands = days(*(table.rows if table else ()))
    due = step.spans | stands if step.afresh else step.spans  # a table that is replaced loses what it had
    return due & (stands | days(*result(step.model, facts)))


def interrupt(made: Graph, facts: FakeFacts, asked: Wish) -> None:
    """The first half of the windows of silver is written and signed, as by a run that is cut off."""
    step = plan(made, facts, [SILVER], asked).steps[0]
    half = step.spans.windows(Grain.DAY)[: len(step.spans.windows(Grain.DAY)) // 2]
    if step.builds and half:
        carry_out(step, facts, Spans.of(half))
