"""A run that dies at any step: main is whole, and the next run, or the same one resumed, ends as if it had not."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import count

import pytest

from mere.lake import faults
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, WHOLE, Row, Shop, expected

FILES = {name: WHOLE[name] for name in WHOLE if "totals" not in name and "names" not in name}
FILES["models/silver/events.sql"] = FILES["models/silver/events.sql"].replace("-- inputs", "-- batch: 1\n    -- inputs")
TABLES = ("raw.cities", "bronze.events", "silver.events", "gold.daily")

POINTS = [
    "fork.filled",
    "run.forked",
    "run.batch",
    "run.written",
    "run.audited",
    "run.signed",
    "run.publishing",
    "properties.written",
    "publish.prepared",
    "commit.begun",
    "commit.checked",
    "commit.moved",
    "commit.recorded",
    "commit.followed",
    "commit.durable",
]


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


def tables_of(rows: list[Row]) -> dict[str, list[tuple[object, ...]]]:
    return {table: made for table, made in expected(rows).items() if table in TABLES}


class Stage:
    """A project that is up to date, to which rows come late before each crash."""

    def __init__(self, it: Shop) -> None:
        self.it = it
        self.landed: list[Row] = []
        self._ids = count(1)
        self.land()
        self.it("run")

    def land(self) -> None:
        """Rows of three days, so that each incremental model is built in several batches."""
        rows = [(next(self._ids), 1 + day % 3, f"2024-02-0{day}T0{day}:00", day) for day in (1, 3, 5)]
        self.it.land(*rows)
        self.landed += rows

    @cached_property
    def turns(self) -> Counter[str]:
        return Counter(self.points())

    def points(self) -> list[str]:
        """The points that an undisturbed run goes through."""
        self.land()
        reached: list[str] = []
        faults.hook = lambda name: reached.append(name) if is_of_the_run() else None
        self.it("run")
        faults.hook = None
        return reached


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Stage]:
    made = Stage(Shop(tmp_path_factory.mktemp("crash") / "shop", FILES))
    yield made
    made.it.lake.close()


@pytest.fixture(scope="module")
def over_rest(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Stage]:
    """The same, with a Spark that knows no database."""
    made = Stage(by_rest(Shop(tmp_path_factory.mktemp("crash-rest") / "shop", FILES)))
    yield made
    made.it.lake.close()


def by_rest(it: Shop) -> Shop:
    with (it.folder / "mere.yaml").open("a", encoding="utf-8") as file:
        file.write("    spark: {catalog: rest}\n")
    return it


def is_of_the_run() -> bool:
    """Spark's commits over REST are made in threads of the server, which only a kill brings down with the run."""
    return not threading.current_thread().name.startswith("AnyIO")


@pytest.fixture(scope="module")
def reached(stage: Stage) -> list[str]:
    return stage.points()


def crash_at(point: str, nth: int) -> None:
    passed = count(1)

    def fail(name: str) -> None:
        if name == point and is_of_the_run() and next(passed) == nth:
            raise Crash

    faults.hook = fail


def test_the_points_of_failure_are_all_known(reached: list[str]) -> None:
    assert set(reached) == set(POINTS)
    assert reached.count("run.batch") >= 3


# While it builds, while it publishes, and when it has: at the first or the last turn, mended in one of two ways. All
# points in the long run.
STEPS = [("run.batch", -1, "resume"), ("publish.prepared", 0, "resume"), ("commit.durable", 0, "again")]
ALL_STEPS = [(point, turn, way) for point in POINTS for turn in (0, -1) for way in ("again", "resume")]


@pytest.mark.parametrize(("point", "turn", "way"), STEPS)
def test_a_crash_leaves_main_whole_and_loses_nothing(
    point: str, turn: int, way: str, stage: Stage, reached: list[str]
) -> None:
    crash_and_mend(stage, point, 1 if turn == 0 else reached.count(point), way)


