"""`mere run`: what is built, why, and what stands on main afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from mere.lake import faults
from tests.pipeline.conftest import MakeShop
from tests.pipeline.load.test_load import put
from tests.pipeline.shop import CITIES, DAILY, FIRST, SMALL, WHOLE, Shop, expected

NO_JVM = """
import sys
from mere.cli import main
for arguments in (["plan"], ["run"], ["run", "--json"], ["runs"], ["audit"]):
    main(arguments, standalone_mode=False)
assert not {"pyspark", "py4j"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Shop]:
    """The whole project after its first run, for tests that only look."""
    it = Shop(tmp_path_factory.mktemp("run") / "shop", WHOLE)
    it.land(*FIRST)
    before = it.pointers()
    seen: list[str] = []

    def nothing_is_on_main_yet(point: str) -> None:
        if point.startswith("run."):
            assert it.pointers() == before
            seen.append(point)

    faults.hook = nothing_is_on_main_yet
    it("run")
    faults.hook = None
    assert "run.publishing" in seen
    yield it
    it.lake.close()


SILVER_AND_LATE = {name: text for name, text in WHOLE.items() if "totals" not in name}
SILVER_AND_LATE["models/gold/daily.sql"] = DAILY.replace("-- batch", "-- start: 2024-02-06\n    -- batch")

# what is built


def test_the_first_run_publishes_everything_by_one_commit(built: Shop) -> None:
    assert built.everything() == expected(FIRST)
    (commit,) = built.published()
    assert {str(change.key) for change in commit.changes if change.key.name} >= {*expected(FIRST)}
    assert commit.run == built.runs()[-1]["id"]
    assert built.branches() == ["main"]
    for table in expected(FIRST):
        state = built.state(table)
        assert state.run == commit.run
        assert state.complete
    assert set(built.state("gold.totals").inputs) == {"silver.events", "staging.names", "raw.cities"}


