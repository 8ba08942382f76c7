"""What a plan or a run prints as a way out is typed here as it stands, and then the next run has nothing to ask."""

from __future__ import annotations

import re
import shlex

import pytest

from mere.lake import faults
from mere.pipeline.plan.remedies import on_branch, within
from tests.pipeline.conftest import MakeShop
from tests.pipeline.load.test_load import put
from tests.pipeline.shop import FIRST, SMALL, Shop, expected

FILES = {
    "sources/bronze/f.yaml": "files: data/orders_*.csv\ncolumns: {id: bigint, city: string}\npath_columns: false\n",
    "models/silver/log.sql": "-- kind: append\nSELECT id, city FROM bronze.f\n",
}
_COMMAND = re.compile(r"mere (?:run|plan) --.*?(?=   |$)", re.MULTILINE)
_DECIDES = re.compile("--(accept|full-refresh|forward-only|allow-breaking|no-check)")
_RESUME = re.compile(r"(?:Fix it and resume|on top of that): +(mere run --resume \w+)$", re.MULTILINE)
_UPDATE = re.compile(r"^ *(mere (?:branch update|publish) \S+)$", re.MULTILINE)


def printed(text: str) -> list[str]:
    """The ways out: each a command, or several after one another."""
    return [each for each in map(str.strip, _COMMAND.findall(text)) if _DECIDES.search(each)]


def typed(it: Shop, way: str) -> None:
    for command in way.split(" && "):
        mere, *arguments = shlex.split(command)
        assert mere == "mere"
        it(*arguments)


@pytest.fixture
def it(shop: MakeShop) -> Shop:
    made = shop(FILES)
    put(made, "1", "1,Oslo", header="id,city")
    made("run")
    return made


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("way", "on"),
    [
        ("accept", "main"),
        ("full-refresh", "dev"),
        pytest.param("accept", "dev", marks=LONG),
        pytest.param("full-refresh", "main", marks=LONG),
    ],
)
def test_an_append_model_behind_a_file_that_changed(way: str, on: str, it: Shop) -> None:
    arguments = () if on == "main" else ("--on", on)
    if arguments:
        it("branch", "create", on)
    put(it, "1", "1,CHANGED", header="id,city")
    put(it, "2", "2,Rome", header="id,city")
    it("plan", *arguments, "--exit-code", exit_code=4)
    run, said = it.failed_run(*arguments)
    ways = printed(said)
    assert len(ways) == 2
    assert printed(it("run", "--resume", run, exit_code=1).stderr) == ways  # nothing was decided
    (chosen,) = (each for each in ways if ("--full-refresh" in each) == (way == "full-refresh"))
    typed(it, chosen)
    cities = {"accept": [(1, "Oslo"), (2, "Rome")], "full-refresh": [(1, "CHANGED"), (2, "Rome")]}
    assert it.rows("select id, city from silver.log", on) == cities[way]
    assert it.rows("select id, city from bronze.f", on) == [(1, "CHANGED"), (2, "Rome")]
    assert it.plan(*arguments) == {}
    put(it, "3", "3,Bern", header="id,city")
    it("run", *arguments)
    assert it.rows("select id, city from silver.log", on) == [*cities[way], (3, "Bern")]


@pytest.mark.parametrize("at", [0, 1])
def test_a_decision_that_a_run_will_need_is_foreseen(at: int, it: Shop) -> None:
    put(it, "1", "1,CHANGED", header="id,city")
    put(it, "2", "2,Rome", header="id,city")
    said = it("plan", "--exit-code", exit_code=4).stdout
    assert "silver.log will need a decision: orders_1.csv is not what was loaded: rows of bronze.f will be" in said
    ways = [line.split("   ")[0].strip() for line in said.splitlines() if line.startswith("  mere run")]
    assert len(ways) == 2
    typed(it, ways[at])
    it("run")
    assert it.rows("select city from silver.log") == [[("Oslo",), ("Rome",)], [("CHANGED",), ("Rome",)]][at]
    assert it.plan() == {}
    put(it, "3", "3,Bern", header="id,city")
    it("plan", "--exit-code", exit_code=3)


