"""A run that somebody else has taken, or written behind, publishes nothing; neither does one that comes back from the
dead in the middle of a statement."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from mere.errors import MereError
from mere.lake import faults
from mere.lake.lake import Lake
from mere.names import TableName
from mere.pipeline.run.request import Event, Finished, Listener, Project, Request
from mere.pipeline.run.run import run
from mere.pipeline.state.state import PROPERTY, State
from mere.project.load import load
from mere.sparkconfig import SparkSettings
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, SMALL, WHOLE, Row, Shop, expected


class Stage:
    """A project that is up to date, to which rows come before each trial."""

    def __init__(self, it: Shop) -> None:
        self.it = it
        self.landed: list[Row] = []

    def land(self) -> None:
        rows = [(id_ + len(self.landed), city, at, amount) for id_, city, at, amount in FIRST]
        self.it.land(*rows)
        self.landed += rows

    def is_whole(self) -> bool:
        return self.it.rows("gold.daily") == expected(self.landed)["gold.daily"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Stage]:
    made = Stage(Shop(tmp_path_factory.mktemp("fence") / "shop", SMALL))
    made.land()
    made.it("run")
    yield made
    made.it.lake.close()


def once_at(point: str, act: Callable[[], object]) -> None:
    def reached(name: str) -> None:
        if name == point:
            faults.hook = None
            act()

    faults.hook = reached


@pytest.mark.parametrize("point", ["run.batch", "run.signed", "publish.prepared"])
def test_a_run_that_is_ended_stops_and_can_be_resumed(stage: Stage, point: str) -> None:
    it = stage.it
    stage.land()
    before = it.pointers()
    once_at(point, lambda: it.lake.end_run(it.runs()[0]["id"], author="ann"))
    id_, said = it.failed_run()
    assert f"Run {id_} was ended by ann meanwhile, so this attempt at it stopped. It published nothing." in said
    assert "failed:" not in said
    assert it.pointers() == before
    assert it.branches() == ["main", f"run_{id_}_2"]
    assert it.runs()[0]["status"] == "cancelled"
    assert f"run {id_} had ended already: cancelled" in it("runs", "end", id_).stdout
    assert it.lake.store.leases() == []
    it("run", "--resume", id_)
    assert stage.is_whole()
    assert it.branches() == ["main"]
    record = it.runs()[0]
    built = {name: each["attempt"] for name, each in record["models"].items() if each["state"] == "built"}
    assert built.keys() == {str(table) for table in it.lake.at() if _built_by(it, table) == id_}, "whoever built it"
    assert set(built.values()) <= {1, 2}
    shown = it("runs", "show", id_).stdout
    assert all(name in shown for name in built)
    again = it("run", "--resume", id_).stdout
    assert again == f"nothing to do: run {id_} was published already, as commit {record['commit'][:10]}\n"
    (end,) = map(json.loads, it("run", "--resume", id_, "--json").stdout.splitlines())
    assert (end["state"], end["commit"]) == ("skipped", record["commit"])


def _built_by(it: Shop, table: TableName) -> str | None:
    text = it.lake.at().metadata(table).properties.get(PROPERTY)
    state = State.from_json(text) if text else None
    return state.run if state else None


def test_a_model_whose_branch_is_taken_away_while_it_is_built_is_not_said_to_fail(stage: Stage) -> None:
    """Spark says that its table cannot be found, and that is not what happened."""
    it = stage.it
    stage.land()
    once_at("run.written", lambda: it.lake.end_run(it.runs()[0]["id"], author="ann"))
    done = it("run", exit_code=1)
    id_ = it.runs()[0]["id"]
    assert f"Run {id_} was ended by ann meanwhile" in done.stderr
    assert "✗" not in done.stdout
    assert "found" not in done.output
    it("runs", "clean")
    swept = it("run", "--resume", id_, exit_code=1).stderr
    assert f"Run {id_} cannot be resumed: its branch run_{id_}_2 was deleted" in swept
    assert "published, or" not in swept
    assert "It published nothing" in swept
    it("run")
    assert stage.is_whole()


def test_a_run_that_is_taken_over_publishes_nothing_and_leaves_its_record_alone(stage: Stage) -> None:
    it = stage.it
    stage.land()

    def resume() -> None:
        id_ = it.runs()[0]["id"]
        it.silence(id_)
        assert one(it, Request(resume=id_)).commit

    once_at("run.publishing", resume)
    published = len(it.published())
    id_, said = it.failed_run()
    assert f"Run {id_} was taken over by " in said
    assert f"mere runs show {id_}" in said
    assert stage.is_whole()
    assert len(it.published()) == published + 1
    record = it.runs()[0]
    assert record["status"] == "succeeded"
    assert record["models"]["gold.daily"]["state"] == "built", "by the first attempt, which was audited"
    first, second = record["attempts"]
    assert (first["branch"], first["status"]) == (f"run_{id_}", "interrupted")
    assert first["models"]["gold.daily"]["state"] == "built"
    assert (second["branch"], second["status"], second["models"]) == (f"run_{id_}_2", "succeeded", {})
    assert first["started_at"] == record["started_at"] < second["started_at"]
    shown = it("runs", "show", id_).stdout
    assert shown.index("attempt 1: interrupted") < shown.index("gold.daily") < shown.index("attempt 2: succeeded")


def one(it: Shop, request: Request, listen: Listener = lambda _: None) -> Finished:
    """A run of its own, as in another process."""
    with Lake.open(it.folder / "lake") as lake:
        return run(Project(lake, load(it.folder), it.folder, SparkSettings()), request, listen)


@pytest.mark.parametrize("point", ["run.audited", "run.publishing"])
def test_what_others_write_to_the_branch_of_a_run_is_not_published(stage: Stage, point: str) -> None:
    it = stage.it
    stage.land()
    before = it.pointers()

    def write() -> None:
        branch = it.runs()[0]["branch"]
        it.delete("gold.daily", "day = '2024-02-01'", on=branch)

    once_at(point, write)
    _, said = it.failed_run()
    assert "changed by somebody else" in said
    assert "gold.daily" in said
    assert it.pointers() == before
    (resume,) = {line.partition("mere ")[2] for line in said.splitlines() if "run --resume" in line}
    it(*resume.split())
    assert stage.is_whole()


def test_what_others_write_before_a_run_catches_up_is_not_signed_with_the_rest(shop: MakeShop) -> None:
    """What the branch keeps then is signed anew, as it stands."""
    it = shop({name: WHOLE[name] for name in WHOLE if "totals" not in name and "names" not in name})
    it.land(*FIRST)
    it("run")
    late = (6, 3, "2024-02-03T05:00", 100)
    it.land(late)
    once_at("run.publishing", lambda: it.lake.set_properties({"silver.events": {"note": "mine"}}))
    before = len(it.published())
    caught_up = []

    def listen(event: Event) -> None:
        if event.kind == "rebase":
            it.delete("gold.daily", "day = '2024-02-01'", on=it.runs()[0]["branch"])
            caught_up.append(event)

    with pytest.raises(MereError, match=r"gold\.daily"):
        one(it, Request(), listen)
    assert caught_up
    assert len(it.published()) == before
    it("run", "--resume", it.runs()[0]["id"])
    assert it.rows("gold.daily") == expected([*FIRST, late])["gold.daily"]


def test_a_run_whose_lease_is_taken_at_the_last_moment_publishes_nothing(stage: Stage) -> None:
    """It has looked at its lease just before: what counts is how it stands when the run is published."""
    it = stage.it
    stage.land()
    before = it.pointers()
    daily = TableName.parse("gold.daily")

    def take() -> None:
        it.end_lease(it.runs()[0]["id"])
        assert it.lake.store.acquire("main", [daily], "another", timedelta(minutes=1)) == []

    once_at("run.publishing", take)
    id_, said = it.failed_run()
    assert f"run {id_} has lost its lease on gold.daily" in said
    assert it.pointers() == before
    it.lake.store.release("main", [daily], "another")
    it("run", "--resume", id_)
    assert stage.is_whole()


@pytest.fixture(params=["jdbc", "rest"])
def over(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Stage]:
    """By which way Spark comes to the lake."""
    file = stage.it.folder / "mere.yaml"
    text = file.read_text(encoding="utf-8")
    if request.param == "rest":
        file.write_text(f"{text}    spark: {{catalog: rest}}\n", encoding="utf-8")
    yield stage
    file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("point", ["run.batch", "run.written"])
def test_a_run_whose_lease_is_taken_while_it_builds_says_so_once(over: Stage, point: str) -> None:
    """Whatever is refused then is no failure of a model, over REST Spark's own commits too; nor is the run skipped."""
    it = over.it
    over.land()
    before = it.pointers()
    daily = TableName.parse("gold.daily")

    def take() -> None:
        it.end_lease(it.runs()[0]["id"])
        assert it.lake.store.acquire("main", [daily], "another", timedelta(minutes=1)) == []

    once_at(point, take)
    done = it("run", "--if-running", "skip", exit_code=1)
    id_ = it.runs()[0]["id"]
    assert done.output.count(f"run {id_} has lost its lease on gold.daily: another run may be writing them.") == 1
    assert "failed" not in done.output
    assert "✗" not in done.output
    assert not any(each["state"] == "failed" for each in it.runs()[0]["models"].values())
    assert it.pointers() == before
    it.lake.store.release("main", [daily], "another")
    it("run", "--resume", id_)
    assert over.is_whole()


