"""`mere run` at its edges: audits between tables, what a resumed run remembers, what is told of a failed one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mere.lake import faults
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, SMALL, VIEW, expected

DAILY = "models/gold/daily.sql"
BAD = {DAILY: SMALL[DAILY].replace("-- batch", "-- audits:\n    --   - assert: amount > 4\n    -- batch")}

# audits between tables: by name the orders come first, and neither reads the other

ORDERS = """
    -- audits:
    --   - relationships: {column: city_id, to: b.cities}
    SELECT id, city_id FROM landing.events
"""
SHOP = {"models/a/orders.sql": ORDERS, "seeds/b/cities.csv": "city_id,name\n1,Wien\n2,Rom\n3,Oslo\n"}
WITHOUT_OSLO = {"seeds/b/cities.csv": "city_id,name\n1,Wien\n2,Rom\n"}
WITH_BERN = {"seeds/b/cities.csv": "city_id,name\n1,Wien\n2,Rom\n3,Oslo\n4,Bern\n"}


def audits_of(events: list[dict[str, Any]], model: str) -> list[str]:
    return [audit["state"] for event in events if event.get("model") == model for audit in event.get("audits", ())]


def test_tables_that_are_built_in_one_run_are_compared_when_both_are_there(shop: MakeShop) -> None:
    it = shop(SHOP)
    it.land(*FIRST)
    events = it.run("--threads", "1")
    assert audits_of(events, "a.orders") == ["ok"]
    assert it.runs()[0]["models"]["a.orders"]["state"] == "built"
    assert [audit["state"] for audit in it.runs()[0]["models"]["a.orders"]["audits"]] == ["ok"]
    it.write(WITHOUT_OSLO)
    it.land((6, 1, "2024-02-02T05:00", 1))
    before = it.pointers()
    run, said = it.failed_run("--threads", "1")
    assert "a.orders failed: relationships(" in said
    assert it.pointers() == before
    record = it.runs()[0]["models"]
    assert (record["a.orders"]["state"], record["b.cities"]["state"]) == ("failed", "built")
    it.write(WITH_BERN)
    events = it.run("--resume", run)
    assert {event["model"] for event in events if event["event"] == "built"} == {"b.cities"}
    assert audits_of(events, "a.orders") == ["ok"]
    assert len(it.rows("b.cities")) == 4
    assert len(it.rows("a.orders")) == 6


def test_a_failed_comparison_is_asked_again_when_the_run_is_resumed(shop: MakeShop) -> None:
    """Both tables are built and signed by then, and nothing is due."""
    it = shop(SHOP)
    it.land(*FIRST)
    it("run")
    it.write(WITHOUT_OSLO)
    before = it.pointers()
    run, _ = it.failed_run()
    assert "a.orders failed: relationships(" in it("run", "--resume", run, exit_code=1).stderr
    assert it.pointers() == before


def test_a_table_is_compared_also_if_only_the_other_one_is_built(shop: MakeShop) -> None:
    it = shop(SHOP)
    it.land(*FIRST)
    it("run")
    it.write(WITHOUT_OSLO)
    _, said = it.failed_run("b.cities")
    assert "a.orders failed: relationships(" in said
    assert len(it.rows("b.cities")) == 3
    it.write(WITH_BERN)
    assert audits_of(it.run("b.cities"), "a.orders") == ["ok"]


def test_a_table_behind_a_view_counts_as_compared(shop: MakeShop) -> None:
    cities = {"seeds/raw/cities.csv": SHOP["seeds/b/cities.csv"], "models/b/cities.sql": VIEW}
    it = shop({"models/a/orders.sql": ORDERS, **cities})
    it.land(*FIRST)
    it("run")
    it.write({"seeds/raw/cities.csv": WITHOUT_OSLO["seeds/b/cities.csv"]})
    _, said = it.failed_run("raw.cities")
    assert "a.orders failed: relationships(" in said
    assert len(it.rows("raw.cities")) == 3


def test_a_table_of_which_windows_were_built_is_compared_as_a_whole(shop: MakeShop) -> None:
    """Its own new rows point to cities that are there; its old ones no more."""
    orders = """
        -- kind: incremental
        -- time_column: at
        -- grain: day
        -- inputs: {b.cities: {on_change: ignore}}
        -- audits:
        --   - relationships: {column: city_id, to: b.cities}
        SELECT e.id, e.city_id, e.at FROM landing.events AS e
        LEFT JOIN b.cities AS c ON c.city_id = e.city_id
        WHERE e.at >= :start AND e.at < :end
    """
    it = shop({**SHOP, "models/a/orders.sql": orders})
    it.land(*FIRST)
    assert audits_of(it.run(), "a.orders") == ["ok"]
    it.land((6, 1, "2024-02-02T05:00", 1))
    assert audits_of(it.run(), "a.orders") == ["ok"]
    assert it.runs()[0]["models"]["a.orders"]["audits"][0]["checked"] == 2
    it.write(WITHOUT_OSLO)
    it.land((7, 1, "2024-02-02T06:00", 1))
    _, said = it.failed_run()
    assert "a.orders failed: relationships(" in said
    assert "1 of 7 rows is bad" in said


def test_a_table_that_moved_on_main_while_another_was_compared_with_it_is_looked_at_again(shop: MakeShop) -> None:
    it = shop(SHOP)
    it.land(*(row for row in FIRST if row[1] != 3))
    it("run")
    it.write(WITHOUT_OSLO)
    first = iter([True])

    def somebody_moves_to_oslo(point: str) -> None:
        if point == "run.publishing" and next(first, False):
            it.land((9, 3, "2024-02-02T05:00", 1))
            it("run", "a.orders", "--if-running", "fail")

    faults.hook = somebody_moves_to_oslo
    _, said = it.failed_run("b.cities")
    faults.hook = None
    assert "a.orders failed: relationships(" in said
    assert len(it.rows("b.cities")) == 3


def test_a_part_of_a_table_is_not_compared_with_what_was_not_built(shop: MakeShop) -> None:
    it = shop(SHOP)
    it.land(*FIRST)
    it("run")
    it("branch", "create", "dev")
    it.write(WITHOUT_OSLO)
    assert audits_of(it.run("--on", "dev", "b.cities", "--limit-windows", "1"), "a.orders") == []


# what a run is for


ABOVE = """
    -- audits:
    --   - assert: amount < 50
    SELECT sum(amount) AS amount FROM gold.daily
