"""Runs at once, and a run against somebody who writes to main meanwhile: exact, or a conflict that is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from mere.lake import faults
from mere.lake.lake import Lake
from mere.pipeline.run.request import Event, Finished, Project, Request
from mere.pipeline.run.run import run
from mere.project.load import load
from mere.sparkconfig import SparkSettings
from tests.lake.places import LOCAL, POSTGRES
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, SMALL, WHOLE, Row, Shop, expected
from tests.services.postgres import Postgres

FILES = {name: WHOLE[name] for name in WHOLE if "totals" not in name and "names" not in name}
TABLES = ("raw.cities", "bronze.events", "silver.events", "gold.daily")
LATE: tuple[Row, ...] = ((6, 3, "2024-02-02T05:00", 100), (7, 1, "2024-02-04T05:00", 1))
LATER: tuple[Row, ...] = ((8, 2, "2024-02-02T06:00", 50), (9, 2, "2024-02-06T06:00", 9))


# What the database decides in a run is tried on both by the first of these tests.
ON_BOTH = pytest.mark.parametrize("catalog", [LOCAL, pytest.param(POSTGRES, marks=pytest.mark.long)], indirect=True)


@pytest.fixture(params=[LOCAL, POSTGRES])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if request.param == LOCAL:
        return None
    server: Postgres = request.getfixturevalue("postgres_server")
    return server.new_database(f"run_{tmp_path.name}".lower().replace("-", "_")[:40])


def tables_of(*rows: Row) -> dict[str, list[tuple[object, ...]]]:
    return {table: made for table, made in expected(rows).items() if table in TABLES}


def before_each_publish(act: Callable[[int], object]) -> None:
    """`act(n)` when a run is about to publish for the nth time."""
    times = iter(range(1, 100))

    def hook(point: str) -> None:
        if point == "run.publishing":
            act(next(times))

    faults.hook = hook


# two runs


def test_two_runs_of_one_project_at_once(shop: MakeShop, catalog: str | None) -> None:
    """One waits for the other, and then finds nothing to do."""
    it = shop(FILES, catalog=catalog)
    it.land(*FIRST)

    def one(selection: tuple[str, ...]) -> tuple[Finished, list[Event]]:
        events: list[Event] = []
        with Lake.open(it.folder / "lake", catalog=catalog) as lake:
            project = Project(lake, load(it.folder), it.folder, SparkSettings())
            return run(project, Request(selection=selection, threads=2), events.append), events

    with ThreadPoolExecutor() as pool:
        both = list(pool.map(one, [(), ()]))
    assert sorted(finished.commit is not None for finished, _ in both) == [False, True]
    assert it.everything() == tables_of(*FIRST)
    it.land(*LATE)
    with ThreadPoolExecutor() as pool:
        apart = list(pool.map(one, [("+silver.events",), ("raw.cities", "gold.*")]))
    assert all(isinstance(finished, Finished) for finished, _ in apart)
    it("run")
    assert it.everything() == tables_of(*FIRST, *LATE)
    assert it.branches() == ["main"]


@pytest.mark.long
@pytest.mark.service
def test_two_processes_at_once(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    it("run")
    it.land(*LATE)
    command = [sys.executable, "-m", "mere", "run", "--json"]
    processes = [subprocess.Popen(command, cwd=it.folder, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ends = []
    for process in processes:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        ends.append(json.loads(out.splitlines()[-1])["state"])
    assert sorted(ends) == ["nothing", "published"]
    assert it.everything() == tables_of(*FIRST, *LATE)
    assert len(it.published()) == 2
    assert it.branches() == ["main"]


# a run and a writer


def test_rows_that_come_into_an_input_meanwhile_are_left_to_the_next_run(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    before_each_publish(lambda _: it.land(*LATE))
    it("run")
    faults.hook = None
    assert it.everything() == tables_of(*FIRST)
    assert it.plan()["bronze.events"]["reasons"] == ["new rows in landing.events"]
    it("run")
    assert it.everything() == tables_of(*FIRST, *LATE)


@ON_BOTH
def test_a_table_that_moved_meanwhile_is_caught_up_with(shop: MakeShop, catalog: str | None) -> None:
    it = shop(FILES, catalog=catalog)
    it.land(*FIRST)
    it("run")
    it.land(*LATE)

    def write(nth: int) -> None:
        if nth == 1:
            it.land(*LATER)
            it.lake.set_properties({"silver.events": {"note": "mine"}})

    before_each_publish(write)
    events = it.run()
    faults.hook = None
    assert [event["tables"] for event in events if event["event"] == "rebase"] == [["silver.events"]]
    assert it.everything() in (tables_of(*FIRST, *LATE), tables_of(*FIRST, *LATE, *LATER))
    assert it.lake.at().metadata("silver.events").properties["note"] == "mine"
    it("run")
    assert it.everything() == tables_of(*FIRST, *LATE, *LATER)
    assert it.plan() == {}
    assert it.branches() == ["main"]


def test_a_range_of_windows_is_built_once_whatever_has_to_be_caught_up_with(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    it("run")
    it.land(*LATE)

    def write(nth: int) -> None:
        if nth == 1:
            it.lake.set_properties({"gold.daily": {"note": "mine"}})

    before_each_publish(write)
    events = it.run("--from", "2024-02-02", "--to", "2024-02-03")
    faults.hook = None
    built = [event["model"] for event in events if event["event"] == "built"]
    assert built == ["bronze.events", "silver.events", "gold.daily", "gold.daily"]
    assert [each["windows"] for each in it.plan().values()] == [[["2024-02-04", "2024-02-05"]]] * 2
    it("run")
    assert it.everything() == tables_of(*FIRST, *LATE)
    assert it.plan() == {}


def test_a_run_that_is_undone_on_main_meanwhile_is_built_again_on_what_stands_there(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    it("run")
    it.land(*LATE)
    it("run")
    it.land(*LATER)
    undone = it.published()[0].id

    def undo(nth: int) -> None:
        if nth == 1:
            it("revert", undone)

    before_each_publish(undo)
    it("run")
    faults.hook = None
    assert it.everything() == tables_of(*FIRST, *LATE, *LATER)
    assert it.plan() == {}


def test_a_model_that_somebody_writes_to_meanwhile_is_a_conflict_for_the_user(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST)
    it("run")
    it.land(*LATE)

    def write(nth: int) -> None:
        if nth == 1:
            it.delete("gold.daily", "day = '2024-02-01'")

    before_each_publish(write)
    _, said = it.failed_run()
    faults.hook = None
    assert "gold.daily: changed outside mere" in said
    assert "main was left as it was. What was built is on the branch run_" in said
    assert "Nothing was run" not in said
    assert "mere run --full-refresh gold.daily" in said
    assert it.rows("silver.events") == tables_of(*FIRST)["silver.events"]
    assert len(it.rows("gold.daily")) == len(tables_of(*FIRST)["gold.daily"]) - 1
    it("run", "--full-refresh", "gold.daily")
    it("run")
    assert it.everything() == tables_of(*FIRST, *LATE)


def test_a_run_gives_up_when_main_moves_every_time(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.land(*LATE)
    before_each_publish(lambda nth: it.lake.set_properties({"gold.daily": {"note": str(nth)}}))
    run_id, said = it.failed_run()
    faults.hook = None
    assert "cannot be published into main: these moved on main meanwhile. main was left as it was." in said
    assert "gold.daily: on run_" in said
    assert it.lake.at().metadata("gold.daily").properties["note"] == "4"
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]
    it("run", "--resume", run_id)
    assert it.rows("gold.daily") == expected([*FIRST, *LATE])["gold.daily"]
    assert it.branches() == ["main"]


# write skew

ORDERS = """
    -- audits:
    --   - relationships: {column: city_id, to: landing.cities}
    SELECT id, city_id FROM landing.events
