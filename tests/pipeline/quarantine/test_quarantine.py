"""Bad rows put aside: whatever kind a model is of, its rows are in its table or in its quarantine, each once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from mere.audits.rules import TIME
from mere.lake import faults
from mere.lake.iceberg.properties import SAMPLE
from mere.names import TableName
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import LANDING, Shop

DAY = timedelta(days=1)
FIRST = datetime(2024, 2, 1, 6, tzinfo=UTC)

AUDITS = """
    -- audits:
    --   - not_null: city_id
    --     quarantine: true
    --   - accepted_values: {column: city_id, values: [1, 2, 3, 7]}
    --     quarantine: true
    --   - relationships: {column: city_id, to: raw.cities}
    --     quarantine: true
    --     name: known city
    --   - assert: amount >= 0 AND amount < 1000
    --     where: id % 2 = 0
    --     quarantine: true
    --   - unique: id
"""
QUERY = "    SELECT id, city_id, at, amount FROM landing.events\n"
WINDOWS = """
    -- kind: incremental
    -- time_column: seen
    -- inputs: {landing.events: {time: at}, raw.cities: {on_change: rebuild}}"""
WINDOWS_QUERY = """
    SELECT id, city_id, IF(amount = 13, NULL, at) AS seen, amount FROM landing.events
    WHERE at >= :start AND at < :end
