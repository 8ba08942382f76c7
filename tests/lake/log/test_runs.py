"""The history of runs, on every database."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from mere.errors import LakeError, LeaseHeld
from mere.lake.lake import Lake
from mere.lake.log.runs import BEAT, Run, RunStatus, beating, holder, holds
from mere.lake.store.postgres import schema as postgres_schema
from mere.lake.store.sql import SqlStore
from mere.lake.store.sqlite import schema
from mere.names import TableName
from tests.lake.places import LOCAL, POSTGRES, Place, place

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(params=[LOCAL, POSTGRES])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def run(id_: str, age: timedelta = timedelta(), status: RunStatus = RunStatus.RUNNING) -> Run:
    return Run(id_, "main", f"run_{id_}", status, "ann", NOW - age, NOW - age)


def test_a_run_is_kept_as_it_was_last_saved(lake: Lake, at: Place) -> None:
    first = replace(run("r1", -timedelta(hours=1)), about={"models": {"gold.t": {"rows": 3, "note": "ü"}}})
    lake.store.save_run(first)
    with at.open() as other:
        assert other.run("r1") == first
    ended = replace(first, status=RunStatus.FAILED, ended_at=NOW + timedelta(seconds=2), about={"error": "x"})
    lake.store.save_run(ended)
    assert lake.run("r1") == ended
    assert lake.runs() == [ended]


def test_the_last_runs_come_first(lake: Lake) -> None:
    for minutes, id_ in ((3, "old"), (1, "new"), (2, "middle")):
        lake.store.save_run(run(id_, timedelta(minutes=minutes), RunStatus.SUCCEEDED))
    assert [each.id for each in lake.runs()] == ["new", "middle", "old"]
    assert [each.id for each in lake.runs(limit=2)] == ["new", "middle"]
    with pytest.raises(LakeError, match=r"no run 'middel'.* Did you mean middle"):
        lake.run("middel")


def test_runs_are_read_page_by_page_also_where_several_began_at_once(lake: Lake) -> None:
    for minutes, id_ in ((3, "a"), (1, "b"), (1, "c"), (1, "d"), (2, "e")):
        lake.store.save_run(run(id_, timedelta(minutes=minutes), RunStatus.SUCCEEDED))
    found: list[Run] = []
    while page := lake.store.runs(2, found[-1] if found else None):
        found += page
    assert [each.id for each in found] == ["d", "c", "b", "e", "a"]


def test_a_run_that_is_not_heard_of_was_interrupted(lake: Lake) -> None:
    lake.store.save_run(run("dead", timedelta(hours=1)))
    lake.store.save_run(run("done", timedelta(hours=1), RunStatus.SUCCEEDED))
    assert {each.id: each.status for each in lake.runs()} == {
        "dead": RunStatus.INTERRUPTED,
        "done": RunStatus.SUCCEEDED,
    }
    assert lake.run("dead").status is RunStatus.INTERRUPTED
    lake.store.beat_run("dead", "run_dead")
    assert lake.run("dead").status is RunStatus.RUNNING


def test_whether_a_run_lives_is_judged_by_the_clock_of_the_database(lake: Lake) -> None:
    """Another machine's clock may be minutes behind: a run of its own would look dead from there, and be resumed."""
    store = lake.store
    assert isinstance(store, SqlStore)
    store.save_run(run("r1"))
    store.clock = "'2999-01-01T00:00:00.000Z'"
    assert lake.run("r1").status is lake.runs()[0].status is RunStatus.INTERRUPTED
    store.beat_run("r1", "run_r1")
    assert lake.run("r1").status is RunStatus.RUNNING
    assert lake.run("r1").beat_at == store.now() == datetime(2999, 1, 1, tzinfo=UTC)


def test_two_processes_do_not_hold_the_tables_of_one_run_at_once(lake: Lake) -> None:
    """As when it is resumed twice."""
    tables, first, second = [TableName("a", "t")], holder("r1"), holder("r1")
    assert first != second
    assert holds(first, "r1")
    assert not holds(first, "r11")
    assert not holds(holder("r11"), "r1")
    refused = pytest.raises(LeaseHeld, match=r"^run r1 is writing a\.t for main\.")
    with lake.lease(tables, first), refused, lake.lease(tables, second):
        pass


def test_three_beats_may_be_missed() -> None:
    assert run("r1", 3 * BEAT).seen(NOW).status is RunStatus.RUNNING
    assert run("r1", 4 * BEAT).seen(NOW).status is RunStatus.INTERRUPTED


def test_a_run_says_that_it_lives_while_it_does(lake: Lake) -> None:
    silent = run("r1", 4 * BEAT)
    lake.store.save_run(silent)
    with beating(lake.store, silent, pytest.fail, every=timedelta(milliseconds=20)):
        deadline = time.monotonic() + 20
        while lake.run("r1").status is not RunStatus.RUNNING:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    after = lake.run("r1").beat_at
    time.sleep(0.1)
    assert lake.run("r1").beat_at == after


def test_old_runs_can_be_forgotten(lake: Lake) -> None:
    for days in (1, 10, 40):
        lake.store.save_run(run(f"r{days}", timedelta(days=days), RunStatus.SUCCEEDED))
    assert lake.store.delete_runs(NOW - timedelta(days=30)) == 1
    assert [each.id for each in lake.runs()] == ["r1", "r10"]


def test_a_lake_of_the_first_schema_is_brought_up_to_date(at: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, scripts in (("sqlite", schema), ("postgres", postgres_schema)):
        monkeypatch.setattr(f"mere.lake.store.{kind}.store.MIGRATIONS", scripts.MIGRATIONS[:1])
    with at.create() as lake:
        at.engine(lake).append("main", "a.t", 3)
    assert tables(at, "mere_runs") == 0
    monkeypatch.undo()
    with at.open() as lake:
        assert lake.at().metadata("a.t").rows == 3
        assert lake.runs() == []
        lake.store.save_run(run("r1"))
    with at.open() as lake:
        assert [each.id for each in lake.runs()] == ["r1"]
    assert tables(at, "mere_runs") == 1


def tables(at: Place, name: str) -> int:
    if at.catalog:
        with psycopg.connect(at.catalog) as connection:
            return len(connection.execute("SELECT 1 FROM pg_tables WHERE tablename = %s", (name,)).fetchall())
    with contextlib.closing(sqlite3.connect(Path(at.path, "catalog.db"))) as database:
        return len(database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchall())
