"""Files become rows exactly once, on the run's branch: new, changed, touched and gone ones; dirt; kills."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from mere.lake import faults
from mere.names import TableName
from mere.pipeline.load import load as build
from mere.pipeline.write import query
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import Shop

ORDERS = """
files: data/orders_{year}-{month}.csv
columns:
  id: bigint
  city: string
  amount: decimal(10, 2)
max_bad: 2
path_columns: false
"""
EACH = f"{ORDERS}snapshots: each\n"
SOURCE = "sources/bronze/orders.yaml"
TABLE, LEDGER, DIRT = "bronze.orders", "bronze.orders__loads", "bronze.orders__quarantine"


def put(it: Shop, month: str, *lines: str, header: str = "id,city,amount") -> Path:
    file = it.folder / "data" / f"orders_{month}.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return file


def ids(it: Shop, at: str = "main") -> list[int]:
    return sorted(row[0] for row in it.rows(f"select id from {TABLE}", at))


def ledger(it: Shop, at: str = "main") -> list[tuple[Any, ...]]:
    return it.rows(f"select portion, rows, bad from {LEDGER} order by portion", at)


@pytest.fixture
def it(shop: MakeShop) -> Shop:
    made = shop({SOURCE: ORDERS})
    put(made, "2024-01", "1,Oslo,10.50", "2,Rome,3")
    return made


def test_a_file_is_loaded_once(it: Shop) -> None:
    it("run")
    assert it.rows(f"select id, city, amount::varchar, _source_file from {TABLE} order by id") == [
        (1, "Oslo", "10.50", "orders_2024-01.csv"),
        (2, "Rome", "3.00", "orders_2024-01.csv"),
    ]
    assert ledger(it) == [("orders_2024-01.csv", 2, 0)]
    assert it.rows(DIRT) == []
    assert it.plan() == {}
    put(it, "2024-02", "3,Bern,1")
    assert it.plan()[TABLE]["reasons"] == ["1 new file: orders_2024-02.csv"]
    it("run")
    assert (ids(it), it.plan()) == ([1, 2, 3], {})
    (run,) = {row[0] for row in it.rows(f"select distinct _run from {TABLE} where id = 3")}
    assert run == it.runs()[0]["id"]


def test_a_month_is_a_snapshot_if_each_is_to_have_one(it: Shop) -> None:
    it.write({SOURCE: EACH})
    put(it, "2024-02", "3,Bern,1")
    put(it, "2024-03", "4,Bern,1", "5,Bern,1")
    it("run")
    snapshots = it.lake.at("main").metadata(TABLE).snapshots
    assert [each.count("added-records") for each in snapshots] == [2, 1, 2]


def test_no_shuffle_gathers_the_rows_of_a_small_snapshot_however_many_come(
    shop: MakeShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = shop({SOURCE: "files: data/orders_{year}-{month}.parquet\nsnapshots: each\npartition_by: [year, month]\n"})
    with (it.folder / "mere.yaml").open("a") as settings:
        settings.write("    spark: {conf: {spark.sql.files.maxPartitionBytes: '1000'}}\n")
    (it.folder / "data").mkdir()
    files = [it.folder / "data" / f"orders_2024-0{month}.parquet" for month in (1, 2)]
    for file in files:
        pq.write_table(pa.table({"id": range(400)}), file, row_group_size=100)
    monkeypatch.setattr(query, "_SMALL", files[0].stat().st_size + 1)
    it("run")
    snapshots = it.lake.at("main").metadata(TABLE).snapshots
    assert [each.count("added-records") for each in snapshots] == [400, 400]
    assert all(each.count("added-data-files") > 1 for each in snapshots)  # a shuffle would have made one of each month


def test_months_come_together_and_are_loaded_again_and_replaced_one_by_one(it: Shop) -> None:
    put(it, "2024-02", "3,Bern,1", "4,Bern,x")
    put(it, "2024-03", "5,Bern,1", "6,Bern,1")
    it("run")
    assert [each.count("added-records") for each in it.lake.at("main").metadata(TABLE).snapshots] == [5]
    assert it.rows(f"select count(distinct load) from {LEDGER}") == [(1,)]
    it("run", "--select", TABLE, "--from", "2024-02", "--to", "2024-03")
    assert (ids(it), len(it.rows(DIRT))) == ([1, 2, 3, 5, 6], 1)
    put(it, "2024-02", "7,Bern,1")
    put(it, "2024-04", "8,Bern,1")
    it("run")
    assert (ids(it), it.rows(DIRT)) == ([1, 2, 5, 6, 7, 8], [])
    assert [row[1:] for row in ledger(it)] == [(2, 0), (1, 0), (2, 0), (1, 0)]
    # New files and changed ones do not come together.
    loads = it.rows(f"select load, portion from {LEDGER} where portion like '%-02.csv' or portion like '%-04.csv'")
    assert len({load for load, _ in loads}) == 2


def test_rows_that_are_neither_in_the_table_nor_in_quarantine_fail_the_run(it: Shop) -> None:
    put(it, "2024-02", "3,Bern,1", "4,Bern,x")

    def meddle(point: str) -> None:
        if point == "load.written":
            faults.hook = None
            (branch,) = (name for name in it.branches() if name.startswith("run_"))
            it.delete(TABLE, "id = 2", on=branch)

    faults.hook = meddle
    _, said = it.failed_run()
    assert "of 4 rows of orders_2024-01.csv and 1 more, 2 are in bronze.orders and 1 in quarantine" in said
    assert TABLE not in map(str, it.lake.at("main"))
    it("run")
    assert ids(it) == [1, 2, 3]


def test_without_a_time_files_come_together(shop: MakeShop) -> None:
    it = shop({SOURCE: ORDERS.replace("orders_{year}-{month}", "*").replace("max_bad", "batch: 2\nmax_bad")})
    for number in range(1, 6):
        put(it, f"2024-0{number}", *(f"{number}{each},Oslo,1" for each in range(number)))
    it("run")
    snapshots = it.lake.at("main").metadata(TABLE).snapshots
    assert [each.count("added-records") for each in snapshots] == [3, 7, 5]
    assert ledger(it) == [(f"orders_2024-0{number}.csv", number, 0) for number in range(1, 6)]


def test_a_changed_file_replaces_its_own_rows(it: Shop) -> None:
    it.write({SOURCE: EACH})
    put(it, "2024-02", "3,Bern,1", "4,Bern,x")
    it("run")
    put(it, "2024-02", "5,Bern,1")
    assert it.plan()[TABLE]["reasons"] == ["1 changed file: orders_2024-02.csv"]
    it("run")
    assert ids(it) == [1, 2, 5]
    assert ledger(it) == [("orders_2024-01.csv", 2, 0), ("orders_2024-02.csv", 1, 0)]
    assert it.rows(DIRT) == []  # what was bad in it is bad no more
    last = it.lake.at("main").metadata(TABLE).snapshots[-1]
    assert (last.operation, last.count("deleted-records")) == ("overwrite", 1)  # its month is one snapshot again


def test_files_that_came_together_are_replaced_one_by_one(shop: MakeShop) -> None:
    it = shop({SOURCE: ORDERS.replace("orders_{year}-{month}", "*")})
    put(it, "2024-01", "1,Oslo,1")
    put(it, "2024-02", "2,Oslo,1")
    it("run")
    put(it, "2024-02", "3,Oslo,1")
    it("run")
    assert ids(it) == [1, 3]


def test_a_file_that_was_only_touched_is_left_alone(it: Shop) -> None:
    it("run")
    file = it.folder / "data" / "orders_2024-01.csv"
    os.utime(file, ns=(1, 1))
    assert it.plan() == {}


@pytest.mark.parametrize(("policy", "left"), [("append", [1, 2, 5]), ("fail", [1, 2])])
def test_a_changed_file_by_another_policy(it: Shop, policy: str, left: list[int]) -> None:
    it.write({SOURCE: f"{ORDERS}on_change: {policy}\n"})
    it("run")
    put(it, "2024-01", "5,Bern,1")
    if policy == "fail":
        assert "changed after it was loaded" in it("run", exit_code=1).stderr
        assert it.plan()[TABLE]["action"] == "blocked"
    else:
        it("run")
    assert ids(it) == left


def test_a_file_that_is_gone_leaves_its_rows_and_the_plan_says_so(it: Shop) -> None:
    it("run")
    (it.folder / "data" / "orders_2024-01.csv").unlink()
    put(it, "2024-02", "3,Bern,1")
    assert it.plan()[TABLE]["notes"] == ["a file that was loaded is gone, and the rows stay: orders_2024-01.csv"]
    it("run")
    assert ids(it) == [1, 2, 3]


def test_moving_the_folder_loads_nothing_twice(it: Shop) -> None:
    it("run")
    (it.folder / "data").rename(it.folder / "elsewhere")
    it.write({SOURCE: ORDERS.replace("data/", "elsewhere/")})
    assert it.plan() == {}


def test_windows_are_loaded_again_when_asked_for(it: Shop) -> None:
    put(it, "2024-02", "3,Bern,1")
    put(it, "2024-03", "4,Bern,1")
    it("run")
    it("run", "--select", TABLE, "--from", "2024-01", "--to", "2024-03")
    assert ids(it) == [1, 2, 3, 4]
    run = it.runs()[0]["id"]
    assert it.rows(f"select portion from {LEDGER} where run = '{run}' order by 1") == [
        ("orders_2024-01.csv",),
        ("orders_2024-02.csv",),
    ]


def test_a_full_refresh_takes_what_there_is_now(it: Shop) -> None:
    put(it, "2024-02", "3,Bern,x")
    it("run")
    (it.folder / "data" / "orders_2024-01.csv").unlink()
    put(it, "2024-02", "4,Bern,1")
    it("run", "--full-refresh", TABLE)
    assert ids(it) == [4]
    assert ledger(it) == [("orders_2024-02.csv", 1, 0)]
    assert it.rows(DIRT) == []


def test_another_declaration_is_not_applied_to_what_is_there_unasked(it: Shop) -> None:
    it("run")
    it.write({SOURCE: ORDERS.replace("city: string", "city: {from: city, type: string}")})
    assert it.plan()[TABLE]["action"] == "blocked"
    it("run", "--forward-only", TABLE)
    assert it.plan() == {}


def test_bad_rows_are_put_aside_with_their_place_and_reason(it: Shop) -> None:
    put(it, "2024-02", "3,Bern,abc", "4,Bern,1", "5,Bern")
    it("run")
    assert ids(it) == [1, 2, 4]
    found = it.rows(f"select _source_file, _line, _raw, _why from {DIRT} order by _line")
    assert [row[:3] for row in found] == [
        ("orders_2024-02.csv", 2, "3,Bern,abc"),
        ("orders_2024-02.csv", 4, "5,Bern"),
    ]
    assert "amount" in found[0][3]
    assert "abc" in found[0][3]
    assert ledger(it)[1] == ("orders_2024-02.csv", 1, 2)


def test_more_dirt_than_allowed_fails_the_run(it: Shop) -> None:
    it("run")
    put(it, "2024-02", "3,Bern,a", "4,Bern,b", "5,Bern,c")
    _, said = it.failed_run()
    assert "readable" in said
    assert f"more than `max_bad` allows: 2 rows ({SOURCE}:6)" in said
    assert ids(it) == [1, 2]


def test_a_rule_puts_rows_of_a_source_aside(it: Shop) -> None:
    it.write({SOURCE: f"{ORDERS}audits:\n  - assert: amount > 5\n    quarantine: true\n"})
    it("run")
    assert ids(it) == [1]
    assert it.rows(f"select id, _rules, _raw from {DIRT}") == [(2, ["assert(amount > 5)"], "2,Rome,3")]


def test_what_was_mended_is_tried_again(it: Shop) -> None:
    it.write({SOURCE: f"{ORDERS}audits:\n  - assert: amount > 5\n    quarantine: true\n"})
    it("run")
    it.write({SOURCE: ORDERS})
    it("quarantine", "retry", TABLE)
    assert ids(it) == [1, 2]
    assert it.rows(DIRT) == []


def test_a_column_appears_in_the_middle_of_the_history(it: Shop) -> None:
    it("run")
    put(it, "2024-02", "3,Bern,1,great", header="id,city,amount,Some Note")
    it("run")
    assert it.rows(f"select id, some_note from {TABLE} order by id") == [(1, None), (2, None), (3, "great")]
    put(it, "2024-03", "4,Bern,1")
    it("run")
    assert ids(it) == [1, 2, 3, 4]


def test_a_missing_column_fails_with_both_sides(it: Shop) -> None:
    it("run")
    put(it, "2024-02", "3,Bern", header="id,city")
    _, said = it.failed_run()
    assert "orders_2024-02.csv" in said
    assert "amount" in said
    assert ids(it) == [1, 2]


def test_the_layout_evolves_without_rewriting(it: Shop) -> None:
    day = ORDERS.replace("city: string", "city: string\n  at: timestamp") + "partition_by: day(at)\n"
    it.write({SOURCE: day})
    put(it, "2024-01", "1,Oslo,1,2024-01-05T00:00:00Z", header="id,city,amount,at")
    it("run")
    files = it.rows(f"select count(*) from {TABLE}")
    it.write({SOURCE: day.replace("day(at)", "month(at)")})
    assert it.plan()[TABLE]["action"] == "alter"
    put(it, "2024-02", "2,Oslo,1,2024-02-05T00:00:00Z", "3,Oslo,1,2024-02-06T00:00:00Z", header="id,city,amount,at")
    it("run")
    snapshots = it.lake.at("main").metadata(TABLE).snapshots
    assert [each.count("added-data-files") for each in snapshots] == [1, 1]
    assert (files, ids(it)) == ([(1,)], [1, 2, 3])


def test_a_revert_takes_the_ledger_with_it(it: Shop) -> None:
    it("run")
    put(it, "2024-02", "3,Bern,1")
    it("run")
    it("revert", "main")
    assert ids(it) == [1, 2]
    assert it.plan()[TABLE]["reasons"] == ["1 new file: orders_2024-02.csv"]


def test_a_table_without_its_ledger_is_not_loaded_twice(it: Shop) -> None:
    it("run")
    it("drop", LEDGER)
    assert it.plan()[TABLE]["action"] == "blocked"


def test_a_rename_takes_all_three(it: Shop) -> None:
    it("run")
    it("rename", TABLE, "bronze.sales")
    it.remove(SOURCE)
    it.write({"sources/bronze/sales.yaml": ORDERS})
    assert it.plan() == {}
    assert it.rows("select portion from bronze.sales__loads") == [("orders_2024-01.csv",)]


def test_models_read_it_like_any_table(it: Shop) -> None:
    it.write({"models/gold/cities.sql": "SELECT city, sum(amount) AS amount FROM bronze.orders GROUP BY city"})
    assert it.built() == {TABLE, "gold.cities"}
    put(it, "2024-02", "3,Oslo,1")
    assert it.built() == {TABLE, "gold.cities"}
    assert it.rows("select city, amount::varchar from gold.cities order by 1") == [("Oslo", "11.50"), ("Rome", "3.00")]


def test_nothing_that_matches_is_said_before_anything_runs(shop: MakeShop) -> None:
    it = shop({SOURCE: ORDERS})
    (it.folder / "data").mkdir()
    step = it.plan()[TABLE]
    assert step["action"] == "blocked"
    assert "orders_{year}-{month}.csv" in step["reasons"][0]


def test_a_folder_that_vanished(it: Shop) -> None:
    it("run")
    (it.folder / "data").rename(it.folder / "gone")
    assert it.plan()[TABLE]["action"] == "blocked"
    assert ids(it) == [1, 2]


def test_a_file_that_changes_while_it_is_read(it: Shop) -> None:
    it("run")
    put(it, "2024-02", "3,Bern,1")

    def meddle(point: str) -> None:
        if point == "load.reading":
            faults.hook = None
            put(it, "2024-02", "3,Bern,1", "4,Bern,1")

    faults.hook = meddle
    _, said = it.failed_run()
    assert "changed while it was read" in said
    assert ids(it) == [1, 2]
    it("run")
    assert ids(it) == [1, 2, 3, 4]


def test_two_loads_at_once(it: Shop) -> None:
    put(it, "2024-02", "3,Bern,1")
    with it.lake.lease([TableName.parse(TABLE)], "somebody"):
        assert [each["state"] for each in it.run("--if-running", "skip") if each["event"] == "end"] == ["skipped"]
    results: list[int] = []
    # One process has one current folder, so that the second is the same run asked twice.
    threads = [threading.Thread(target=lambda: results.append(it("run").exit_code)) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert results == [0, 0]
    assert (ids(it), len(ledger(it))) == ([1, 2, 3], 2)


def test_packed_text_is_read(shop: MakeShop) -> None:
    it = shop({SOURCE: ORDERS.replace(".csv", ".csv.gz")})
    file = it.folder / "data" / "orders_2024-01.csv.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(b"id,city,amount\n1,Oslo,1\n2,Oslo,x\n"))
    it("run")
    assert ids(it) == [1]
    assert it.rows(f"select _line, _raw from {DIRT}") == [(3, "2,Oslo,x")]


# Killed at every step

POINTS = ["load.reading", "load.written", "load.put_aside", "load.batch", "load.recorded", "run.written"]
POINTS += ["run.audited", "run.signed", "run.publishing", "properties.written", "publish.prepared", "commit.recorded"]
# One in and one after what a load writes, and one of the publish; all of them in the long run.
KILLS = [
    ("load.written", "resume"),
    ("load.recorded", "again"),
    ("commit.recorded", "resume"),
]


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


@pytest.fixture(scope="module")
def crashing(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Iterator[Shop]:
    it = Shop(tmp_path_factory.mktemp("loading") / "shop", {SOURCE: EACH})
    put(it, "2024-01", "1,Oslo,1")
    it("run")
    yield it
    it.lake.close()


@pytest.mark.parametrize(("point", "way"), KILLS)
def test_a_kill_loses_no_file_and_loads_none_twice(
    point: str, way: str, crashing: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_and_mend(point, way, crashing, monkeypatch)


@pytest.mark.parametrize(
    ("point", "way"),
    [("load.put_aside", "resume"), pytest.param("load.recorded", "again", marks=pytest.mark.long)],
)
def test_a_kill_in_a_batch_of_months(point: str, way: str, crashing: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    crashing.write({SOURCE: ORDERS})
    try:
        kill_and_mend(point, way, crashing, monkeypatch, once=True)
    finally:
        crashing.write({SOURCE: EACH})


@pytest.mark.long
@pytest.mark.parametrize(("point", "way"), [*product(POINTS, ("again", "resume"))])
def test_a_kill_at_any_point(point: str, way: str, crashing: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    kill_and_mend(point, way, crashing, monkeypatch)


def kill_and_mend(point: str, way: str, it: Shop, monkeypatch: pytest.MonkeyPatch, once: bool = False) -> None:
    """`once`: the point is passed only once."""
    monkeypatch.setattr(build, "_PAUSE", -1.0)  # what is there is signed after each batch
    number = len(ledger(it)) + 1
    months = [f"{2024 + each // 12}-{each % 12 + 1:02}" for each in range(number, number + 2)]
    for at, month in enumerate(months):
        put(it, month, f"{number + at},Oslo,1", f"{number + at},Oslo,bad")
    before = ids(it)
    passed = count(1)

    def fail(name: str) -> None:
        if name == point and next(passed) == 1 + (not once and point.startswith("load") and len(point) % 2):
            raise Crash

    faults.hook = fail
    with pytest.raises(Crash):
        it("run")
    faults.hook = None
    published = point == "commit.recorded"
    assert ids(it) in ([before, [*before, number, number + 1]] if published else [before])
    run = it.runs()[0]["id"]
    it.silence(run)
    if any(True for lease in it.lake.store.leases()):
        it.end_lease(run)
    if way == "resume" and it.lake.store.ref(f"run_{run}") is not None:
        it("run", "--resume", run)
    else:
        it("run")
    assert ids(it) == [*before, number, number + 1]
    assert it.rows(f"select count(*), count(distinct _source_file || _raw) from {DIRT}") == [(number, number)]
    assert [row[1:] for row in ledger(it)[1:]] == [(1, 1)] * number


def test_errors_name_the_source_and_its_file(it: Shop) -> None:
    it("run")
    (it.folder / "data" / "orders_2024-02.csv").write_bytes(b"")
    _, said = it.failed_run()
    assert SOURCE in said
    assert "orders_2024-02.csv is empty" in said
