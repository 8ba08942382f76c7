"""Rolling models: a row looks at rows of before its window, and a late row changes the windows after it."""

from __future__ import annotations

import datetime as dt
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mere.errors import ProjectError
from mere.names import TableName
from mere.pipeline.plan.plan import plan
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.load import load
from mere.project.model import Input, Model, Sql, Time
from mere.windows import FIRST, LAST, Grain, Span, Spans
from tests.pipeline.conftest import MakeShop
from tests.pipeline.fakes import FakeFacts, Table, build, day, days
from tests.pipeline.shop import Row, Shop

BACK = 3
SQL = f"""
    -- kind: incremental
    -- time_column: day
    -- grain: day
    -- batch: 4
    -- context: {BACK} days
    WITH daily AS (
      SELECT CAST(at AS date) AS day, sum(amount) AS amount
      FROM landing.events
      WHERE at >= :start - INTERVAL {BACK} DAYS AND at < :end
      GROUP BY CAST(at AS date)
    )
    SELECT day, sum(amount) OVER (ORDER BY day RANGE BETWEEN INTERVAL {BACK} DAYS PRECEDING AND CURRENT ROW) AS amount
    FROM daily
"""
PYTHON = f"""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from mere import model, table

    @model("gold.rolling", kind="incremental", time_column="day", grain="day", context="{BACK} days", batch=4)
    def rolling(events=table("landing.events", time="at")):
        daily = events.groupBy(F.to_date("at").alias("day")).agg(F.sum("amount").alias("amount"))
        before = Window.orderBy(F.unix_date("day")).rangeBetween(-{BACK}, 0)
        return daily.withColumn("amount", F.sum("amount").over(before))
"""
FILES = {"sql": {"models/gold/rolling.sql": SQL}, "python": {"models/gold/rolling.py": PYTHON}}
ORIGIN = dt.date(2024, 1, 30)  # so that a month ends


# what is due


def rolling(context: timedelta) -> tuple[Graph, FakeFacts]:
    source, name = TableName("s", "source"), TableName("s", "rolling")
    time = Time("at", Grain.DAY, context=context)
    inputs = (Input(source, 1, time="at"),)
    facts = FakeFacts({source: Table("uuid")})
    facts.tables[source].write({1: (1,), 9: (1,)}, "append")
    return Graph.of([Model(name, Kind.INCREMENTAL, "x.sql", Sql("SELECT 1 AS x", 1), inputs, time=time)]), facts


def test_a_late_row_makes_the_windows_due_that_look_back_at_it() -> None:
    graph, facts = rolling(timedelta(days=3))
    build(graph, facts)
    facts.tables[TableName("s", "source")].write({2: (5,)}, "append")
    (step,) = plan(graph, facts).steps
    assert step.spans == days(2, 3, 4, 5)
    assert step.reasons == ("4 days: 2024-01-03, 2024-01-04, 2024-01-05, 2024-01-06: late rows in s.source",)
    facts.tables[TableName("s", "source")].write({8: (5,)}, "append")
    (step,) = plan(graph, facts).steps
    assert step.spans == days(2, 3, 4, 5, 8, 9)  # and none after the last row


def test_days_without_rows_are_built_too_for_they_may_look_back() -> None:
    graph, facts = rolling(timedelta(days=3))
    assert plan(graph, facts).steps[0].spans == days(*range(1, 10))
    build(graph, facts)
    facts.tables[TableName("s", "source")].write({12: (5,)}, "append")
    assert plan(graph, facts).steps[0].spans == days(10, 11, 12)


def test_another_context_builds_everything_again() -> None:
    graph, facts = rolling(timedelta(days=3))
    build(graph, facts)
    wider, _ = rolling(timedelta(hours=36))
    (step,) = plan(wider, facts).steps
    assert step.reasons == (
        "was incremental by day of at; looks 3 days back, is now incremental by day of at; looks 36 hours back",
    )


spans = st.builds(
    lambda start, length: Span(day(start).start, day(start).start + timedelta(hours=length)),
    st.integers(0, 40),
    st.integers(1, 60),
)


@given(st.lists(spans, min_size=1), st.integers(1, 100), st.sampled_from(Grain), st.integers(0, 45))
def test_what_reads_a_time_is_touched_by_it(found: list[Span], hours: int, grain: Grain, number: int) -> None:
    """A window is due exactly if what is read for it overlaps with what has changed."""
    time = Time("at", grain, context=timedelta(hours=hours))
    changed = Spans.of(found)
    window = day(number).widened(grain)
    read = time.read_for(Spans((window,)))
    assert bool(time.touched_by(changed) & Spans((window,))) == bool(read & changed)


