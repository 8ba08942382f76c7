"""What a source asks before it goes on: another declaration, files that are gone, columns that would go."""

from __future__ import annotations

import pytest

from tests.pipeline.conftest import MakeShop
from tests.pipeline.load.test_load import ids, put
from tests.pipeline.shop import Shop

SOURCE, TABLE = "sources/bronze/orders.yaml", "bronze.orders"
BY_DAY = "files: data/orders_{date}.csv\ncolumns: {id: bigint}\n"


@pytest.fixture
def it(shop: MakeShop) -> Shop:
    made = shop({SOURCE: BY_DAY})
    put(made, "2024-01-01", "1,Oslo", header="id,city")
    return made


def test_other_fields_in_the_path_ask_for_a_decision_and_each_way_out_works(it: Shop) -> None:
    it("run")
    it.write({SOURCE: BY_DAY.replace("{date}", "*")})
    put(it, "2024-01-02", "2,Rome", header="id,city")
    step = it.plan()[TABLE]
    reason = "`files` was data/orders_{date}.csv, is now data/orders_*.csv"
    assert (step["action"], step["reasons"]) == ("blocked", [reason])
    assert f"{TABLE} needs a decision: {reason}\n" in it("plan").stdout
    it("run", "--full-refresh", TABLE, exit_code=1)  # `date` would go
    it("run", "--full-refresh", "--allow-breaking", TABLE)
    assert it.rows(f"select id, city from {TABLE} order by id") == [(1, "Oslo"), (2, "Rome")]
    assert "date" not in it.lake.at("main").table(TABLE).arrow().column_names

    it.write({SOURCE: BY_DAY})
    put(it, "2024-01-03", "3,Rome", header="id,city")
    assert it.plan()[TABLE]["action"] == "blocked"
    it("run", "--forward-only", TABLE)
    assert it.rows(f"select id, date::varchar from {TABLE}") == [(1, None), (2, None), (3, "2024-01-03")]
    assert it.plan() == {}


def test_files_that_are_gone_are_told_at_every_plan(it: Shop) -> None:
    put(it, "2024-01-02", "2,Rome", header="id,city")
    it("run")
    (it.folder / "data" / "orders_2024-01-01.csv").unlink()
    told = f"note: {TABLE}: a file that was loaded is gone, and the rows stay: orders_2024-01-01.csv"
    shown = it("plan").stdout
    assert told in shown
    assert "nothing to do" in shown
    put(it, "2024-01-03", "3,Bern", header="id,city")
    assert told in it("plan").stdout
    assert told.replace("the rows stay", "their rows go") in it("plan", "--full-refresh", TABLE).stdout
    it("run")
    assert ids(it) == [1, 2, 3]


def test_a_refresh_has_the_columns_of_all_files_and_asks_before_one_goes(it: Shop) -> None:
    it("run")
    put(it, "2024-01-02", "2,Rome,web", header="id,city,channel")
    it("run")
    put(it, "2024-01-03", "3,Rome", header="id,city")
    it("run", "--full-refresh", TABLE)
    assert it.rows(f"select id, channel from {TABLE}") == [(1, None), (2, "web"), (3, None)]
    assert it.plan() == {}

    put(it, "2024-01-02", "2,Rome", header="id,city")
    refused = it("run", "--full-refresh", TABLE, exit_code=1).stderr
    assert f"{TABLE} drops channel" in refused
    assert f"mere run --full-refresh --allow-breaking {TABLE}" in refused
    it("run", "--full-refresh", "--allow-breaking", TABLE)
    assert "channel" not in it.lake.at("main").table(TABLE).arrow().column_names
    assert ids(it) == [1, 2, 3]


def test_each_setting_that_changed_is_named_with_what_it_was(it: Shop) -> None:
    it("run")
    it.write({SOURCE: BY_DAY.replace("bigint", "int").replace("orders_", "?rders_") + "csv: {delimiter: ';'}\n"})
    assert it.plan()[TABLE]["reasons"] == [
        "`columns.id` was bigint, is now int",
        "`csv.delimiter` was ,, is now ;",
        "`files` was data/orders_{date}.csv, is now data/?rders_{date}.csv",
    ]
    it("plan", "--from", "2024-01-01", "--exit-code", exit_code=4)  # windows that are asked for are no decision
    it.write({SOURCE: BY_DAY})
    assert it.plan() == {}


def test_a_folder_that_moves_asks_only_if_not_all_of_it_is_there(it: Shop) -> None:
    put(it, "2024-01-02", "2,Rome", header="id,city")
    it("run")
    (it.folder / "data").rename(it.folder / "moved")
    it.write({SOURCE: BY_DAY.replace("data/", "moved/")})
    assert it.plan() == {}
    (it.folder / "moved" / "orders_2024-01-02.csv").unlink()
    assert it.plan()[TABLE]["reasons"] == ["`files` was data/orders_{date}.csv, is now moved/orders_{date}.csv"]
    it("run", "--forward-only", TABLE)
    assert it.plan() == {}
    assert ids(it) == [1, 2]


@pytest.mark.parametrize(
    ("way", "also"),
    [
        (0, "the pattern"),
        (1, "nothing else"),
        pytest.param(1, "the pattern", marks=pytest.mark.long),
        pytest.param(0, "nothing else", marks=pytest.mark.long),
    ],
)
def test_a_file_under_another_name_is_never_loaded_twice_unasked(way: int, also: str, shop: MakeShop) -> None:
    it = shop({SOURCE: "files: data/*.csv\ncolumns: {id: bigint, city: string}\n"})
    for name in "ab":
        put(it, name, f"{ord(name)},Oslo", header="id,city")
    it("run")
    data = it.folder / "data"
    (data / "orders_a.csv").rename(data / "sales-a.csv")
    (data / "orders_b.csv").unlink()
    if also == "the pattern":
        it.write({SOURCE: "files: data/s*.csv\ncolumns: {id: bigint, city: string}\n"})
        it("run", "--forward-only", TABLE, exit_code=1)
    put(it, "c", "1,Rome", header="id,city")
    (data / "orders_c.csv").rename(data / "sales-c.csv")
    refused = it("run", exit_code=1).stderr
    assert "sales-a.csv was loaded as orders_a.csv: loaded again, its rows would be there twice" in refused
    assert ids(it) == [97, 98]
    forward = f" --forward-only {TABLE}" if also == "the pattern" else ""
    ways = [f"mere run --full-refresh {TABLE}", f"mere run --accept {TABLE}{forward}"]
    assert all(each in refused for each in ways)
    it(*ways[way].split()[1:])
    assert ids(it) == [[1, 97], [1, 97, 97, 98]][way]
    assert it.plan() == {}


def test_files_of_two_windows_may_have_the_same_bytes(it: Shop) -> None:
    it("run")
    data = it.folder / "data"
    (data / "orders_2024-01-01.csv").rename(data / "orders_2024-01-02.csv")
    it("run")
    assert ids(it) == [1, 1]
