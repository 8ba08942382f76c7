"""What a source asks before it goes on: another declaration, files that are gone, columns that would go."""

from __future__ import annotations

import pytest

from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import Shop
from tests.pipeline.test_loading import ids, put

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
    assert (step["action"], step["reasons"]) == ("blocked", ["its declaration changed"])
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
    told = f"note: {TABLE}: a file that was loaded is not there any more, and the rows stay: orders_2024-01-01.csv"
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