@pytest.mark.long
@pytest.mark.parametrize(("point", "turn", "way"), ALL_STEPS)
def test_a_crash_at_any_turn(point: str, turn: int, way: str, stage: Stage, reached: list[str]) -> None:
    crash_and_mend(stage, point, 1 if turn == 0 else reached.count(point), way)


def test_a_crash_over_rest_leaves_main_whole_and_loses_nothing(over_rest: Stage) -> None:
    crash_and_mend(over_rest, "run.batch", 2, "resume")


@pytest.mark.long
@pytest.mark.parametrize(("point", "turn", "way"), ALL_STEPS)
def test_a_crash_at_any_turn_over_rest(point: str, turn: int, way: str, over_rest: Stage) -> None:
    crash_and_mend(over_rest, point, 1 if turn == 0 else over_rest.turns[point], way)


def crash_and_mend(stage: Stage, point: str, nth: int, way: str) -> None:
    it = stage.it
    assert it.plan() == {}, "the crash before was not mended"
    old = it.everything()
    stage.land()
    before = it.pointers()
    new = tables_of(stage.landed)
    crash_at(point, nth)
    with pytest.raises(Crash):
        it("run")
    faults.hook = None
    if it.pointers() == before:
        assert it.everything() == old
    else:
        assert it.everything() == new
    left = [name for name in it.branches() if name.startswith("run_")]
    known = {run["branch"] for run in it.runs()}
    if way == "resume" and set(left) & known:
        it("run", "--resume", left[0].removeprefix("run_"))
        assert it.branches() == ["main"]
    else:
        it("run")
        for branch in left:
            it.lake.delete(branch)
    assert it.everything() == new
    assert it.plan() == {}


@pytest.mark.parametrize(
    ("point", "way"),
    [
        ("commit.moved", "resume"),
        pytest.param("run.batch", "resume", marks=pytest.mark.long),
        pytest.param("run.written", "again", marks=pytest.mark.long),
    ],
)
def test_a_crash_of_the_first_run(point: str, way: str, shop: MakeShop) -> None:
    """Nothing stands there yet: tables are made, and not only changed."""
    it = shop(FILES)
    it.land(*FIRST)
    before = it.pointers()
    crash_at(point, 3)
    with pytest.raises(Crash):
        it("run")
    faults.hook = None
    assert it.pointers() == before
    it("run", *(("--resume", it.runs()[0]["id"]) if way == "resume" else ()))
    assert it.everything() == tables_of(list(FIRST))
    assert it.plan() == {}


