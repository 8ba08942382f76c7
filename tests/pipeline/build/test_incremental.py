"""Incremental equals from scratch on a real lake: upstream is changed at random by Spark and PyIceberg; after every run
each table holds what a computation over all of upstream's rows gives, and no window was rebuilt that need not be."""

from __future__ import annotations

import datetime as dt
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mere.engine.session import Session, session
from mere.lake.diff import contents
from mere.lake.lake import Lake
from mere.pipeline.plan.steps import Action, Plan, Wish
from mere.pipeline.run.request import Finished, Project, Request, planned
from mere.pipeline.run.run import run
from mere.pipeline.state.state import PROPERTY, State
from mere.project.load import load
from mere.sparkconfig import SparkSettings
from mere.windows import Grain, Span, Spans, instant
from tests.pipeline.conftest import MakeShop

FIRST_DAY = dt.datetime(2024, 1, 29)
DAYS = 6  # so that they lie in two months
BACK = 2  # how many days a rolling model looks back
EVENTS, CITIES, SILVER, MONTHLY, COUNTS, ROLLING = (
    "bronze.events",
    "bronze.cities",
    "silver.events",
    "gold.monthly",
    "gold.counts",
    "gold.rolling",
)
MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


@dataclass(frozen=True)
class Variant:
    """How upstream's table and the models that read it are made."""

    type: str  # of the time column
    partitioned: str = ""  # upstream
    properties: str = "'format-version'='2'"
    grain: Grain = Grain.DAY  # of silver
    partition_by: str = ""  # silver
    counts: Grain = Grain.DAY  # the grain of the PySpark model
    batch: int = 2
    large: bool = False  # as if there were too much of it to compare rows: then files alone tell what changed

    def literal(self, at: dt.datetime) -> str:
        return f"{self.type}'{at:%Y-%m-%d}'" if self.type == "date" else f"{self.type}'{at:%Y-%m-%d %H:%M:%S}'"

    def value(self, at: dt.datetime) -> dt.date:
        if self.type == "date":
            return at.date()
        return at.replace(tzinfo=dt.UTC) if self.type == "timestamp" else at


COARSE_DELETES = f"'format-version'='2', {MERGE_ON_READ}, 'write.delete.granularity'='partition'"
VARIANTS = {
    "dates in one heap, rewritten": Variant("date"),
    "timestamps by day, position deletes": Variant(
        "timestamp", "days(t)", f"'format-version'='2', {MERGE_ON_READ}", counts=Grain.HOUR, batch=48, large=True
    ),
    "times without zone by month, deletes for a partition": Variant(
        "timestamp_ntz", "months(t)", COARSE_DELETES, partition_by="months(t)", large=True
    ),
    "timestamps in one heap, hours kept by day": Variant(
        "timestamp", grain=Grain.HOUR, partition_by="days(t)", counts=Grain.MONTH, batch=100
    ),
}

QUICK = list(VARIANTS)[:2]  # the others are left to the long tests


def project_files(variant: Variant) -> dict[str, str]:
    silver = f"""
        -- kind: incremental
        -- time_column: t
        -- grain: {variant.grain}
        -- batch: {variant.batch}
        -- partition_by: [{variant.partition_by}]
        -- inputs:
        --   {CITIES}: {{on_change: rebuild}}
        -- audits:
        --   - assert: amount >= 0
        --     quarantine: true
        SELECT e.id, e.t, c.name AS city, e.amount
        FROM {EVENTS} AS e JOIN {CITIES} AS c ON c.city = e.city
        WHERE e.t >= :start AND e.t < :end
    """
    monthly = f"""
        -- kind: incremental
        -- time_column: month
        -- grain: month
        SELECT CAST(date_trunc('month', t) AS date) AS month, city, count(*) AS events, sum(amount) AS amount
        FROM {SILVER}
        WHERE t >= :start AND t < :end
        GROUP BY CAST(date_trunc('month', t) AS date), city
    """
    counts = f"""
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        from mere import model, table

        @model("{COUNTS}", kind="incremental", time_column="start", grain="{variant.counts}", batch={variant.batch})
        def counts(events: DataFrame = table("{SILVER}", time="t")) -> DataFrame:
            start = F.date_trunc("{variant.counts}", "t").cast("{variant.type}")
            return events.groupBy(start.alias("start")).agg(F.count("*").alias("events"), F.max("id").alias("last"))
    """
    rolling = f"""
        -- kind: incremental
        -- time_column: t
        -- grain: day
        -- context: {BACK} days
        SELECT id, t, sum(amount) OVER recent AS amount
        FROM {SILVER}
        WHERE t >= :start - INTERVAL {BACK} DAYS AND t < :end
        WINDOW recent AS (ORDER BY t RANGE BETWEEN INTERVAL {BACK} DAYS PRECEDING AND CURRENT ROW)
    """
    return {
        "models/silver/events.sql": silver,
        "models/gold/monthly.sql": monthly,
        "models/gold/counts.py": counts,
        "models/gold/rolling.sql": rolling,
    }