"""
EVERY_KIND = {
    "seeds/raw/cities.csv": "city_id\n1\n2\n3\n",
    "models/silver/whole.sql": AUDITS + QUERY,
    "models/silver/windows.sql": WINDOWS + AUDITS + WINDOWS_QUERY,
    "models/silver/log.sql": "\n    -- kind: append" + AUDITS + QUERY.replace("events", "log"),
    "models/silver/latest.sql": "\n    -- kind: merge\n    -- key: id" + AUDITS + QUERY,
    "models/gold/problems.sql": "SELECT id, size(_rules) AS rules FROM silver.whole__quarantine",
}


class Event(NamedTuple):
    id: int
    city: int | None
    at: datetime
    amount: int | None


def poison(first_id: int, *days: int) -> list[Event]:
    """Every value that breaks a rule, alone and together with others, and those next to it that do not."""
    values = product((5, -1, None, 1000, 13), (1, 7, 8, None))
    return [
        Event(first_id + at, city, FIRST + days[at % len(days)] * DAY, amount)
        for at, (amount, city) in enumerate(values)
    ]


def land(it: Shop, events: Iterable[Event], *tables: str) -> None:
    rows = [{"id": each.id, "city_id": each.city, "at": each.at, "amount": each.amount} for each in events]
    for table in tables or ("landing.events", "landing.log"):
        it.lake.pyiceberg().load_table(table).append(pa.Table.from_pylist(rows, schema=LANDING))


@dataclass
class Rules:
    """By hand: what NULL means for each rule, the documentation says."""

    cities: set[int]
    accepted: set[int]

    def broken(self, event: Event, timed: bool) -> list[str]:
        rules = {
            "not_null(city_id)": event.city is None,
            f"accepted_values(city_id: {', '.join(map(str, self.accepted))})": event.city not in {None, *self.accepted},
            "known city": event.city not in {None, *self.cities},
            "assert(amount >= 0 AND amount < 1000)": event.id % 2 == 0 and event.amount in (-1, 1000),
            TIME: timed and event.amount == 13,
        }
        return [rule for rule, is_broken in rules.items() if is_broken]

    def split(self, events: Iterable[Event], timed: bool = False) -> tuple[list[Any], list[Any]]:
        """What belongs in the table and what in its quarantine, as `held` reads them."""
        good: list[Any] = []
        bad: list[Any] = []
        for each in events:
            row = (each.id, each.city, None if timed and each.amount == 13 else each.at, each.amount)
            rules = self.broken(each, timed)
            (bad if rules else good).append((*row, rules) if rules else row)
        return sorted(good, key=repr), sorted(bad, key=repr)


def held(it: Shop, table: str, at: str = "main") -> tuple[list[Any], list[Any]]:
    time = "seen" if table == "silver.windows" else '"at"'
    columns = f"id, city_id, {time}, amount"
    return (
        it.rows(f"select {columns} from {table}", at),
        it.rows(f"select {columns}, _rules from {table}__quarantine", at),
    )


def counts(it: Shop, table: str) -> tuple[int, int]:
    """Of the last run: all rows of what was built, and the bad ones."""
    found = it.runs()[0]["models"][table]["quarantine"]
    return found["rows"], found["bad"]


def agree(it: Shop, events: list[Event], rules: Rules, *tables: str) -> None:
    for table in tables:
        assert held(it, table) == rules.split(events, timed=table == "silver.windows"), table


def test_every_row_is_in_the_table_or_in_its_quarantine_and_in_one_of_them_once(shop: MakeShop) -> None:
    it, rules = shop(EVERY_KIND), Rules({1, 2, 3}, {1, 2, 3, 7})
    it.lake.pyiceberg().create_table("landing.log", LANDING)
    rebuilt = ("silver.whole", "silver.windows", "silver.latest")
    events = poison(1, 0, 1, 2)
    land(it, events)
    it("run")
    agree(it, events, rules, *rebuilt, "silver.log")
    for table in ("silver.whole", "silver.log", "silver.latest"):
        assert counts(it, table) == (20, len(rules.split(events)[1]))
    assert counts(it, "silver.windows") == (20, len(rules.split(events, timed=True)[1]))
    it("audit")  # asked by DuckDB, the rules find no bad row that went through
    assert it.plan() == {}

    # Rows come late, and for a day that was not there; one goes. Of those without a time it is known only in which
    # batch they came, and now some windows of that batch are built without the others.
    late = poison(101, 0, 3)
    log = [*events, *late]
    gone = next(each for each in events if each.amount == 13 and each.at == FIRST + DAY)
    events = [each for each in log if each != gone]
    land(it, late)
    it.delete("landing.events", f"id = {gone.id}")
    it("run")
    agree(it, events, rules, *rebuilt)
    agree(it, log, rules, "silver.log")
    days = [each for each in events if each.at != FIRST + 2 * DAY]
    assert counts(it, "silver.windows") == (len(days), len(rules.split(days, timed=True)[1]))
    assert counts(it, "silver.log") == counts(it, "silver.latest") == (20, len(rules.split(late)[1]))
    assert dict(it.rows("gold.problems")) == {row[0]: len(row[4]) for row in held(it, "silver.whole")[1]}

    # What the rows point to changes: what was bad is good now. An append model does not look back.
    it.write({"seeds/raw/cities.csv": "city_id\n1\n2\n3\n7\n"})
    it("run")
    agree(it, log, rules, "silver.log")
    rules.cities.add(7)
    agree(it, events, rules, *rebuilt)

    # A rule changes, which is no reason to build.
    for table in (*rebuilt, "silver.log"):
        it.replace(f"models/{table.replace('.', '/')}.sql", "[1, 2, 3, 7]", "[1, 2, 3, 7, 8]")
    rules.accepted.add(8)
    assert it.plan() == {}
    it("quarantine", "retry")
    agree(it, events, rules, *rebuilt)
    agree(it, log, rules, "silver.log")
    actions = {name: about["action"] for name, about in it.runs()[0]["models"].items()}
    assert actions == dict(zip((*rebuilt, "silver.log"), ("build", "windows", "keys", "rows"), strict=True))
    first = it.runs()[-1]["id"]
    assert first in {row[0] for row in it.rows("select _run from silver.log__quarantine")}
    it("audit")
    assert set(it.plan()) == {"gold.problems"}


WINDOWED = "\n    -- kind: incremental\n    -- time_column: at\n    -- batch: 1"
NEGATIVE = """
    -- audits:
    --   - assert: amount >= 0
    --     quarantine: true"""
IN_WINDOWS = " WHERE at >= :start AND at < :end"
PAIR = {
    "models/silver/windows.sql": WINDOWED + NEGATIVE + "\n" + QUERY.rstrip() + IN_WINDOWS,
    "models/silver/log.sql": "\n    -- kind: append" + NEGATIVE + "\n" + QUERY,
}


class Stage:
    """A project that is up to date, to which good and bad rows come before each crash."""

    def __init__(self, it: Shop) -> None:
        self.it = it
        self.events: list[Event] = []

    def land(self) -> None:
        at = len(self.events)
        new = [Event(at + n, 1, FIRST + day * DAY, n % 2 - 1) for n, day in enumerate((0, 0, 1, 1, 2, 2))]
        land(self.it, new, "landing.events")
        self.events += new

    @property
    def expected(self) -> list[tuple[Any, ...]]:
        rows = [(each.id, each.amount, ["assert(amount >= 0)"] if each.amount == -1 else None) for each in self.events]
        return sorted(rows, key=repr)

    def standing(self, table: str) -> list[tuple[Any, ...]]:
        good = self.it.rows(f"select id, amount, null from {table}")
        return sorted([*good, *self.it.rows(f"select id, amount, _rules from {table}__quarantine")], key=repr)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Stage]:
    made = Stage(Shop(tmp_path_factory.mktemp("quarantine") / "shop", PAIR))
    made.land()
    made.it("run")
    yield made
    made.it.lake.close()


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


CRASHES = [("quarantine.written", 2, "again"), ("run.batch", 2, "resume")]
ALL_CRASHES = product(("quarantine.written", "run.batch", "run.written", "run.signed"), (1, 2), ("resume", "again"))


@pytest.mark.parametrize(
    ("point", "nth", "way"), [*CRASHES, *(pytest.param(*each, marks=pytest.mark.long) for each in ALL_CRASHES)]
)
def test_a_crash_between_the_two_tables_loses_and_doubles_nothing(point: str, nth: int, way: str, stage: Stage) -> None:
    it = stage.it
    stage.land()
    before = it.pointers()
    passed = iter(range(1, 100))

    def fail(name: str) -> None:
        if name == point and next(passed) == nth:
            assert TableName("silver", "windows__quarantine") in {lease.table for lease in it.lake.store.leases()}
            raise Crash

    faults.hook = fail
    with pytest.raises(Crash):
        it("run", "--threads", "1")
    faults.hook = None
    assert it.pointers() == before
    crashed = it.runs()[0]["id"]
    it("run", *(("--resume", crashed) if way == "resume" else ()))
    for table in ("silver.windows", "silver.log"):
        assert stage.standing(table) == stage.expected
    if way == "again":
        it.lake.delete(f"run_{crashed}")
    if point != "run.signed" or way == "again":
        # What was counted before the crash counts, for the limit is one of the whole build.
        assert counts(it, "silver.windows") == (len(stage.events), len(stage.events) // 2)
    assert it.plan() == {}


@pytest.mark.parametrize("moved", ["silver.log", "silver.log__quarantine"])
def test_a_table_and_its_quarantine_are_published_together_or_built_again(moved: str, stage: Stage) -> None:
    it = stage.it
    stage.land()
    times = iter(range(1, 100))

    def move_main(point: str) -> None:
        if point == "run.publishing" and next(times) == 1:
            it.lake.set_properties({moved: {"note": "mine"}})

    faults.hook = move_main
    events = it.run("silver.log")
    faults.hook = None
    assert [event["tables"] for event in events if event["event"] == "rebase"] == [[moved]]
    assert stage.standing("silver.log") == stage.expected
    assert {str(change.key) for change in it.published()[0].changes} == {"silver.log", "silver.log__quarantine"}
    it("run")


LIMITED = """
    -- contract: {id: bigint, amount: {type: bigint, nullable: false}}
    -- audits:
    --   - not_null: amount
    --     quarantine: true
    --   - assert: amount >= 0
    --     quarantine: true
    --     max_bad: {share: 10%, floor: 0}
    SELECT id, amount FROM landing.events