"""


def with_cities(it: Shop, *ids: int) -> None:
    rows = pa.table({"city_id": pa.array(ids, pa.int64())})
    it.lake.pyiceberg().create_table("landing.cities", rows.schema).append(rows)


@ON_BOTH
def test_what_an_audit_relied_upon_must_not_move_meanwhile(shop: MakeShop, catalog: str | None) -> None:
    """Each side is right by itself: rows that point to a city which is there, and a city that goes with no rows yet."""
    it = shop({"models/silver/orders.sql": ORDERS}, catalog=catalog)
    it.land(*FIRST)
    with_cities(it, 1, 2, 3)

    def take_a_city_away(nth: int) -> None:
        if nth == 1:
            it.delete("landing.cities", "city_id = 3")

    before_each_publish(take_a_city_away)
    run_id, said = it.failed_run()
    faults.hook = None
    assert "silver.orders failed: relationships(" in said
    assert "silver.orders" not in it.everything()
    assert it.rows("silver.orders", f"run_{run_id}")
    it.lake.revert("main")
    it("run", "--resume", run_id)
    assert len(it.rows("silver.orders")) == len(FIRST)


def test_what_an_audit_relied_upon_may_move_if_the_audit_still_holds(shop: MakeShop) -> None:
    it = shop({"models/silver/orders.sql": ORDERS})
    it.land(*FIRST)
    with_cities(it, 1, 2, 3, 4)

    def take_a_city_away(nth: int) -> None:
        if nth == 1:
            it.delete("landing.cities", "city_id = 4")

    before_each_publish(take_a_city_away)
    events = it.run()
    assert [event["event"] for event in events].count("rebase") == 1
    assert len(it.rows("silver.orders")) == len(FIRST)
    assert it.plan() == {}


def test_a_resumed_run_looks_again_at_what_its_audits_relied_upon(shop: MakeShop) -> None:
    it = shop({"models/silver/orders.sql": ORDERS})
    it.land(*FIRST)
    with_cities(it, 1, 2, 3)

    def fail(point: str) -> None:
        if point == "run.publishing":
            raise KeyboardInterrupt

    faults.hook = fail
    it("run", exit_code=130)
    faults.hook = None
    (run_id,) = [each["id"] for each in it.runs()]
    it.delete("landing.cities", "city_id = 3")
    assert "silver.orders failed: relationships(" in it("run", "--resume", run_id, exit_code=1).stderr
    assert "silver.orders" not in it.everything()
    it.lake.revert("main")
    it("run", "--resume", run_id)
    assert len(it.rows("silver.orders")) == len(FIRST)


def test_a_resumed_run_sees_the_data_that_was_mended_on_main(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land(*FIRST, (6, 1, "2024-02-02T05:00", -3))
    it.replace("models/bronze/events.sql", "-- kind: append", "-- kind: full")
    run_id, said = it.failed_run()
    assert "assert(amount >= 0)" in said
    it.delete("landing.events", "amount < 0")
    it("run", "--resume", run_id)
    assert it.everything() == tables_of(*FIRST)
    assert len(it.published()) == 1