Rows = Counter[tuple[Any, ...]]


@dataclass
class World:
    """A lake with upstream's tables, and a project that builds on them."""

    variant: Variant
    lake: Lake
    folder: Path
    engine: Session
    ids: int = 0
    columns: int = 0
    project: Project = field(init=False)

    def __post_init__(self) -> None:
        for name, text in project_files(self.variant).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).lstrip())
        self.project = Project(self.lake, load(self.folder), self.folder, SparkSettings())
        by = f"PARTITIONED BY ({self.variant.partitioned})" if self.variant.partitioned else ""
        self.spark(
            "CREATE NAMESPACE bronze",
            f"CREATE TABLE {EVENTS} (id bigint, t {self.variant.type}, city int, amount bigint) USING iceberg {by}"
            f" TBLPROPERTIES ({self.variant.properties})",
            f"CREATE TABLE {CITIES} (city int, name string) USING iceberg",
            f"INSERT INTO {CITIES} VALUES (0, 'Ghent'), (1, 'Lima')",
        )

    def spark(self, *statements: str) -> None:
        for statement in statements:
            self.engine.spark.sql(statement)

    def plan(self) -> Plan:
        return planned(self.project, Request(), dt.datetime.now(dt.UTC))

    def run(self, only: Spans | None = None) -> Finished:
        return run(self.project, Request(wish=Wish(only=only)), lambda _: None)

    # What can happen upstream. City 2 is not among the cities: silver leaves its rows out.

    def events(self, days: Sequence[int]) -> list[tuple[int, dt.datetime, int, int]]:
        found = []
        for day in days:
            self.ids += 1
            at = FIRST_DAY + dt.timedelta(days=day % DAYS, hours=self.ids * 7 % 24)
            found.append((self.ids, at, self.ids % 3, self.ids * 10))
        return found

    def append(self, days: Sequence[int]) -> None:
        listed = ", ".join(f"({i}, {self.variant.literal(t)}, {c}, {a})" for i, t, c, a in self.events(days))
        self.spark(f"INSERT INTO {EVENTS} (id, t, city, amount) VALUES {listed}")

    def append_without_spark(self, days: Sequence[int]) -> None:
        if self.variant.partitioned:  # PyIceberg writes no transforms here
            return self.append(days)
        return self.lake.pyiceberg().load_table(EVENTS).append(self.arrow(days))

    def arrow(self, days: Sequence[int]) -> pa.Table:
        schema = self.lake.pyiceberg().load_table(EVENTS).schema().as_arrow()
        rows = [{"id": i, "t": self.variant.value(t), "city": c, "amount": a} for i, t, c, a in self.events(days)]
        return pa.Table.from_pylist(rows, schema)

    def overwrite_a_day(self, days: Sequence[int]) -> None:
        low, high = (FIRST_DAY + dt.timedelta(days=days[0] % DAYS + more) for more in (0, 1))
        rows = [days[0]] * (len(days) - 1)
        if self.variant.partitioned:
            self.spark(
                f"DELETE FROM {EVENTS} WHERE t >= {self.variant.literal(low)} AND t < {self.variant.literal(high)}"
            )
            return self.append(rows) if rows else None
        condition = f"t >= '{self.variant.value(low).isoformat()}' and t < '{self.variant.value(high).isoformat()}'"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyIceberg warns when there was nothing to delete
            return self.lake.pyiceberg().load_table(EVENTS).overwrite(self.arrow(rows), condition)

    def delete(self, days: Sequence[int]) -> None:
        self.spark(f"DELETE FROM {EVENTS} WHERE id % {2 + len(days)} = {days[0] % 2}")

    def update(self, days: Sequence[int]) -> None:
        self.spark(f"UPDATE {EVENTS} SET amount = amount + 1 WHERE id % {1 + len(days)} = 0")

    def move_in_time(self, days: Sequence[int]) -> None:
        at = self.variant.literal(FIRST_DAY + dt.timedelta(days=days[-1] % DAYS))
        self.spark(f"UPDATE {EVENTS} SET t = {at} WHERE id % 4 = {days[0] % 4}")

    def lose_the_time(self, days: Sequence[int]) -> None:
        self.spark(f"UPDATE {EVENTS} SET t = NULL WHERE id % 5 = {days[0] % 5}")

    def append_without_time(self, days: Sequence[int]) -> None:
        listed = ", ".join(f"({i}, NULL, {c}, {a})" for i, _, c, a in self.events(days))
        self.spark(f"INSERT INTO {EVENTS} (id, t, city, amount) VALUES {listed}")

    def merge(self, days: Sequence[int]) -> None:
        (new,) = self.events(days[:1])
        self.spark(
            f"MERGE INTO {EVENTS} t USING (SELECT id, id + 1 AS amount FROM range({new[0] // 2}, {new[0] + 1})) s"
            " ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount"
            f" WHEN NOT MATCHED THEN INSERT (id, t, city, amount) VALUES (s.id, {self.variant.literal(new[1])}, 0, 1)"
        )

    def rewrite_as_it_is(self, days: Sequence[int]) -> None:
        self.spark(f"INSERT OVERWRITE {EVENTS} SELECT * FROM {EVENTS} ORDER BY id DESC")

    def compact(self, days: Sequence[int] = ()) -> None:
        call = "CALL main.system.rewrite_data_files(table => '{}', options => map('rewrite-all', 'true'))"
        self.spark(*(call.format(table) for table in self.lake.at() if not self.lake.at().is_view(table)))

    def add_a_column(self, days: Sequence[int]) -> None:
        self.columns += 1
        self.spark(f"ALTER TABLE {EVENTS} ADD COLUMN note{self.columns} string")

    def roll_back(self, days: Sequence[int]) -> None:
        snapshots = [each.id for each in self.lake.at().metadata(EVENTS).snapshots]
        if snapshots:
            target = snapshots[days[0] % len(snapshots)]
            self.lake.pyiceberg().load_table(EVENTS).manage_snapshots().set_current_snapshot(target).commit()

    def change_the_cities(self, days: Sequence[int]) -> None:
        self.spark(f"INSERT OVERWRITE {CITIES} VALUES (1, 'Lima'), (0, '{('Ghent', 'Gent')[days[0] % 2]}')")

    # What is in the tables, and what should be.

    def built(self, table: str) -> Spans:
        state = State.from_json(self.lake.at().metadata(table).properties[PROPERTY])
        assert state
        return state.built

    def rows(self, table: str) -> Rows:
        if table not in self.lake.at():
            return Counter()
        found = self.lake.at().table(table).arrow().to_pylist()
        return Counter(tuple(map(_plain, row.values())) for row in found)

    def events_there(self) -> Rows:
        """Without the columns that were added on the way, which no model reads."""
        found: Rows = Counter()
        for row, count in self.rows(EVENTS).items():
            found[row[:4]] += count
        return found

    def put_aside(self) -> Rows:
        found = self.lake.at().table(f"{SILVER}__quarantine").arrow().select(["id", "t", "city", "amount"])
        return Counter(tuple(map(_plain, row.values())) for row in found.to_pylist())

    def without_time(self) -> Rows:
        """What silver makes of them, each once."""
        cities: dict[int, str] = dict(self.rows(CITIES).keys())
        found = ((row, count) for row, count in self.events_there().items() if row[1] is None and row[2] in cities)
        return Counter({(id_, t, cities[city], amount): count for (id_, t, city, amount), count in found})

    def from_scratch(self) -> dict[str, Rows]:
        cities = dict(self.rows(CITIES))
        silver: Rows = Counter()
        monthly: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
        counts: dict[dt.datetime, list[int]] = defaultdict(list)
        for (id_, t, city, amount), count in self.events_there().items():
            for number, name in cities:
                if number == city and t is not None:
                    silver[id_, t, name, amount] += count
                    monthly[Grain.MONTH.floor(t), name].extend([(id_, amount)] * count)
                    counts[self.variant.counts.floor(t)].extend([id_] * count)
        return {
            SILVER: silver,
            MONTHLY: Counter((*key, len(rows), sum(amount for _, amount in rows)) for key, rows in monthly.items()),
            COUNTS: Counter((start, len(ids), max(ids)) for start, ids in counts.items()),
            ROLLING: Counter((row[0], row[1], _amount_until(row[1], silver)) for row in silver.elements()),
        }