"""
ABOVE_ALL = {**SMALL, "models/gold/above.sql": ABOVE}
MENDED = {"models/gold/above.sql": ABOVE.replace("< 50", "< 100")}


def test_a_resumed_run_builds_what_changed_meant_when_it_began(shop: MakeShop) -> None:
    it = shop(ABOVE_ALL)
    it.land(*FIRST)
    it("run")
    it.replace(DAILY, "sum(amount)", "2 * sum(amount)")
    run, said = it.failed_run("changed+")
    assert "gold.above failed: assert(amount < 50)" in said
    it.write(MENDED)
    assert it.built("--resume", run) == {"gold.above"}
    assert it.rows("gold.above") == [(2 * 27,)]
    assert it.plan() == {}


def test_what_changed_means_stays_when_main_moves_meanwhile(shop: MakeShop) -> None:
    it = shop(ABOVE_ALL | MENDED)
    it.land(*FIRST)
    it("run")
    it.replace(DAILY, "sum(amount)", "2 * sum(amount)")
    first = iter([True])

    def move(point: str) -> None:
        if point == "run.publishing" and next(first, False):
            it.lake.set_properties({"gold.above": {"note": "mine"}})

    faults.hook = move
    it("run", "changed+")
    faults.hook = None
    assert it.rows("gold.above") == [(2 * 27,)]
    assert it.plan() == {}


def test_a_resumed_run_keeps_its_variables_and_its_branch(shop: MakeShop) -> None:
    it = shop({**SMALL, "models/gold/above.sql": ABOVE.replace("sum(amount)", "{{ var('factor') }} * sum(amount)")})
    it.write({"mere.yaml": (it.folder / "mere.yaml").read_text() + "vars:\n  factor: 1\n"})
    it.land(*FIRST)
    run, _ = it.failed_run("--var", "factor=3")
    it.replace("models/gold/above.sql", "< 50", "< 100")
    it("branch", "create", "dev")
    for option, value in (("--var", "factor=3"), ("--on", "dev"), ("--to", "2024-02")):
        assert f"Leave out {option}." in it("run", "--resume", run, option, value, exit_code=2).stderr
    it("run", "--resume", run, "--on", "main")
    assert it.rows("gold.above") == [(3 * 27,)]


def test_only_a_branch_can_be_built_for(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("tag", "create", "v1")
    for on in ("v1", "main~1", it.lake.resolve("main").commit.id[:10]):
        said = it("run", "--on", on, exit_code=1).stderr
        assert f"{on} is not a branch" in said
        assert f"mere branch create fix --from {on}" in said
    assert it.runs() == []
    assert set(it.branches()) == {"main", "v1"}


def test_what_contradicts_itself_is_refused(shop: MakeShop) -> None:
    it = shop(SMALL)
    assert "Leave one of them out." in it("run", "--full-refresh", "--forward-only", exit_code=2).stderr
    assert "Leave one of them out." in it("plan", "--full-refresh", "--forward-only", exit_code=2).stderr


def test_a_project_without_models_has_nothing_to_do(shop: MakeShop) -> None:
    it = shop({})
    for command in ("plan", "run"):
        assert it(command).stdout == "nothing to do: no models\n"


def test_a_run_that_failed_cannot_be_published_by_hand(shop: MakeShop) -> None:
    it = shop(BAD)
    it.land(*FIRST)
    run, _ = it.failed_run()
    before = it.pointers()
    said = it("publish", f"run_{run}", exit_code=2).stderr
    assert f"mere run --resume {run}" in said
    assert it.pointers() == before
    assert "would publish" in it("publish", f"run_{run}", "--dry-run").stdout


# what is told


def test_a_run_that_ends_early_has_kept_what_it_had_built(shop: MakeShop) -> None:
    it = shop(ABOVE_ALL | MENDED)
    it.land(*FIRST)
    turns = iter(range(9))

    def interrupt(point: str) -> None:
        if point == "run.written" and next(turns) == 1:
            raise KeyboardInterrupt

    faults.hook = interrupt
    events = it.run(exit_code=130)
    faults.hook = None
    assert (events[-1]["event"], events[-1]["state"]) == ("end", "cancelled")
    (run,) = it.runs()
    assert run["status"] == "cancelled"
    assert {name: each["state"] for name, each in run["models"].items()} == {"gold.daily": "built"}
    assert "gold.daily  built" in it("runs", "show", run["id"]).stdout


def test_a_run_that_is_killed_has_kept_what_it_had_built(shop: MakeShop) -> None:
    it = shop(ABOVE_ALL | MENDED)
    it.land(*FIRST)
    seen: list[dict[str, Any]] = []

    def look(point: str) -> None:
        if point == "run.written":
            seen.append(it.runs()[0])

    faults.hook = look
    it("run")
    faults.hook = None
    last = seen[-1]
    assert last["status"] == "running"
    assert {name: each["state"] for name, each in last["models"].items()} == {"gold.daily": "built"}


def test_the_last_event_says_how_it_ended(shop: MakeShop) -> None:
    it = shop(BAD)
    it.land(*FIRST)
    last = it.run(exit_code=1)[-1]
    assert (last["event"], last["state"], last["commit"]) == ("end", "failed", None)
    assert "gold.daily failed: assert(amount > 4)" in last["error"]
    it.write({DAILY: "SELECT 1 AS one FROM landing.nothing\n"})
    (refused,) = it.run(exit_code=1)
    assert (refused["event"], refused["state"]) == ("end", "failed")
    assert "landing.nothing" in refused["error"]


def keeping(folder: Path) -> str:
    """A hook that writes what it is told into a file."""
    keep = folder / "keep.py"
    keep.write_text(f"import sys\nopen({str(folder / 'kept.json')!r}, 'wb').write(sys.stdin.buffer.read())\n")
    return f"on_failure:\n  command: {sys.executable} {keep}\n"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("SELECT 1 AS one FROM landing.nothing\n", "landing.nothing"),
        ("-- kind: nosuchkind\nSELECT 1 AS one\n", "nosuchkind"),
    ],
    ids=["cannot be planned", "cannot be read"],
)
def test_hooks_are_told_of_a_run_that_was_refused(model: str, said: str, shop: MakeShop, tmp_path: Path) -> None:
    it = shop({DAILY: model}, keeping(tmp_path))
    it("run", exit_code=1)
    told = json.loads((tmp_path / "kept.json").read_text())
    assert (told["id"], told["branch"], told["status"], told["target"]) == (None, None, "failed", "main")
    assert said in told["error"]
    assert it.runs() == []
    (tmp_path / "kept.json").unlink()
    it("run", "nosuch.model", exit_code=1 if "nosuchkind" in model else 2)
    assert (tmp_path / "kept.json").exists() == ("nosuchkind" in model)


def test_a_warned_audit_leads_to_rows_that_can_be_seen_afterwards(shop: MakeShop) -> None:
    warns = BAD[DAILY].replace("amount > 4", "amount > 4\n    --     severity: warn")
    it = shop({DAILY: warns})
    it.land(*FIRST)
    done = it("run")
    assert "warned: assert(amount > 4): 2 of 4 rows are bad" in done.stdout
    assert "--at run_" not in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "all of them: mere sql" in line]
    command = shlex.split(line.partition("mere ")[2])
    assert command[:3] == ["sql", "--at", "main"]
    assert len(json.loads(it(*command, "--json").stdout)) == 2


# branches


def test_a_branch_is_updated_for_machines_too(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("branch", "create", "dev")
    it("run", "--on", "dev")
    it.land((6, 1, "2024-02-02T05:00", 100))
    done = it("branch", "update", "dev", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (events[0]["event"], events[0]["kept"][-1]) == ("update", "gold.daily")
    assert [event["model"] for event in events if event["event"] == "built"] == ["gold.daily"]
    assert events[-1]["state"] == "published"
    assert it.rows("gold.daily", "dev") == expected([*FIRST, (6, 1, "2024-02-02T05:00", 100)])["gold.daily"]


@pytest.mark.parametrize("also_on_main", [False, True])
def test_updating_a_branch_leaves_samples_to_the_user(also_on_main: bool, shop: MakeShop) -> None:
    it = shop({**SMALL, "models/gold/whole.sql": "SELECT id FROM landing.events\n"})
    it.land(*FIRST)
    it("branch", "create", "dev")
    it("run", "--on", "dev", "gold.whole")
    it("run", "--on", "dev", "gold.daily", "--limit-windows", "1")
    if also_on_main:
        it("run", "gold.daily")
        it.replace(DAILY, "sum(amount)", "2 * sum(amount)")
    it.land((6, 1, "2024-02-02T05:00", 100))
    done = it("branch", "update", "dev")
    assert "built from a part of the data: gold.daily" in done.stdout
    assert "mere run --on dev gold.daily" in done.stdout
    assert "✓ gold.daily" not in done.stdout
    assert len(it.rows("gold.whole", "dev")) == len(FIRST) + 1