def test_what_is_accepted_by_a_plan_leaves_new_rows_due(it: Shop) -> None:
    put(it, "1", "1,CHANGED", header="id,city")
    put(it, "2", "2,Rome", header="id,city")
    it("run", "bronze.f")
    step = it.plan()["silver.log"]
    assert step["action"] == "blocked"
    it("plan", "--accept", "silver.log")
    assert it.plan()["silver.log"]["action"] == "rows"
    it("run")
    assert it.rows("select id, city from silver.log") == [(1, "Oslo"), (2, "Rome")]
    put(it, "2", "2,AGAIN", header="id,city")
    it("run", "bronze.f")
    ways = printed(it("run", exit_code=1).stderr)
    assert ways == ["mere run --accept silver.log", "mere run --full-refresh silver.log"]
    typed(it, ways[0])
    assert it.rows("select id, city from silver.log") == [(1, "Oslo"), (2, "Rome")]
    assert it.plan() == {}


def test_what_came_for_a_table_that_was_changed_outside_still_arrives_when_that_is_accepted(it: Shop) -> None:
    it.delete("silver.log", "id = 1")
    put(it, "2", "2,Rome", header="id,city")
    it("run", "bronze.f")
    ways = printed(it("run", exit_code=1).stderr)
    assert ways == ["mere plan --accept silver.log", "mere run --full-refresh silver.log"]
    typed(it, ways[0])
    it("run")
    assert it.rows("select id from silver.log") == [(2,)]
    assert it.plan() == {}