def test_with_nothing_to_do_no_jvm_is_started(built: Shop) -> None:
    nowhere = {"PATH": "", "JAVA_HOME": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", NO_JVM],
        cwd=built.folder,
        env={**os.environ, **nowhere},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("nothing to do: 6 models up to date") == 2
    assert len(built.published()) == 1
    assert built.run()[-1] == {"event": "end", "state": "nothing", "commit": None}


def test_late_rows_rebuild_their_windows_and_no_others(shop: MakeShop) -> None:
    it = shop(WHOLE)
    it.land(*FIRST)
    it("run")
    late = [(6, 3, "2024-02-02T05:00", 100), (7, 1, "2024-02-04T05:00", 1)]
    it.land(*late)
    plan = it.plan()
    assert plan["bronze.events"]["action"] == "rows"
    assert plan["bronze.events"]["reasons"] == ["new rows in landing.events"]
    events = it.run()
    assert it.everything() == expected([*FIRST, *late])
    reasons = {event["model"]: event["reasons"] for event in events if event["event"] == "built"}
    assert reasons.keys() == {"bronze.events", "silver.events", "gold.daily", "gold.totals"}
    assert reasons["silver.events"] == ["2 days: 2024-02-02, 2024-02-04: late rows in bronze.events"]
    assert reasons["gold.daily"][0].startswith("2 days: 2024-02-02, 2024-02-04: ")
    growth = {
        event["model"]: tuple(event[f"{what}_{how}"] for what in ("files", "rows") for how in ("added", "removed"))
        for event in events
        if event["event"] == "built"
    }
    assert growth["bronze.events"] == (1, 0, 2, 0)
    assert growth["silver.events"] == (2, 1, 3, 1)
    assert growth["gold.daily"] == (2, 1, 2, 1)
    assert it.built() == set()


def test_what_is_due_is_looked_at_again_when_the_inputs_are_built(shop: MakeShop) -> None:
    """A plan can only say what may have to be built: which windows a model's new rows are in is known afterwards."""
    late = SMALL["models/gold/daily.sql"].replace("landing.events", "bronze.events")
    it = shop(
        {
            "models/bronze/events.sql": WHOLE["models/bronze/events.sql"],
            "models/gold/daily.sql": late.replace("-- batch", "-- start: 2024-02-03\n    -- batch"),
        }
    )
    it.land(*FIRST)
    it("run")
    assert [str(row[0]) for row in it.rows("gold.daily")] == ["2024-02-03", "2024-02-05"]
    it.land((6, 1, "2024-02-02T05:00", 3))
    assert set(it.plan()) == {"bronze.events", "gold.daily"}
    events = it.run()
    assert [event["model"] for event in events if event["event"] == "built"] == ["bronze.events"]
    assert [event["model"] for event in events if event["event"] == "unchanged"] == ["gold.daily"]
    assert it.plan() == {}


def test_a_change_of_code_rebuilds_and_a_change_of_looks_does_not(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.replace("models/gold/daily.sql", "SELECT CAST(at", "SELECT -- the day\n  cast(at")
    it.replace("models/gold/daily.sql", "-- batch: 2\n", "-- batch: 3\n-- description: By day.\n")
    assert it.plan() == {}
    it.replace("models/gold/daily.sql", "sum(amount)", "2 * sum(amount)")
    assert it.plan()["gold.daily"]["reasons"] == ["SQL changed"]
    assert it.built() == {"gold.daily"}
    assert [row[2] for row in it.rows("gold.daily")] == [30, 14, 2, 8]


def test_a_seed_that_changed_reaches_all_that_stands_on_it_also_through_a_view(shop: MakeShop) -> None:
    it = shop(WHOLE)
    it.land(*FIRST)
    it("run")
    (it.folder / "seeds/raw/cities.csv").touch()
    assert it.plan() == {}
    cities = CITIES.replace("Rom", "Roma")
    it.write({"seeds/raw/cities.csv": cities})
    assert it.plan()["raw.cities"]["reasons"] == ["its file changed"]
    assert it.built() >= {"raw.cities", "silver.events", "gold.totals"}
    assert it.everything() == expected(FIRST, cities)
    assert it.built() == set()


def test_an_append_model_takes_each_row_once(shop: MakeShop) -> None:
    it = shop({"models/bronze/events.sql": WHOLE["models/bronze/events.sql"]})
    for number, row in enumerate(FIRST, start=1):
        it.land(row)
        it("run")
        it("run")
        assert [each[0] for each in it.rows("bronze.events")] == list(range(1, number + 1))
    it.delete("landing.events", "id = 2")
    step = it.plan()["bronze.events"]
    assert step["action"] == "blocked"
    assert "was not only appended to" in step["reasons"][0]
    assert "Nothing was run." in it("run", exit_code=1).stderr
    it("plan", "--accept", "bronze.events")
    it.land((6, 1, "2024-02-02T05:00", 1))
    it("run")
    assert [each[0] for each in it.rows("bronze.events")] == [1, 2, 3, 4, 5, 6]
    it("run", "--full-refresh")
    assert [each[0] for each in it.rows("bronze.events")] == [1, 3, 4, 5, 6]


def test_a_view_follows_its_ref_and_what_reads_it_is_rebuilt_with_its_tables(shop: MakeShop) -> None:
    files = {
        "models/staging/large.sql": "-- kind: view\nSELECT id, amount FROM landing.events WHERE amount >= 5\n",
        "models/gold/sum.sql": "SELECT sum(amount) AS amount FROM staging.large\n",
    }
    it = shop(files)
    it.land(*FIRST)
    it("run")
    assert it.rows("gold.sum") == [(22,)]
    it("branch", "create", "dev")
    it.land((6, 1, "2024-02-02T05:00", 100), on="dev")
    assert [row[0] for row in it.rows("staging.large", "dev")] == [1, 2, 3, 6]
    assert [row[0] for row in it.rows("staging.large")] == [1, 2, 3]
    assert it.plan() == {}
    assert it.built("--on", "dev") == {"gold.sum"}
    assert it.rows("gold.sum", "dev") == [(122,)]
    assert it.rows("gold.sum") == [(22,)]
    it.replace("models/staging/large.sql", ">= 5", ">= 1")
    assert it.built() == {"staging.large", "gold.sum"}
    assert it.rows("gold.sum") == [(27,)]


def test_a_project_can_be_run_before_there_is_any_data(shop: MakeShop) -> None:
    it = shop(WHOLE)
    it("run")
    assert it.rows("bronze.events") == it.rows("silver.events") == it.rows("gold.daily") == []
    assert it.plan() == {}
    it.land(*FIRST)
    it("run")
    assert it.everything() == expected(FIRST)
    assert it.plan() == {}


def test_new_days_reach_a_model_that_had_none_of_the_days_before(shop: MakeShop) -> None:
    """Which days a model before it will have is not known when the plan is made."""
    it = shop(SILVER_AND_LATE)
    it.land(*FIRST)
    it("run")
    assert it.rows("gold.daily") == []
    new = (6, 1, "2024-02-07T05:00", 3)
    it.land(new)
    it("run")
    assert it.rows("gold.daily") == expected([new])["gold.daily"]
    assert it.plan() == {}


# what the user asks for


def test_full_refresh_and_a_range_of_windows(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run", "--to", "2024-02-03")
    assert [str(row[0]) for row in it.rows("gold.daily")] == ["2024-02-01", "2024-02-02"]
    assert it.state("gold.daily").pending
    assert [window[0][:10] for window in it.plan()["gold.daily"]["windows"]] == ["2024-02-03"]
    it("run")
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]
    before = it.lake.at().metadata("gold.daily")
    assert it.plan("--from", "2024-02-02", "--to", "2024-02-03")["gold.daily"]["action"] == "windows"
    it("run", "--from", "2024-02-02", "--to", "2024-02-03")
    after = it.lake.at().metadata("gold.daily")
    added = after.since(before.current.id if before.current else None)
    assert added is not None
    assert [(each.stats.files_added, each.stats.files_removed) for each in added] == [(1, 1)]
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]
    assert it.plan() == {}
    assert it.built("--full-refresh") == {"gold.daily"}
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]