def _amount_until(at: dt.datetime, rows: Rows) -> int:
    recent = (row[3] * count for row, count in rows.items() if at - dt.timedelta(days=BACK) <= row[1] <= at)
    return sum(recent)


def _plain(value: Any) -> Any:
    return instant(value) if isinstance(value, dt.date) else value


def by_window(rows: Rows, grain: Grain) -> dict[dt.datetime, Rows]:
    found: dict[dt.datetime, Rows] = defaultdict(Counter)
    for row, count in rows.items():
        if row[1] is not None:
            found[grain.floor(row[1])][row] += count
    return found


def differing(before: Rows, after: Rows, grain: Grain) -> Spans:
    old, new = by_window(before, grain), by_window(after, grain)
    starts = (start for start in old.keys() | new.keys() if old[start] != new[start])
    return Spans.of(Span(start, grain.next(start)) for start in starts)


@contextmanager
def world(variant: Variant) -> Iterator[World]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        Lake.create(Path(folder, "lake")) as lake,
        session(lake, "main") as engine,
    ):
        if variant.large:
            patch.setattr(contents, "LIMIT", 0)
        yield World(variant, lake, Path(folder, "project"), engine)


def windows(plan: Plan, table: str) -> Spans:
    (step,) = (step for step in plan.steps if str(step.model) == table)
    assert step.action in (Action.WINDOWS, Action.SKIP)
    return step.spans


