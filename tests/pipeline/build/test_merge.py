"""A merge model equals a build from scratch on a real lake: upstream is changed at random by Spark and PyIceberg; after
every run each table holds what a computation over all of upstream's rows gives, and only what differs was written."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mere.engine.session import Session, session
from mere.lake import faults
from mere.lake.diff import changed_rows
from mere.lake.lake import Lake
from mere.pipeline.plan.steps import Action
from mere.pipeline.run.request import Finished, Project, Request
from mere.pipeline.run.run import run
from mere.project.load import load
from mere.sparkconfig import SparkSettings
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, Row

ITEMS, NAMES = "up.items", "up.names"
LATEST, GROUPS, NAMED, DOUBLED = "gold.latest", "gold.groups", "gold.named", "gold.doubled"

FILES = {
    # Each row by itself: new rows compete with what stands there.
    "models/gold/latest.sql": f"""
        -- kind: merge
        -- key: id
        -- latest_by: version
        SELECT id, grp, version, n FROM {ITEMS} WHERE n >= 0
    """,
    # A key of many rows of another merge model, through a view.
    "models/gold/groups.sql": """
        -- kind: merge
        -- key: grp
        SELECT upper(kind) AS grp, count(*) AS items, sum(n) AS n FROM staging.items GROUP BY upper(kind)
    """,
    "models/staging/items.sql": f"""
        -- kind: view
        SELECT id, grp AS kind, n FROM {LATEST}
    """,
    # Two inputs, each with its own column for the key; of one that may have none.
    "models/gold/named.sql": f"""
        -- kind: merge
        -- key: id
        SELECT l.id, l.n, m.name FROM {LATEST} AS l LEFT JOIN {NAMES} AS m ON m.item = l.id
    """,
    "models/gold/doubled.py": f"""
        from pyspark.sql import DataFrame

        from mere import changes, model

        @model("{DOUBLED}", kind="merge", key="id")
        def doubled(items: DataFrame = changes("{LATEST}")) -> DataFrame:
            return items.selectExpr("id", "2 * n AS n", "_change")
    """,
}
MERGE_ON_READ = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update", "merge"))

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Variant:
    properties: str = "'format-version'='2'"
    large: bool = False  # as if there were too much for DuckDB to compare


VARIANTS = {
    "rewritten, compared by DuckDB": Variant(),
    "position deletes, compared by Spark": Variant(f"'format-version'='2', {MERGE_ON_READ}", large=True),
}


@dataclass
class World:
    """A lake with upstream's tables, and a project of merge models that builds on them."""

    variant: Variant
    lake: Lake
    folder: Path
    engine: Session
    ids: int = 0
    columns: int = 0
    project: Project = field(init=False)

    def __post_init__(self) -> None:
        for name, text in FILES.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).lstrip())
        self.project = Project(self.lake, load(self.folder), self.folder, SparkSettings())
        self.spark(
            "CREATE NAMESPACE up",
            f"CREATE TABLE {ITEMS} (id bigint, grp string, version int, n bigint) USING iceberg"
            f" TBLPROPERTIES ({self.variant.properties})",
            f"CREATE TABLE {NAMES} (item bigint, name string) USING iceberg TBLPROPERTIES ({self.variant.properties})",
            f"INSERT INTO {NAMES} VALUES (1, 'one'), (3, 'three')",
        )

    def spark(self, *statements: str) -> None:
        for statement in statements:
            self.engine.spark.sql(statement)

    def run(self) -> Finished:
        return run(self.project, Request(), lambda _: None)

    # What can happen upstream.

    def append(self, numbers: Sequence[int]) -> None:
        """New items, and other versions of old ones: later, earlier, the same, and some without a version."""
        listed = []
        for number in numbers:
            self.ids += 1
            version = "NULL" if number == 0 else str(number * 7 % 5)
            listed.append(f"({self.ids % 7}, '{'abA'[number % 3]}', {version}, {self.ids % 4 - 1 + number})")
        self.spark(f"INSERT INTO {ITEMS} (id, grp, version, n) VALUES {', '.join(listed)}")

    def update(self, numbers: Sequence[int]) -> None:
        self.spark(f"UPDATE {ITEMS} SET n = n + 1 WHERE id % {1 + len(numbers)} = 0")

    def move(self, numbers: Sequence[int]) -> None:
        """To another group."""
        self.spark(f"UPDATE {ITEMS} SET grp = 'b' WHERE id % 3 = {numbers[0] % 3}")

    def delete(self, numbers: Sequence[int]) -> None:
        self.spark(f"DELETE FROM {ITEMS} WHERE id = {numbers[0]} OR version = {numbers[-1]}")

    def overwrite(self, numbers: Sequence[int]) -> None:
        self.spark(f"INSERT OVERWRITE {ITEMS} SELECT * FROM {ITEMS} WHERE id <> {numbers[0]}")

    def rewrite_as_it_is(self, numbers: Sequence[int]) -> None:
        self.spark(f"INSERT OVERWRITE {ITEMS} SELECT * FROM {ITEMS} ORDER BY n DESC")

    def compact(self, numbers: Sequence[int]) -> None:
        call = "CALL main.system.rewrite_data_files(table => '{}', options => map('rewrite-all', 'true'))"
        self.spark(*(call.format(table) for table in self.lake.at() if not self.lake.at().is_view(table)))

    def add_a_column(self, numbers: Sequence[int]) -> None:
        self.columns += 1
        self.spark(f"ALTER TABLE {ITEMS} ADD COLUMN note{self.columns} string")

    def roll_back(self, numbers: Sequence[int]) -> None:
        snapshots = [each.id for each in self.lake.at().metadata(ITEMS).snapshots]
        target = snapshots[numbers[0] % len(snapshots)]
        self.lake.pyiceberg().load_table(ITEMS).manage_snapshots().set_current_snapshot(target).commit()

    def rename(self, numbers: Sequence[int]) -> None:
        self.spark(
            f"MERGE INTO {NAMES} AS t USING (SELECT {numbers[0]} AS item, 'n{numbers[-1]}' AS name) AS s"
            " ON t.item = s.item WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            f"DELETE FROM {NAMES} WHERE item = {numbers[-1] + 1}",
        )

    # What is in the tables, and what should be.

    def rows(self, table: str) -> Rows:
        found = self.lake.at().table(table).arrow().to_pylist()
        return Counter(tuple(row.values()) for row in found)

    def everything(self) -> dict[str, Rows]:
        return {table: self.rows(table) for table in (LATEST, GROUPS, NAMED, DOUBLED)}

    def from_scratch(self) -> dict[str, Rows]:
        newest: dict[int, tuple[Any, ...]] = {}
        for id_, grp, version, n, *_ in self.rows(ITEMS):
            if n >= 0:
                row = (id_, grp, version, n)
                newest[id_] = max(newest.get(id_, row), row, key=_order)
        names: dict[int, str] = dict(self.rows(NAMES).keys())
        groups: dict[str, list[int]] = defaultdict(list)
        for _, grp, _, n in newest.values():
            groups[grp.upper()].append(n)
        return {
            LATEST: Counter(newest.values()),
            GROUPS: Counter((grp, len(each), sum(each)) for grp, each in groups.items()),
            NAMED: Counter((id_, row[3], names.get(id_)) for id_, row in newest.items()),
            DOUBLED: Counter((id_, 2 * row[3]) for id_, row in newest.items()),
        }


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    _, grp, version, n = row
    return (-1 if version is None else version, grp, n)