# a run that sleeps, python and JVM, in the middle of a statement

ROWS = 60_000
BIG = {
    "sources/bronze/big.yaml": "files: data/big_{n}.csv\ncolumns: {id: bigint, v: bigint}\n",
    "models/archive/log.sql": """
        -- kind: append
        -- audits: [{unique: id}]
        SELECT id, v, repeat(sha2(CAST(id AS string), 512), 3) AS h FROM bronze.big
    """,
    "models/silver/big.sql": """
        -- kind: merge
        -- key: id
        SELECT id, v, repeat(sha2(CAST(id AS string), 512), 3) AS h FROM bronze.big
    """,
}
KINDS = {"source": "bronze.big", "append": "archive.log", "merge": "silver.big"}


@dataclass(frozen=True)
class Sleeper:
    """A run in a process of its own, which is stopped while its JVM writes a table."""

    it: Shop
    process: subprocess.Popen[bytes]
    output: Path

    @classmethod
    def start(cls, it: Shop) -> Sleeper:
        output = it.folder / "asleep.out"
        catalog = {name: value for name, value in it.environment.items() if value}
        with output.open("wb") as file:
            command = [sys.executable, "-m", "mere", "run", "--json"]
            environment = {**os.environ, **catalog, "MERE_ENGINE": "off"}
            return cls(it, subprocess.Popen(command, cwd=it.folder, stdout=file, stderr=file, env=environment), output)

    def stop_in(self, table: str) -> str:
        """Stops when a data file of the table is begun; the id of the run."""
        folder = self.it.folder / "lake" / "warehouse" / table.partition(".")[0]
        before = set(folder.rglob("*.parquet"))
        while not any(event["event"] == "building" and event["model"] == table for event in self.events()):
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.01)
        while set(folder.rglob("*.parquet")) == before:
            assert self.process.poll() is None, self.output.read_text()
        self._signal(signal.SIGSTOP)
        events = self.events()
        assert not any(event["event"] == "built" and event["model"] == table for event in events)
        (id_,) = [event["id"] for event in events if event["event"] == "run"]
        return str(id_)

    def wake(self) -> None:
        """It goes on, and comes to its own end."""
        self._signal(signal.SIGCONT)
        assert self.process.wait(timeout=120) == 1, self.output.read_text()

    def events(self) -> list[dict[str, Any]]:
        lines = self.output.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def _signal(self, number: int) -> None:
        own = psutil.Process(self.process.pid)
        java = [each for each in own.children(recursive=True) if "java" in each.name()]
        assert java
        for each in (own, *java):
            each.send_signal(number)