@pytest.mark.parametrize("at", [0, 1])
def test_a_table_that_is_changed_outside_while_a_run_builds_it(
    at: int, shop: MakeShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.land((6, 3, "2024-02-03T05:00", 100))
    points = iter(range(9))

    def meanwhile(point: str) -> None:
        if point == "run.publishing" and next(points) == 0:
            it.delete("gold.daily", "day = '2024-02-01'")

    monkeypatch.setattr(faults, "hook", meanwhile)
    run, said = it.failed_run()
    ways = printed(said)
    assert ways == [
        f"mere plan --on run_{run} --accept gold.daily && mere run --resume {run}",
        "mere run --full-refresh gold.daily",
    ]
    typed(it, ways[at])
    it("run")
    assert it.plan() == {}
    whole = expected([*FIRST, (6, 3, "2024-02-03T05:00", 100)])["gold.daily"]
    assert it.rows("gold.daily") == whole[1 - at :]


@pytest.mark.parametrize("at", [0, 1])
def test_another_declaration_of_a_source(at: int, it: Shop) -> None:
    it.replace("sources/bronze/f.yaml", "city: string", "city: {type: string, from: City}")
    it.replace("models/silver/log.sql", "-- kind: append\n", "")
    it("run", "--full-refresh", "silver.log")
    ways = printed(it("run", exit_code=1).stderr)
    assert ways == ["mere run --forward-only bronze.f", "mere run --full-refresh bronze.f"]
    typed(it, ways[at])
    it("run")
    assert it.plan() == {}


def test_a_file_that_is_mended_between_the_attempts_of_a_run_is_taken_as_it_is_now(it: Shop) -> None:
    it.write({"models/gold/cities.sql": "-- audits: [{assert: city <> 'bad'}]\nSELECT id, city FROM bronze.f\n"})
    it("run")
    put(it, "2", "2,bad", header="id,city")
    run, _ = it.failed_run()
    put(it, "2", "2,Rome", header="id,city")
    it("run", "--resume", run)
    assert it.rows("select id, city from silver.log") == [(1, "Oslo"), (2, "Rome")]
    assert it.plan() == {}


def test_rows_that_came_and_went_before_an_append_model_took_them_are_left_out(it: Shop) -> None:
    put(it, "2", "2,bad", header="id,city")
    it("run", "bronze.f")
    put(it, "2", "2,Rome", header="id,city")
    it("run", "bronze.f")
    it("run")
    assert it.rows("select id, city from silver.log") == [(1, "Oslo"), (2, "Rome")]


def test_what_was_exchanged_is_not_told_from_what_came_and_went(it: Shop) -> None:
    put(it, "1", "1,CHANGED", header="id,city")
    put(it, "2", "2,bad", header="id,city")
    run, _ = it.failed_run()
    put(it, "2", "2,Rome", header="id,city")
    said = it("run", "--resume", run, "--accept", "silver.log", exit_code=1).stderr
    assert "some of them rows that came since silver.log was built" in said
    assert "mere run   to start over, from what is published" in said
    ways = printed(it("run", exit_code=1).stderr)
    typed(it, next(each for each in ways if "--full-refresh" not in each))
    assert it.rows("select id, city from silver.log") == [(1, "Oslo"), (2, "Rome")]
    assert it.plan() == {}


def test_columns_that_go_or_change_on_another_branch(it: Shop) -> None:
    log = "models/silver/log.sql"
    it("branch", "create", "dev")
    it.replace(log, "-- kind: append\nSELECT id, city", "SELECT id")
    it("run", "--on", "dev", "--full-refresh", "silver.log", exit_code=1)
    for ways in (printed(it("run", "--on", "dev", exit_code=1).stderr), printed(it("plan", "--on", "dev").stdout)):
        assert ways == ["mere run --on dev --allow-breaking silver.log"]
    typed(it, ways[0])
    assert it.plan("--on", "dev") == {}
    it.replace(log, "SELECT id", "SELECT CAST(id AS int) AS id")  # which only Spark can tell
    assert it.plan("--on", "dev")["silver.log"]["action"] == "build"
    ways = printed(it.failed_run("--on", "dev")[1])
    assert ways == ["mere run --on dev --allow-breaking silver.log"]
    typed(it, ways[0])
    assert it.plan("--on", "dev") == {}


def test_a_source_that_has_lost_track(it: Shop) -> None:
    it.replace("models/silver/log.sql", "-- kind: append\n", "")
    it("run", "--full-refresh", "silver.log")
    it("drop", "bronze.f__loads")
    ways = printed(it("run", exit_code=1).stderr)
    assert ways == ["mere run --full-refresh bronze.f"]
    typed(it, ways[0])
    it("run")
    assert it.plan() == {}


def test_a_run_that_failed_and_a_branch_that_was_overtaken(it: Shop) -> None:
    log = "models/silver/log.sql"
    it.replace(log, "-- kind: append\n", "-- audits: [{assert: id < 2}]\n")
    it("run", "--full-refresh", "silver.log")
    put(it, "2", "2,Rome", header="id,city")
    (way,) = _RESUME.findall(it.failed_run()[1])
    it.replace(log, "id < 2", "id < 3")
    typed(it, way)
    assert it.plan() == {}

    it("branch", "create", "dev")
    put(it, "3", "3,Bern", header="id,city")
    it.replace(log, "id < 3", "id < 4")
    it("run", "bronze.f")
    it("run", "--on", "dev")
    ways = _UPDATE.findall(it("publish", "dev", exit_code=1).stderr)
    assert ways == ["mere branch update dev", "mere publish dev"]
    for each in ways:
        typed(it, each)
    assert it.plan() == {}
    assert it.rows("select id from silver.log") == it.rows("select id from bronze.f") == [(1,), (2,), (3,)]


def test_commands_name_the_branch() -> None:
    remedy = "mere plan --accept a.b   to keep it\nmere run --full-refresh a.b   to rebuild it"
    assert on_branch(remedy, "main", "main") == remedy
    assert on_branch(remedy, "dev", "dev").splitlines() == [
        "mere plan --on dev --accept a.b   to keep it",
        "mere run --on dev --full-refresh a.b   to rebuild it",
    ]
    assert on_branch(remedy, "main", "run_1a").startswith("mere plan --on run_1a --accept a.b")


def test_in_a_run_the_decision_goes_with_the_run() -> None:
    assert within("mere run --accept a.b   to go on\nmere run --full-refresh a.b   to build it", "run_1a") == (
        "mere run --resume 1a --accept a.b   to go on\n"
        "mere run --resume 1a --accept a.b && mere run --full-refresh a.b   to build it"
    )
    assert within("Mend it.", "run_1a") == "Mend it."
    kept = "mere plan --accept a.b   to keep it\nmere run --full-refresh a.b   to build it"
    assert on_branch(within(kept, "run_1a"), "main", "run_1a").splitlines() == [
        "mere plan --on run_1a --accept a.b && mere run --resume 1a   to keep it",
        "mere run --full-refresh a.b   to build it",
    ]
    both = within("mere run --on dev --accept a.b   to go on\nmere run --on dev --full-refresh a.b", "run_1a")
    assert both.splitlines() == [
        "mere run --resume 1a --accept a.b   to go on",
        "mere run --resume 1a --accept a.b && mere run --on dev --full-refresh a.b",
    ]