def test_the_ends_of_time_do_not_overflow() -> None:
    time = Time("at", Grain.DAY, context=timedelta(days=30))
    everything = Spans((Span(FIRST, LAST),))
    assert time.touched_by(everything) == time.read_for(everything) == everything


# what is read


def problems(folder: Path, sql: str) -> str:
    (folder / "models" / "gold").mkdir(parents=True)
    (folder / "mere.yaml").write_text("name: x\n")
    (folder / "models" / "gold" / "x.sql").write_text(sql)
    try:
        load(folder)
    except ProjectError as error:
        return str(error)
    return ""


HEADER = (
    "-- kind: incremental\n-- time_column: d\n-- context: {context}\nSELECT d FROM a.b WHERE d >= {start} AND d < {end}"
)


@pytest.mark.parametrize(
    ("context", "start", "end", "said"),
    [
        ("7 days", ":start - INTERVAL 7 DAYS", ":end", ""),
        ("1 week", ":start - INTERVAL '7' DAY", ":end", ""),
        ("7 days", "date_sub(:start, 7)", ":end", ""),
        ("7 days", "date_add(:start, -6)", ":end", ""),
        ("7 days", "CAST(:start AS date) - 7", ":end", ""),
        ("36 hours", ":start - INTERVAL 1 DAY 12 HOURS", ":end", ""),
        ("7 days", "timestampadd(DAY, -7, :start)", ":end", ""),
        ("6 days", ":start - INTERVAL 1 WEEK", ":end", "looks further back than the context of 6 days"),
        ("7 days", ":start", ":end", "looks at nothing before its window"),
        ("7 days", ":start - INTERVAL 1 MONTH", ":end", "reads rows of other windows"),
        ("7 days", ":start - INTERVAL 7 DAYS", ":end + INTERVAL 1 DAY", "reads rows of other windows"),
        ("7 days", ":start + INTERVAL 1 DAY", ":end", "reads rows of other windows"),
        ("1 month", ":start - INTERVAL 7 DAYS", ":end", "must be a number of hours, days or weeks"),
    ],
)
def test_what_the_query_looks_back_at_lies_within_the_context(
    tmp_path: Path, context: str, start: str, end: str, said: str
) -> None:
    found = problems(tmp_path, HEADER.format(context=context, start=start, end=end))
    assert said in found
    assert bool(said) == bool(found)


# what is built


def event(number: int, on: int, amount: int) -> Row:
    return number, 1, f"{ORIGIN + timedelta(days=on)}T10:00", amount


def from_scratch(rows: list[Row]) -> list[tuple[dt.date, int]]:
    daily: dict[dt.date, int] = {}
    for _, _, at, amount in rows:
        on = dt.datetime.fromisoformat(at).date()
        daily[on] = daily.get(on, 0) + amount
    found = (
        (on, [amount for at, amount in daily.items() if timedelta() <= on - at <= timedelta(BACK)]) for on in daily
    )
    return sorted((on, sum(amounts)) for on, amounts in found)


def check(it: Shop, steps: list[list[int]]) -> None:
    landed: list[Row] = []
    for step in steps:
        new = [event(len(landed) + at, on, 2**at) for at, on in enumerate(step, 1)]
        it.land(*new)
        landed += new
        it("run")
        assert sorted(it.rows("gold.rolling")) == from_scratch(landed)
        assert it.plan() == {}


@pytest.mark.parametrize("language", FILES)
def test_a_rolling_model_is_what_it_would_be_from_scratch(shop: MakeShop, language: str) -> None:
    it = shop(FILES[language])
    check(it, [[0, 2, 3, 12], [1], [20, 4, 10]])
    it.delete("landing.events", "id = 5")  # of the second day
    steps = it.plan()["gold.rolling"]
    assert steps["reasons"] == [
        "4 days: 2024-01-31, 2024-02-01, 2024-02-02, 2024-02-03: rows deleted in landing.events"
    ]
    it("run")
    rows = dict(it.rows("gold.rolling"))
    assert (rows[dt.date(2024, 2, 1)], dt.date(2024, 1, 31) in rows) == (6, False)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("language", FILES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.lists(st.integers(0, 25), min_size=1, max_size=4), min_size=1, max_size=5))
def test_a_rolling_model_is_what_it_would_be_from_scratch_for_long(
    shop: MakeShop, language: str, steps: list[list[int]]
) -> None:
    check(shop(FILES[language]), steps)