EVERY = [(kind, how, where) for kind in KINDS for how in ("resume", "again") for where in ("sqlite", "postgres")]


@pytest.mark.service
def test_a_run_that_wakes_up_in_the_middle_of_an_append_doubles_nothing(shop: MakeShop) -> None:
    sleep_and_wake(shop(BIG), "append", "resume")


@pytest.mark.long
@pytest.mark.service
@pytest.mark.parametrize("how", ["resume", "again"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_wakes_up_over_rest_doubles_nothing(shop: MakeShop, kind: str, how: str) -> None:
    it = shop(BIG)
    with (it.folder / "mere.yaml").open("a") as file:
        file.write("    spark: {catalog: rest}\n")
    sleep_and_wake(it, kind, how)


@pytest.mark.long
@pytest.mark.service
@pytest.mark.parametrize(("kind", "how", "where"), EVERY)
def test_a_run_that_wakes_up_in_the_middle_doubles_nothing(
    shop: MakeShop, kind: str, how: str, where: str, request: pytest.FixtureRequest
) -> None:
    catalog = None
    if where == "postgres":
        catalog = request.getfixturevalue("postgres_server").new_database(f"fence_{secrets.token_hex(4)}")
    sleep_and_wake(shop(BIG, catalog=catalog), kind, how)


def sleep_and_wake(it: Shop, kind: str, how: str) -> None:
    land(it, 0, [1])
    it("run")
    land(it, 1, range(2, ROWS + 2))
    sleeper = Sleeper.start(it)
    try:
        id_ = sleeper.stop_in(KINDS[kind])
        it.silence(id_)
        if how == "again":
            it.end_lease(id_)
        once_at("run.publishing", sleeper.wake)
        it("run", *(("--resume", id_) if how == "resume" else ()))
    finally:
        sleeper.process.kill()
        sleeper.process.wait()
    said = sleeper.output.read_text()
    if how == "resume":
        assert f"Run {id_} was taken over by" in said
        assert it.branches() == ["main"]
        assert [each["status"] for each in it.runs()[0]["attempts"]] == ["interrupted", "succeeded"]
    else:
        told = [event for event in sleeper.events() if f"run {id_} has lost its lease on" in event.get("error", "")]
        assert [event["event"] for event in told] == ["end"], said
        assert it.runs()[0]["status"] == "succeeded"
    for table in KINDS.values():
        assert it.rows(f"select count(*), count(distinct id) from {table}") == [(ROWS + 1, ROWS + 1)], table
    assert it.plan() == {}


def land(it: Shop, number: int, ids: Any) -> None:
    file = it.folder / "data" / f"big_{number}.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("id,v\n" + "".join(f"{id_},{id_ % 7}\n" for id_ in ids))