def test_a_range_leaves_what_is_due_elsewhere_due(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.land((6, 1, "2024-02-02T05:00", 100), (7, 1, "2024-02-03T05:00", 100))
    it("run", "--from", "2024-02-02", "--to", "2024-02-03")
    assert [row[2] for row in it.rows("gold.daily")] == [15, 107, 1, 4]
    assert it.plan()["gold.daily"]["reasons"] == ["1 day: 2024-02-03: due since an earlier run"]
    it("run")
    assert [row[2] for row in it.rows("gold.daily")] == [15, 107, 101, 4]
    assert it.plan() == {}


def test_forward_only_keeps_what_is_built_and_uses_the_new_code_from_then_on(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.replace("models/gold/daily.sql", "sum(amount) AS amount", "10 * sum(amount) AS amount, max(id) AS last")
    it.land((6, 1, "2024-02-02T05:00", 1))
    it("run", "--forward-only")
    assert [row[2:] for row in it.rows("gold.daily")] == [(15, None), (80, 6), (1, None), (4, None)]
    assert it.plan() == {}


def test_forward_only_with_other_columns_is_refused_with_the_file(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.replace("models/gold/daily.sql", "sum(amount) AS amount", "CAST(sum(amount) AS string) AS amount")
    it.land((6, 1, "2024-02-02T05:00", 1))
    before = it.pointers()
    _, said = it.failed_run("--forward-only")
    assert "models/gold/daily.sql: gold.daily makes amount a string: it is a bigint" in said
    assert "mere run --allow-breaking gold.daily" in said
    assert it.pointers() == before


def test_a_change_that_is_accepted_is_not_built(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.replace("models/gold/daily.sql", "sum(amount)", "sum(amount * 1)")
    assert "gold.daily" in it.plan()
    assert "accepted as built: gold.daily" in it("plan", "--accept", "gold.daily").stdout
    assert it.built() == set()
    it.land((6, 1, "2024-02-02T05:00", 1))
    assert [window[0][:10] for window in it.plan()["gold.daily"]["windows"]] == ["2024-02-02"]


@pytest.mark.parametrize("way", ["accept", "refresh"])
def test_a_table_that_was_changed_outside_needs_a_decision(way: str, shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.delete("gold.daily", "day = '2024-02-02'")
    step = it.plan()["gold.daily"]
    assert step["action"] == "blocked"
    assert step["reasons"][0].startswith("changed outside mere at commit ")
    refused = it("run", exit_code=1).stderr
    assert "Nothing was run." in refused
    assert "mere plan --accept gold.daily" in refused
    if way == "accept":
        it("plan", "--accept", "gold.daily")
        assert it.built() == set()
        assert len(it.rows("gold.daily")) == 3
    else:
        it("run", "--full-refresh", "gold.daily")
        assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]


def test_a_model_that_was_removed_or_renamed_leaves_its_table_until_the_user_says(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("run")
    it.write({"models/gold/by_day.sql": DAILY.replace("silver.events", "landing.events")})
    it.remove("models/gold/daily.sql")
    said = it("plan").stdout
    assert "gold.daily is on main, but no model makes it now." in said
    assert "mere rename gold.daily gold.by_day" in said
    it("rename", "gold.daily", "gold.by_day")
    assert it.plan() == {}
    assert it.built() == set()
    it.remove("models/gold/by_day.sql")
    it.write({"models/gold/other.sql": "SELECT count(*) AS events FROM landing.events\n"})
    assert it.built() == {"gold.other"}
    assert it.rows("gold.by_day") == expected(FIRST)["gold.daily"]
    it("drop", "gold.by_day")
    assert "gold.by_day" not in it("plan").stdout


def test_a_model_can_become_a_view_and_a_table_again(shop: MakeShop) -> None:
    text = "SELECT sum(amount) AS amount FROM landing.events\n"
    it = shop({"models/gold/sum.sql": text})
    it.land(*FIRST)
    it("run")
    it.write({"models/gold/sum.sql": f"-- kind: view\n{text}"})
    assert it.plan()["gold.sum"]["reasons"] == ["was full, is now view"]
    it("run")
    assert it.lake.at().is_view("gold.sum")
    assert it.rows("gold.sum") == [(27,)]
    it.write({"models/gold/sum.sql": text})
    it("run")
    assert not it.lake.at().is_view("gold.sum")
    assert it.rows("gold.sum") == [(27,)]
    assert it.plan() == {}


def test_a_view_is_made_again_only_when_it_or_the_columns_below_changed(shop: MakeShop) -> None:
    source = "sources/bronze/s.yaml"
    it = shop(
        {
            source: "files: data/orders_*.csv\npath_columns: false\ncolumns: {id: bigint}\n",
            "models/gold/all.sql": "-- kind: view\nSELECT * FROM bronze.s\n",
            "models/gold/ids.sql": "-- kind: view\n-- audits: [{not_null: id}]\nSELECT id FROM gold.all\n",
        }
    )
    put(it, "1", "1", header="id")
    it("run")
    made = {name: it.lake.at().pointer(f"gold.{name}") for name in ("all", "ids")}
    put(it, "2", "2", header="id")
    plan = it.plan()
    assert "gold.all" not in plan
    assert plan["gold.ids"]["action"] == "audit"
    assert it.built() == {"bronze.s", "gold.ids"}
    assert it.lake.at().pointer("gold.all") == made["all"]
    assert "gold.all" not in it.runs()[0]["models"]
    put(it, "3", "3,Rome", header="id,city")  # only the run can know that it has a new column
    assert "gold.all" not in it.plan()
    assert it.built() >= {"bronze.s", "gold.all"}
    assert it.rows("select id, city from gold.all") == [(1, None), (2, None), (3, "Rome")]
    assert it.plan() == {}
    it.write({source: (it.folder / source).read_text() + "description: orders\n"})
    assert it.plan() == {}
    it.write({"models/gold/all.sql": "-- kind: view\nSELECT *, 1 AS one FROM bronze.s\n"})
    assert it.plan()["gold.ids"]["reasons"] == ["the columns of gold.all may change"]


# columns and times

COPY = """
    from pyspark.sql import DataFrame

    from mere import model, table


    @model("silver.copy", kind="incremental", time_column="at", grain="day")
    def copy(events: DataFrame = table("landing.events", time="at")) -> DataFrame:
        return events
"""


def test_a_column_that_comes_up_in_an_input_is_added_and_one_of_another_type_refused(shop: MakeShop) -> None:
    it = shop({"models/silver/copy.py": COPY})
    it.land(*FIRST)
    it("run")
    with it.lake.pyiceberg().load_table("landing.events").update_schema() as change:
        change.add_column("extra", LongType())
    table = it.lake.pyiceberg().load_table("landing.events")
    row = {**table.scan(row_filter="id = 1").to_arrow().to_pylist()[0], "id": 6, "extra": 7}
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
    it("run")
    assert [each[-1] for each in it.rows("silver.copy")] == [None, None, None, None, None, 7]
    it.replace("models/silver/copy.py", "return events", "return events.drop('amount')")
    table.append(pa.Table.from_pylist([{**row, "id": 7}], schema=table.schema().as_arrow()))
    before = it.pointers()
    _, said = it.failed_run("--forward-only")
    assert "models/silver/copy.py: silver.copy drops amount" in said
    assert it.pointers() == before


def test_rows_without_a_time_and_rows_outside_of_their_window_stop_the_run(shop: MakeShop) -> None:
    it = shop({"models/silver/copy.py": COPY})
    it.land(*FIRST)
    null = "return events.withColumn('at', F.expr('CASE WHEN id <> 3 THEN at END'))"
    it.replace("models/silver/copy.py", "return events", null)
    it.replace("models/silver/copy.py", "import DataFrame", "import DataFrame\nfrom pyspark.sql import functions as F")
    _, said = it.failed_run()
    assert "models/silver/copy.py: 1 row of silver.copy without at, and so without a window." in said
    assert "silver.copy failed: models/" in said
    it.replace("models/silver/copy.py", null, "return events.withColumn('at', F.expr(\"at + interval 1 month\"))")
    _, said = it.failed_run()
    assert "models/silver/copy.py: silver.copy returned rows outside of the windows that it was asked for" in said
    assert "at from 2024-03-01" in said
    assert "silver.copy" not in it.everything()


# errors in models


def test_an_error_is_told_with_the_file_and_the_line(shop: MakeShop) -> None:
    files = {
        "models/gold/broken.py": """
            from pyspark.sql import DataFrame

            from mere import model, table


            def deeper(events: DataFrame) -> DataFrame:
                raise ValueError("no such luck")


            @model("gold.broken")
            def broken(events: DataFrame = table("landing.events")) -> DataFrame:
                return deeper(events)
        """,
        "models/gold/lost.py": """
            from pyspark.sql import DataFrame

            from mere import model, table


            @model("gold.lost")
            def lost(events: DataFrame = table("landing.events")) -> DataFrame:
                return 1
        """,
        "models/gold/unknown.sql": "-- description: >\n--   two\n--   lines\nSELECT\n  amuont\nFROM landing.events\n",
        "models/gold/worker.py": """
            from pyspark.sql import DataFrame
            from pyspark.sql import functions as F

            from mere import model, table


            @F.udf("bigint")
            def inverse(id_):  # type: ignore[no-untyped-def]
                return 1 // (id_ - 1)


            @model("gold.worker")
            def worker(events: DataFrame = table("landing.events")) -> DataFrame:
                return events.select(inverse("id").alias("x"))
        """,
        "models/gold/divided.sql": "-- kind: full\n\n\nSELECT id, 1 DIV (id - 1) AS x FROM landing.events\n",
        "models/gold/fine.sql": "SELECT id FROM landing.events\n",
    }
    it = shop(files)
    it.land(*FIRST)
    before = it.pointers()
    run, said = it.failed_run("--no-check")
    assert "gold.broken failed: models/gold/broken.py:7: ValueError: no such luck" in said
    assert "gold.lost failed: models/gold/lost.py:7: lost must return a DataFrame of Spark, not int." in said
    assert "gold.unknown failed: models/gold/unknown.sql:5:3: " in said
    assert "amuont" in said
    assert "gold.divided failed: models/gold/divided.sql:4" in said
    assert "gold.worker failed: models/gold/worker.py:13: A Python function failed: ZeroDivisionError: " in said
    assert "(worker.py, line 9)" in said
    assert "Traceback" not in said
    assert it.pointers() == before
    assert it.rows("gold.fine", f"run_{run}") == [(1,), (2,), (3,), (4,), (5,)]


# audits


def test_a_failing_audit_publishes_nothing_and_the_run_goes_on_after_the_fix(shop: MakeShop) -> None:
    it = shop({**WHOLE, "models/gold/alone.sql": "SELECT count(*) AS cities FROM raw.cities\n"})
    it.land(*FIRST, (6, 1, "2024-02-02T05:00", -3))
    before = it.pointers()
    run, said = it.failed_run()
    branch = f"run_{run}"
    assert "silver.events failed: assert(amount >= 0): 1 " in said
    assert "not built because of that: gold.daily, gold.totals" in said
    assert f"main was left as it was. What was built is on the branch {branch}." in said
    assert f"mere sql --at {branch} 'from silver.events'" in said
    assert f"mere run --resume {run}" in said
    assert it.pointers() == before
    assert len(it.rows("silver.events", branch)) == 6
    assert it.rows("gold.alone", branch) == [(3,)]
    assert "-3" in it("sql", "--at", branch, "from silver.events").stdout
    shown = it.runs()[0]
    assert shown["status"] == "failed"
    assert shown["models"]["gold.daily"] == {"state": "unbuilt", "because_of": "silver.events", "attempt": 1}
    assert shown["models"]["silver.events"]["audits"][1]["sample"][0]["amount"] == -3

    it.replace("models/silver/events.sql", "e.at < :end", "e.at < :end AND e.amount >= 0")
    assert it.built("--resume", run) == {"silver.events", "gold.daily", "gold.totals"}
    bronze = {"bronze.events": expected([*FIRST, (6, 1, "2024-02-02T05:00", -3)])["bronze.events"]}
    assert it.everything() == {**expected(FIRST), **bronze, "gold.alone": [(3,)]}
    assert it.branches() == ["main"]
    assert len(it.published()) == 1
    assert it.runs()[0]["status"] == "succeeded"
    assert it("run", "--resume", run).stdout.startswith(f"nothing to do: run {run} was published already")


def test_a_warning_is_told_and_does_not_block(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it.replace(
        "models/gold/daily.sql", "-- batch: 2", "-- audits:\n--   - {assert: amount > 4, severity: warn}\n-- batch: 2"
    )
    said = it("run").stdout
    assert "warned: assert(amount > 4): 2 " in said
    assert "published commit" in said
    assert "0 of 1 passed" in it("runs", "show", it.runs()[0]["id"]).stdout


# branches and parts of the data


def test_a_run_for_a_branch_leaves_main_alone_until_the_branch_is_published(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("branch", "create", "dev")
    before = it.pointers()
    assert it.built("--on", "dev") == {"gold.daily"}
    assert it.pointers() == before
    assert it.rows("gold.daily", "dev") == expected(FIRST)["gold.daily"]
    assert it.branches() == ["dev", "main"]
    assert it.built("--on", "dev") == set()
    it("publish", "dev")
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]
    assert it.built() == set()


def test_a_part_of_the_data_may_stand_on_a_branch_and_never_on_main(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    for part in (("--limit-windows", "2"), ("--sample", "50%")):
        assert "cannot be published to main" in it("run", *part, exit_code=2).stderr
    it("branch", "create", "dev")
    it("run", "--on", "dev", "--limit-windows", "2")
    assert [str(row[0]) for row in it.rows("gold.daily", "dev")] == ["2024-02-05"]
    assert it.state("gold.daily", "dev").sample
    before = it.pointers()
    assert "gold.daily" in it("publish", "dev", exit_code=1).stderr
    assert it.pointers() == before
    assert it.plan("--on", "dev")["gold.daily"]["reasons"] == ["was built from a part of the data"]
    it("run", "--on", "dev", "--sample", "50%", "--full-refresh")
    assert sum(row[1] for row in it.rows("gold.daily", "dev")) < len(FIRST)
    it("run", "--on", "dev")
    assert it.rows("gold.daily", "dev") == expected(FIRST)["gold.daily"]
    it("publish", "dev")
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]


# usage


def test_wrong_usage_ends_with_2(built: Shop) -> None:
    for arguments in (
        ("--sample", "2"),
        ("--from", "2024-02-03", "--to", "2024-02-01"),
        ("--from", "tomorrow"),
        ("--if-running", "perhaps"),
        ("--resume", "0123456789ab", "--full-refresh"),
        ("--threads", "0"),
        ("--var", "novalue"),
    ):
        it = built("run", *arguments, exit_code=2)
        assert it.stderr
    assert "There is no run 'nosuchrun'" in built("run", "--resume", "nosuchrun", exit_code=1).stderr
    assert "'nosuchbranch'" in built("run", "--on", "nosuchbranch", exit_code=1).stderr
    assert "gold.daly" in built("run", "gold.daly", exit_code=2).stderr


def test_runs_are_listed_and_shown(built: Shop) -> None:
    (run,) = built.runs()
    assert run["status"] == "succeeded"
    assert run["target"] == "main"
    assert run["commit"] == built.published()[0].id
    assert f"{run['id']}  succeeded  main" in built("runs").stdout
    shown = built("runs", "show", run["id"]).stdout
    for line in shown.splitlines():
        if line.startswith("silver.events"):
            assert line.split()[1] == "built"
            assert "+5 -0" in line
            assert "2 of 2 passed" in line
            break
    else:
        pytest.fail(shown)
    assert "There is no run" in built("runs", "show", "nosuchrun", exit_code=1).stderr