def reasons(finished: Finished) -> dict[str, list[str]]:
    """Of the models that the run has built."""
    models = finished.run.about["models"] if finished.run else {}
    return {name: each["reasons"] for name, each in models.items() if each["state"] == "built"}


Change = Callable[[World, Sequence[int]], None]
CHANGES: Sequence[Change] = (
    World.append,
    World.move_in_time,
    World.append_without_time,
    World.compact,
    World.append_without_spark,
    World.overwrite_a_day,
    World.delete,
    World.update,
    World.lose_the_time,
    World.rewrite_as_it_is,
    World.merge,
    World.change_the_cities,
    World.roll_back,
    World.add_a_column,
)


@dataclass
class Steps:
    """Changes, after which there is a run; before it, perhaps one of some days only."""

    changes: list[tuple[Change, list[int]]] = field(default_factory=list)
    only: Spans | None = None


@st.composite
def sequences(draw: st.DrawFn, changes: Sequence[Change] = CHANGES) -> list[Steps]:
    """These changes in any order, and after some of them a run; before one of the runs, `--from` and `--to`."""
    in_order = draw(st.permutations(changes))
    days = st.lists(st.integers(0, DAYS - 1), min_size=1, max_size=3)
    steps = [Steps()]
    for change in in_order:
        steps[-1].changes.append((change, draw(days)))
        if draw(st.integers(0, 2)) == 2 or len(steps[-1].changes) == 3:
            steps.append(Steps())
    steps = [step for step in steps if step.changes]
    first, last = sorted(draw(st.tuples(st.integers(0, DAYS - 1), st.integers(0, DAYS - 1))))
    start = FIRST_DAY.replace(tzinfo=dt.UTC)
    draw(st.sampled_from(steps)).only = Spans(
        (Span(start + dt.timedelta(days=first), start + dt.timedelta(days=last + 1)),)
    )
    return steps


def check_range(there: World, only: Spans, due: Spans) -> None:
    """Whatever was due and is not built stays due, and nothing else."""
    there.run(only)
    assert windows(there.plan(), SILVER) == due - only
    first, last = there.from_scratch()[SILVER], there.rows(SILVER)
    grain = there.variant.grain
    assert not differing(first, last, grain) & only


def check(variant: Variant, steps: list[Steps]) -> None:
    with world(variant) as there:
        there.append([0, 2, 5, 2, 0])
        there.run()
        assert {table: there.rows(table) for table in (SILVER, MONTHLY, COUNTS, ROLLING)} == there.from_scratch()
        for step in steps:
            events, cities = there.events_there(), there.rows(CITIES)
            silver: Rows | None = there.rows(SILVER)
            for change, days in step.changes:
                change(there, days)
            plan = there.plan()
            due = windows(plan, SILVER)
            late = differing(events, there.events_there(), variant.grain)
            kinds = {change for change, _ in step.changes}
            assert late - due == Spans()
            if kinds == {World.compact}:
                assert not plan.building
            if not variant.large and there.rows(CITIES) == cities and World.add_a_column not in kinds:
                # Upstream may have grown away from what was built: then the windows in between are made, too.
                assert (due - late) & there.built(SILVER) == Spans()
            if step.only:
                check_range(there, step.only, due)
                silver = None
            finished = there.run()
            scratch = there.from_scratch()
            for table, rows in scratch.items():
                assert there.rows(table) == rows, table
            assert there.put_aside() == there.without_time()
            downstream = reasons(finished).keys() & {MONTHLY, COUNTS}
            if silver is None:
                pass  # they may have been built in the first of the two runs
            elif scratch[SILVER] != silver:
                assert downstream == {MONTHLY, COUNTS}
            elif not variant.large:
                assert not downstream
            assert there.run().run is None