@contextmanager
def world(variant: Variant) -> Iterator[World]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        Lake.create(Path(folder, "lake")) as lake,
        session(lake, "main") as engine,
    ):
        if variant.large:
            patch.setattr(changed_rows, "LIMIT", 0)
        yield World(variant, lake, Path(folder, "project"), engine)


Change = Callable[[World, Sequence[int]], None]
CHANGES: Sequence[Change] = (
    World.append,
    World.append,
    World.update,
    World.rename,
    World.move,
    World.compact,
    World.delete,
    World.append,
    World.overwrite,
    World.rewrite_as_it_is,
    World.roll_back,
    World.add_a_column,
)
Steps = list[list[tuple[Change, list[int]]]]


@st.composite
def sequences(draw: st.DrawFn) -> Steps:
    """All kinds of changes in any order, and after some of them a run."""
    numbers = st.lists(st.integers(0, 6), min_size=1, max_size=4)
    steps: Steps = [[]]
    for change in draw(st.permutations(CHANGES)):
        steps[-1].append((change, draw(numbers)))
        if draw(st.integers(0, 2)) == 2 or len(steps[-1]) == 3:
            steps.append([])
    return [step for step in steps if step]


def check(variant: Variant, steps: Steps) -> None:
    with world(variant) as there:
        there.append([1, 2, 3, 0, 5, 6, 1, 2])
        there.run()
        assert there.everything() == there.from_scratch()
        for step in steps:
            before = there.everything()
            for change, numbers in step:
                change(there, numbers)
            finished = there.run()
            scratch = there.from_scratch()
            assert there.everything() == scratch
            models = finished.run.about["models"] if finished.run else {}
            for table, after in scratch.items():
                about = models.get(table, {})
                if about.get("action") == Action.KEYS:
                    written = about["rows_added"], about["rows_removed"]
                    assert written == ((after - before[table]).total(), (before[table] - after).total()), table
            assert there.run().run is None