"""


def test_too_many_bad_rows_fail_the_run_and_can_be_looked_at(shop: MakeShop) -> None:
    it = shop({"models/silver/events.sql": LIMITED})
    fine = [Event(id_, 1, FIRST, 5) for id_ in range(18)]
    land(it, [*fine, Event(18, 1, FIRST, -1), Event(19, 1, FIRST, None)], "landing.events")
    it("run")
    assert it.rows("select id from silver.events__quarantine") == [(18,), (19,)]
    land(it, [Event(20, 1, FIRST, -2), Event(21, 1, FIRST, -3)], "landing.events")
    before = it.pointers()
    done = it("run", exit_code=1)
    assert it.pointers() == before
    run = it.runs()[0]
    branch = run["branch"]
    assert "silver.events failed: assert(amount >= 0): 3 of 22 rows in quarantine" in done.stderr
    assert "more than `max_bad` allows: 10% (models/silver/events.sql:5)" in done.stderr
    assert f'all of them: mere sql --at {branch} \'SELECT * FROM "silver"."events__quarantine"' in done.stdout
    _, judged = run["models"]["silver.events"]["audits"]
    assert (judged["state"], judged["bad"], len(judged["sample"])) == ("failed", 3, 3)
    assert len(it.rows(judged["query"].replace("`", '"'), branch)) == 3
    it.delete("landing.events", "id = 20")
    it("run", "--resume", run["id"])
    assert it.rows("select id from silver.events__quarantine") == [(18,), (19,), (21,)]
    assert len(it.rows("silver.events")) == 18
    shown = [line.split() for line in it("runs", "show", run["id"]).output.splitlines()]
    header = next(line for line in shown if line[:1] == ["model"])
    row = [line for line in shown if line[:1] == ["silver.events"]][-1]
    assert header[3:6] == ["read", "written", "quarantined"]
    assert row[3:6] == ["21", "18", "3"]


def test_a_quarantine_follows_the_columns_of_its_table_and_is_left_behind_with_its_last_rule(shop: MakeShop) -> None:
    log = "models/silver/log.sql"
    it = shop({log: PAIR[log]})
    land(it, [Event(1, 1, FIRST, -1)], "landing.events")
    it("run")
    land(it, [Event(2, 2, FIRST, -2), Event(3, 3, FIRST, 3)], "landing.events")
    it.replace(log, "SELECT id, city_id", "SELECT id, CAST(city_id AS string) AS city")
    it.replace(log, ", amount FROM", ", CAST(amount AS decimal(20, 1)) AS amount FROM")
    said = it("run", "--forward-only", "silver.log", exit_code=1).stderr
    assert "city_id" in said
    it.replace(log, "CAST(amount AS decimal(20, 1)) AS amount", "amount")
    it("run", "--forward-only", "--allow-breaking", "silver.log")
    assert [column for column in _columns(it, "silver.log__quarantine") if not column.startswith("_")] == [
        "id",
        "city_id",
        "at",
        "amount",
        "city",
    ]
    assert it.rows("select id, city_id, city from silver.log__quarantine") == [(1, 1, None), (2, None, "2")]

    # A rule that is mended lets them in; without any, the table is left behind.
    it.replace(log, "amount >= 0", "amount > -2")
    it("quarantine", "retry")
    assert it.rows("select id, city from silver.log") == [(1, None), (3, "3")]
    listed = json.loads(it("quarantine", "--json").stdout)
    assert [(each["table"], each["rows"], len(each["held"])) for each in listed] == [("silver.log", 1, 1)]
    assert "1 row of 1 table in quarantine on main" in it("quarantine", "list", "silver.log__quarantine").output
    it.replace(log, "quarantine: true", "severity: warn")
    assert "silver.log__quarantine is on main, but no rule of silver.log quarantines." in it("plan").output
    it("drop", "silver.log__quarantine")
    assert "no rows in quarantine" in it("quarantine").output
    assert "no rows in quarantine" in it("quarantine", "retry").output

    # Somebody else's table of that name is not touched.
    it.replace(log, "severity: warn", "quarantine: true")
    it.lake.pyiceberg().create_table("silver.log__quarantine", LANDING)
    land(it, [Event(4, 4, FIRST, -4)], "landing.events")
    assert "silver.log__quarantine already exists, and mere did not make it" in it("run", exit_code=1).stderr


def _columns(it: Shop, table: str) -> list[str]:
    with it.lake.sql(f"select * from {table} limit 0") as result:
        return [column.name for column in result.columns]


def test_mistakes_and_samples(shop: MakeShop) -> None:
    windows = "models/silver/windows.sql"
    it = shop({windows: PAIR[windows]})
    land(it, [Event(day, 1, FIRST + day * DAY, day - 1) for day in range(3)], "landing.events")
    it("branch", "create", "dev")
    it("run", "--on", "dev", "--limit-windows", "2")
    assert (len(it.rows("silver.windows", "dev")), len(it.rows("silver.windows__quarantine", "dev"))) == (2, 0)
    assert it.state("silver.windows__quarantine", "dev").sample
    assert it.lake.at("dev").metadata("silver.windows__quarantine").properties[SAMPLE] == "true"
    it.replace(windows, "assert: amount >= 0", "assert: amont >= 0")
    assert "assert(amont >= 0): there is no column `amont`. Did you mean amount?" in it("run", exit_code=1).stderr
    _, said = it.failed_run("--no-check")  # Spark sees it, too
    assert "models/silver/windows.sql:5: assert(amont >= 0) cannot be checked on the rows" in said
    it.replace(windows, "assert: amont >= 0", "assert: amount >= 0")
    it.replace(windows, "city_id, at,", "city_id AS _run, at,")
    assert "has a column _run, a name that its quarantine uses" in it.failed_run()[1]
    it.replace(windows, "city_id AS _run, at,", "at + INTERVAL 1 DAY AS at,")
    it.replace(windows, "-- batch: 1", "-- inputs: {landing.events: {time: at}}")
    assert "returned rows outside of the windows" in it.failed_run()[1]