def examples(number: int, *phases: Phase) -> settings:
    slow = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(max_examples=number, suppress_health_check=slow, phases=phases)


@pytest.mark.parametrize("number", range(len(QUICK)), ids=QUICK)
@examples(1, Phase.explicit, Phase.reuse, Phase.generate)
@given(data=st.data())
def test_incremental_equals_from_scratch(warm_jvm: None, number: int, data: st.DataObject) -> None:
    """Each kind of change once, at one of the variants; all at each for long."""
    check(VARIANTS[QUICK[number]], data.draw(sequences(CHANGES[number :: len(QUICK)])))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@examples(20, *Phase)
@given(steps=sequences())
def test_incremental_equals_from_scratch_for_long(warm_jvm: None, variant: Variant, steps: list[Steps]) -> None:
    check(variant, steps)


def test_no_more_is_rebuilt_than_has_changed(warm_jvm: None) -> None:
    with world(replace(VARIANTS["timestamps by day, position deletes"], large=False)) as there:
        there.append([0, 2, 5, 2, 0])
        there.run()
        assert there.run().run is None

        there.compact()
        assert not there.plan().building
        assert there.run().run is None

        there.append([2])
        assert reasons(there.run()) == {
            SILVER: ["1 day: 2024-01-31: late rows in bronze.events"],
            MONTHLY: ["1 month: 2024-01: late rows in silver.events"],
            COUNTS: ["1 hour: 2024-01-31T18: late rows in silver.events"],
            ROLLING: ["3 days: 2024-01-31, 2024-02-01, 2024-02-02: late rows in silver.events"],
        }
        there.compact()
        assert not there.plan().building

        there.spark(f"DELETE FROM {EVENTS} WHERE id = 4")
        assert reasons(there.run()) == {
            SILVER: ["1 day: 2024-01-31: rows deleted in bronze.events"],
            MONTHLY: ["1 month: 2024-01: rows deleted in silver.events"],
            COUNTS: ["1 hour: 2024-01-31T04: rows deleted in silver.events"],
            ROLLING: ["3 days: 2024-01-31, 2024-02-01, 2024-02-02: rows deleted in silver.events"],
        }
        # Of a city that silver does not take: its day is built, and has the rows that it had.
        there.spark(f"INSERT INTO {EVENTS} VALUES (99, timestamp'2024-02-01 05:00:00', 2, 1)")
        assert reasons(there.run()).keys() == {SILVER}

        there.rewrite_as_it_is([])
        there.change_the_cities([0])
        assert not there.plan().building
        assert there.rows(SILVER) == there.from_scratch()[SILVER]


def test_a_seed_that_is_written_anew_changes_what_its_rows_change(shop: MakeShop) -> None:
    orders = ["1,2024-02-01,10", "2,2024-02-01,5", "3,2024-02-02,7", "4,2024-02-20,1"]
    it = shop(
        {
            "seeds/raw/orders.csv": "\n".join(["id,day,amount", *orders]) + "\n",
            "models/silver/orders.sql": "SELECT id, day, amount FROM raw.orders",
            "models/gold/total.sql": "SELECT sum(amount) AS amount FROM silver.orders",
            "models/gold/daily.sql": """
                -- kind: incremental
                -- time_column: day
                -- grain: day
                SELECT day, sum(amount) AS amount FROM raw.orders WHERE day >= :start AND day < :end GROUP BY day
            """,
        }
    )
    it.run()
    it.write({"seeds/raw/orders.csv": "\n".join(["id,day,amount", *orders[::-1]]) + "\n"})
    assert it.built() == {"raw.orders"}
    assert it.plan() == {}
    it.replace("seeds/raw/orders.csv", "3,2024-02-02,7", "3,2024-02-02,8")
    built = {event["model"]: event["reasons"] for event in it.run() if event["event"] == "built"}
    assert built == {
        "raw.orders": ["its file changed"],
        "silver.orders": ["rows replaced in raw.orders"],
        "gold.total": ["rows replaced in silver.orders"],
        "gold.daily": ["1 day: 2024-02-02: rows replaced in raw.orders"],
    }
    assert it.rows("gold.total") == [(24,)]
    assert [row[1] for row in it.rows("gold.daily")] == [15, 8, 1]