# Each kind of change once; of what only compares otherwise, a few.
FEW: dict[str, Steps] = {
    "rewritten, compared by DuckDB": [
        [(World.append, [3, 0, 6, 2]), (World.rename, [2, 5])],
        [(World.update, [1, 2]), (World.move, [4]), (World.compact, [0])],
        [(World.delete, [3, 1]), (World.add_a_column, [0]), (World.append, [6, 1, 1])],
        [(World.overwrite, [2]), (World.rewrite_as_it_is, [0]), (World.roll_back, [3])],
    ],
    "position deletes, compared by Spark": [
        # Keys that go, and one that loses a row and stays as it is.
        [(World.delete, [3, 2]), (World.rename, [1, 5])],
    ],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_merge_equals_a_build_from_scratch(warm_jvm: None, variant: str) -> None:
    check(VARIANTS[variant], FEW[variant])


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
@given(steps=sequences())
def test_a_merge_equals_a_build_from_scratch_for_long(warm_jvm: None, variant: Variant, steps: Steps) -> None:
    check(variant, steps)


# By hand

BY_ID = {
    "models/gold/events.sql": """
        -- kind: merge
        -- key: id
        SELECT id, city_id, amount FROM landing.events
    """
}
LOG = {
    **BY_ID,
    "models/gold/log.py": """
        from pyspark.sql import DataFrame

        from mere import changes, model

        @model("gold.log", kind="append")
        def log(events: DataFrame = changes("gold.events")) -> DataFrame:
            return events.selectExpr("id", "amount", "_change AS what")
    """,
}
LATER: tuple[Row, ...] = ((6, 1, "2024-02-06T00:00", 6), (7, 1, "2024-02-07T00:00", 7))


def events(*rows: Row) -> list[tuple[Any, ...]]:
    return sorted(((id_, city, amount) for id_, city, _, amount in rows), key=repr)


def test_rows_without_a_key_of_their_own_are_refused_and_shown(shop: MakeShop) -> None:
    it = shop(BY_ID)
    it.land(*FIRST, FIRST[0])
    _, said = it.failed_run()
    assert "models/gold/events.sql: several rows of gold.events have the same key, id:" in said
    assert said.count('{"id":1,"city_id":1,"amount":10}') == 2
    assert "`latest_by: updated_at`" in said
    assert "gold.events" not in map(str, it.lake.at())

    it.delete("landing.events", "id == 1")
    it.run()
    it.land((3, 9, "2024-03-01T00:00", 9))
    _, said = it.failed_run()
    assert '{"id":3,"city_id":1,"amount":7}' in said
    assert '{"id":3,"city_id":9,"amount":9}' in said
    assert it.rows("gold.events") == events(*FIRST[1:])

    it.delete("landing.events", "city_id == 9")
    it.replace("models/gold/events.sql", "SELECT id", "SELECT nullif(id, 6) AS id")
    it.run()
    it.land(*LATER)
    _, said = it.failed_run()
    assert "rows of gold.events have NULL in their key, id:" in said
    assert '{"city_id":1,"amount":6}' in said
    assert it.rows("gold.events") == events(*FIRST[1:])


def test_what_changed_is_given_with_its_kind(shop: MakeShop) -> None:
    it = shop(LOG)
    it.land(*FIRST[:3])
    it.run()
    log = [(id_, amount, "insert") for id_, _, _, amount in FIRST[:3]]
    assert it.rows("gold.log") == sorted(log, key=repr)

    it.delete("landing.events", "id <= 2")
    it.land((2, 2, "2024-02-01T23:59", 6), FIRST[3])
    assert it.plan()["gold.log"]["action"] == "rows"
    it.run()
    log += [(1, 10, "delete"), (2, 5, "update_before"), (2, 6, "update_after"), (4, 1, "insert")]
    assert it.rows("gold.log") == sorted(log, key=repr)
    assert it.plan() == {}


def test_a_snapshot_that_is_gone_is_a_reason_to_build_it_whole(shop: MakeShop) -> None:
    it = shop(BY_ID)
    it.land(*FIRST)
    it.run()
    read = it.state("gold.events").inputs["landing.events"].snapshot
    it.delete("landing.events", "id == 2")
    landed = it.lake.pyiceberg().load_table("landing.events")
    assert read is not None
    landed.maintenance.expire_snapshots().by_id(read).commit()
    step = it.plan()["gold.events"]
    assert (step["action"], step["reasons"]) == ("build", [f"snapshot {read} of landing.events is gone"])
    it.run()
    assert it.rows("gold.events") == events(*(row for row in FIRST if row[0] != 2))


def test_an_input_that_is_read_whole_builds_it_whole_or_is_ignored(shop: MakeShop) -> None:
    files = {
        "seeds/raw/cities.csv": "city_id,name\n1,Wien\n2,Rom\n3,Oslo\n",
        "models/gold/events.sql": """
            -- kind: merge
            -- key: id
            -- inputs: {raw.cities: {on_change: ignore}}
            SELECT e.id, c.name FROM landing.events AS e JOIN raw.cities AS c ON c.city_id = e.city_id
        """,
    }
    it = shop(files)
    it.land(*FIRST[:2])
    it.run()
    it.write({"seeds/raw/cities.csv": "city_id,name\n1,Wien\n2,Roma\n3,Oslo\n"})
    it.land(FIRST[4])
    assert it.plan()["gold.events"]["action"] == "keys"
    it.run()
    assert it.rows("gold.events") == [(1, "Wien"), (2, "Rom"), (5, "Roma")]
    it.replace("models/gold/events.sql", "ignore", "rebuild")
    it.write({"seeds/raw/cities.csv": "city_id,name\n1,Vienna\n2,Roma\n3,Oslo\n"})
    it.run()
    assert it.rows("gold.events") == [(1, "Vienna"), (2, "Roma"), (5, "Roma")]


@pytest.mark.parametrize("way", ["wait", "conflict"])
def test_two_runs_at_once_never_double_a_key(shop: MakeShop, way: str) -> None:
    it = shop(BY_ID)
    it.land(*FIRST)
    it.run()
    it.land(*LATER)

    def one(_: int = 0) -> Finished:
        with Lake.open(it.folder / "lake") as lake:
            return run(Project(lake, load(it.folder), it.folder, SparkSettings()), Request(), lambda _: None)

    def overtake(point: str) -> None:
        """While a run whose lease has ended is about to publish, another one does it all."""
        if point == "run.publishing":
            faults.hook = None
            it.end_lease(it.runs()[0]["id"])
            assert one().commit

    if way == "wait":
        with ThreadPoolExecutor() as pool:
            assert sorted(finished.commit is not None for finished in pool.map(one, range(2))) == [False, True]
    else:
        faults.hook = overtake
        assert "has lost its lease on gold.events" in it.failed_run()[1]
    assert it.rows("gold.events") == events(*FIRST, *LATER)
    assert it.plan() == {}


@pytest.mark.parametrize(("point", "way"), [("run.written", "again"), ("run.audited", "resume")])
def test_a_crash_between_the_merge_and_its_state_loses_nothing(shop: MakeShop, point: str, way: str) -> None:
    it = shop(BY_ID)
    it.land(*FIRST)
    it.run()
    it.delete("landing.events", "id == 2")
    it.land(*LATER)

    class Crash(BaseException):
        pass

    def crash(reached: str) -> None:
        if reached == point:
            raise Crash

    faults.hook = crash
    with pytest.raises(Crash):
        it("run")
    faults.hook = None
    assert it.rows("gold.events") == events(*FIRST)
    it("run", *(("--resume", it.runs()[0]["id"]) if way == "resume" else ()))
    assert it.rows("gold.events") == events(*(row for row in (*FIRST, *LATER) if row[0] != 2))
    assert it.plan() == {}