def test_a_resumed_build_does_not_do_again_the_batches_that_were_done(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    crash_at("run.batch", 2)
    with pytest.raises(Crash):
        it("run")
    faults.hook = None
    run = it.runs()[0]["id"]
    branch = f"run_{run}"
    assert [str(span.start.date()) for span in it.state("silver.events", branch).done] == ["2024-02-01"]
    events = it.run("--resume", run)
    (silver,) = [event for event in events if event["event"] == "built" and event["model"] == "silver.events"]
    assert silver["rows_added"] == 2
    assert it.everything() == tables_of(list(FIRST))


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param(("--full-refresh",), marks=pytest.mark.long),
        ("--from", "2024-02-02", "--to", "2024-02-04"),
    ],
)
def test_a_resumed_run_does_what_it_was_asked_for_and_no_more(wish: tuple[str, ...], shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    it("run")
    it.land((6, 1, "2024-02-05T05:00", 1))
    for point, left in (("run.signed", {"gold.daily"}), ("run.publishing", set())):
        crash_at(point, 1)
        with pytest.raises(Crash):
            it("run", *wish, "silver.events", "gold.daily")
        faults.hook = None
        assert it.built("--resume", it.runs()[0]["id"]) == left
        assert it.rows("silver.events") == expected(FIRST)["silver.events"]
        assert "bronze.events" in it.plan()


KILLED = """
import os, signal, sys
from mere.cli import main
from mere.lake import faults
turns = iter(range(1, 1000))
faults.hook = lambda name: name == {point!r} and next(turns) == {nth} and os.kill(os.getpid(), signal.SIGKILL)
main(["run"])
"""


@pytest.mark.service
@pytest.mark.parametrize(
    ("point", "nth", "way"),
    [
        ("run.batch", 2, "again"),
        pytest.param("publish.prepared", 1, "resume", marks=pytest.mark.long),
        pytest.param("run.audited", 2, "resume", marks=pytest.mark.long),
        pytest.param("run.signed", 4, "again", marks=pytest.mark.long),
    ],
)
def test_a_killed_run_leaves_main_as_it_was_and_the_next_one_works(
    point: str, nth: int, way: str, shop: MakeShop
) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    before = it.pointers()
    script = KILLED.format(point=point, nth=nth)
    killed = subprocess.run([sys.executable, "-c", script], cwd=it.folder, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert it.pointers() == before
    (run,) = it.runs()
    id_ = run["id"]
    assert run["status"] == "interrupted", "its process is gone: nobody has to wait"
    assert it.lake.store.leases()
    if way == "again":
        it("run", "--if-running", "fail")
        assert it.runs()[1]["status"] == "interrupted"
    else:
        it("run", "--if-running", "fail", "--resume", id_)
        assert it.runs()[0]["status"] == "succeeded"
        assert it.branches() == ["main"]
    assert it.everything() == tables_of(list(FIRST))
    assert len(it.published()) == 1


KILLED_IN_THE_SERVER = """
import os, signal, sys, threading
from mere.cli import main
from mere.lake import faults
turns = iter(range(1, 1000))
def kill(name):
    if name == {point!r} and threading.current_thread().name.startswith("AnyIO") and next(turns) == {nth}:
        os.kill(os.getpid(), signal.SIGKILL)
faults.hook = kill
main(["run"])
"""
OF_THE_SERVER = ["rest.applied", "rest.written", "commit.begun", "commit.moved", "commit.recorded", "commit.durable"]


@pytest.mark.long
@pytest.mark.service
@pytest.mark.parametrize("way", ["again", "resume"])
@pytest.mark.parametrize("point", OF_THE_SERVER)
def test_a_run_killed_while_spark_commits_over_rest_leaves_main_as_it_was(point: str, way: str, shop: MakeShop) -> None:
    it = by_rest(shop(FILES))
    it.land(*FIRST)
    before = it.pointers()
    script = KILLED_IN_THE_SERVER.format(point=point, nth=4)
    killed = subprocess.run([sys.executable, "-c", script], cwd=it.folder, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert it.pointers() == before
    id_ = it.runs()[0]["id"]
    it("run", "--if-running", "fail", *(("--resume", id_) if way == "resume" else ()))
    assert it.everything() == tables_of(list(FIRST))
    assert len(it.published()) == 1
    it.lake.gc(dry_run=True)
    assert it.plan() == {}


def test_a_run_that_dies_while_it_catches_up_with_main(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    it("run")
    landed = list(FIRST)
    for id_, point in enumerate(("rebase.prepared", "rebase.durable"), start=6):
        row = (id_, 1, "2024-02-02T05:00", 100)
        it.land(row)
        landed.append(row)

        def move_main_and_fail(name: str, point: str = point) -> None:
            if name == "run.publishing":
                it.lake.set_properties({"gold.daily": {"note": point}})
            if name == point:
                raise Crash

        faults.hook = move_main_and_fail
        with pytest.raises(Crash):
            it("run")
        faults.hook = None
        assert it.everything() == tables_of(landed[:-1])
        it("run", "--resume", it.runs()[0]["id"])
        assert it.everything() == tables_of(landed)
        assert it.lake.at().metadata("gold.daily").properties["note"] == point
