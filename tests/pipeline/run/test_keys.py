"""A declared key, from a run to the table: what it promises is audited, and the table says what its key is."""

from __future__ import annotations

import pytest

from mere.lake.iceberg.properties import KEY
from mere.lake.iceberg.schema import identifier
from mere.pipeline.build import model as build
from mere.serve.catalog.inventory import shape_of
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, Shop

ORDERS = """
    -- key: id
    SELECT id, city_id, at, amount FROM landing.events
"""
DAYS = """
    -- kind: incremental
    -- time_column: at
    -- grain: day
    -- key: ID
    SELECT id, city_id, at FROM landing.events WHERE at >= :start AND at < :end
"""


def key_in(it: Shop, table: str, at: str = "main") -> str | None:
    return it.lake.at(at).metadata(table).properties.get(KEY)


def said(it: Shop, model: str) -> list[tuple[str, str, str]]:
    return [(each["audit"], each["state"], each["message"]) for each in it.runs()[0]["models"][model]["audits"]]


@pytest.mark.parametrize("largest", [build._LOCAL, 0], ids=["DuckDB", "Spark"])
def test_rows_that_share_a_key_or_have_none_are_not_published(
    largest: int, shop: MakeShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_LOCAL", largest)
    it = shop({"models/gold/orders.sql": ORDERS})
    it.land(*FIRST, (5, 1, "2024-02-09T05:00", 1), (None, 1, "2024-02-09T05:00", 1))  # type: ignore[arg-type]
    run, message = it.failed_run()
    broken = "3 of 7 rows are bad: 1 with NULL in id and 2 with the same id as another"
    assert f"gold.orders failed: key(id): {broken}" in message
    assert "models/gold/orders.sql:1 declares the key; `key_audit: warn` there" in message
    it.replace("models/gold/orders.sql", "-- key: id", "-- key: id\n-- key_audit: warn")
    it("run", "--resume", run)
    assert said(it, "gold.orders") == [("key(id)", "warned", broken)]
    assert key_in(it, "gold.orders") == "id"


def test_a_run_looks_at_the_windows_it_built_and_the_whole_table_where_the_model_says_so(shop: MakeShop) -> None:
    it = shop({"models/gold/days.sql": DAYS})
    it.land(*FIRST)
    it("run")
    assert key_in(it, "gold.days") == "id"  # as the table has it
    it.land((1, 2, "2024-02-07T05:00", 1))  # as in another window
    it("run")
    assert said(it, "gold.days")[0][:2] == ("key(ID)", "ok")
    assert "2 of 6 rows are bad" in it("audit", exit_code=1).stdout  # which looks at all rows
    it.replace("models/gold/days.sql", "-- key: ID", "-- key: ID\n-- key_audit: table")
    assert it.plan()["gold.days"]["reasons"] == ["new audit: key(ID)"]
    assert "2 of 6 rows are bad" in it.failed_run()[1]
    it.replace("models/gold/days.sql", "-- key_audit: table\n", "")
    it.land((6, 2, "2024-02-08T05:00", 1), (6, 2, "2024-02-08T06:00", 1))
    assert "2 of 2 rows are bad" in it.failed_run()[1]


def test_a_key_is_written_and_asked_without_a_build(shop: MakeShop) -> None:
    it = shop(
        {
            "models/gold/orders.sql": ORDERS,
            "models/gold/log.sql": "-- kind: append\n-- key: id\nSELECT id FROM landing.events",
            "models/gold/ids.sql": "-- kind: view\n-- key: id\nSELECT id FROM gold.orders",
        }
    )
    it.land(*FIRST)
    it("run")
    names = ("gold.orders", "gold.log", "gold.ids")
    assert {name: key_in(it, name) for name in names} == dict.fromkeys(names, "id")
    assert said(it, "gold.log") == []
    # As a table was left by a version of mere that wrote no key.
    it.lake.set_properties({name: {KEY: None} for name in names})
    assert {name: (step["action"], step["reasons"]) for name, step in it.plan().items()} == dict.fromkeys(
        names, ("audit", ["its key is id now"])
    )
    before = it.everything(), it.lake.at("main").metadata("gold.orders").current_id
    it("run")
    assert it.plan() == {}
    assert {name: key_in(it, name) for name in names} == dict.fromkeys(names, "id")
    assert said(it, "gold.orders") == [("key(id)", "ok", "")]
    # Which is what psql, JDBC and BI tools see.
    shapes = {name: shape_of(it.lake.at("main").metadata(name)) for name in names}
    assert {name: shape.key for name, shape in shapes.items()} == {
        "gold.orders": (1,),
        "gold.log": (1,),
        "gold.ids": (),
    }
    assert (it.everything(), it.lake.at("main").metadata("gold.orders").current_id) == before
    # Another key is a new promise; it goes with its branch, and back with a revert.
    it("branch", "create", "dev")
    it.replace("models/gold/orders.sql", "-- key: id", "-- key: [id, at]")
    assert it.plan("--on", "dev")["gold.orders"]["reasons"] == ["new audit: key(id, at)"]
    it("run", "--on", "dev")
    assert (key_in(it, "gold.orders", "dev"), key_in(it, "gold.orders")) == ("id,at", "id")
    it("publish", "dev")
    assert it.plan() == {}
    it("revert", "main")
    assert (key_in(it, "gold.orders"), set(it.plan())) == ("id", {"gold.orders"})
    it.replace("models/gold/orders.sql", "-- key: [id, at]\n", "")
    assert it.plan()["gold.orders"]["reasons"] == ["it no longer has a key"]
    it("run", "gold.orders")
    assert key_in(it, "gold.orders") is None


def test_a_key_that_arrives_needs_no_engine(shop: MakeShop, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("gold.orders", "gold.log")
    it = shop(
        {"models/gold/orders.sql": ORDERS, "models/gold/log.sql": "-- kind: append\nSELECT id FROM landing.events"}
    )
    it.land(*FIRST)
    it("run")
    it.replace("models/gold/orders.sql", "-- key: id", "-- key: [at, id]")
    it.replace("models/gold/log.sql", "-- kind: append", "-- kind: append\n-- key: id")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a session was opened")

    monkeypatch.setattr("mere.engine.session.session", never)
    it("run")
    assert said(it, "gold.orders") == [("key(at, id)", "ok", "")]
    assert {name: key_in(it, name) for name in names} == {"gold.orders": "at,id", "gold.log": "id"}
    assert it.plan() == {}


def test_required_columns_of_a_key_are_identifier_fields_until_they_may_be_null_or_go(shop: MakeShop) -> None:
    contract = "-- contract: {id: {type: bigint, nullable: false}, at: timestamp}\n"
    it = shop({"models/gold/orders.sql": f"-- key: id\n{contract}SELECT id, at FROM landing.events"})
    it.land(*FIRST)

    def fields() -> tuple[str, ...]:
        return identifier(it.lake.at("main").metadata("gold.orders").schema)

    it("run")
    assert (fields(), it.plan()) == (("id",), {})
    it.land((6, 1, "2024-02-09T05:00", 1))
    it("run")
    assert fields() == ("id",)
    it.replace("models/gold/orders.sql", ", nullable: false", "")
    assert it.plan()["gold.orders"]["action"] == "alter"
    it("run")
    assert (fields(), key_in(it, "gold.orders"), it.plan()) == ((), "id", {})


def test_a_column_of_a_key_can_be_dropped(shop: MakeShop) -> None:
    contract = "-- contract: {id: {type: bigint, nullable: false}, at: timestamp}\n"
    it = shop({"models/gold/orders.sql": f"-- key: id\n{contract}SELECT id, at FROM landing.events"})
    it.land(*FIRST)
    it("run")
    it.write({"models/gold/orders.sql": "-- key: at\nSELECT at FROM landing.events"})
    it("run", "--allow-breaking", "gold.orders")
    assert (key_in(it, "gold.orders"), it.plan()) == ("at", {})
    assert it.lake.show("gold.orders").key == ("at",)


def test_a_history_has_the_key_of_its_versions(shop: MakeShop) -> None:
    header = "-- kind: scd2\n-- key: id\n-- updated_at: at\n"
    it = shop({"models/gold/history.sql": f"{header}SELECT id, amount, at FROM landing.events"})
    it.land(*FIRST, (1, 1, "2024-02-09T05:00", 1))
    it("run")
    assert said(it, "gold.history") == [("key(id, valid_from)", "ok", "")]
    assert key_in(it, "gold.history") == "id,valid_from"
    assert "gold.history" not in it.plan()


def test_rows_are_compared_by_the_key_and_as_a_whole_where_it_does_not_hold(shop: MakeShop) -> None:
    it = shop(
        {
            "models/gold/orders.sql": ORDERS,
            "models/gold/log.sql": "-- kind: append\n-- key: city_id\n" + ORDERS[15:].strip(),
        }
    )
    it.land(*FIRST)
    it("run")
    it("branch", "create", "dev")
    it.replace("models/gold/orders.sql", "amount", "amount + id AS amount")
    it.land((6, 1, "2024-02-09T05:00", 1), (7, 1, "2024-02-09T05:00", 1), on="dev")
    it("run", "--on", "dev")
    said = it("diff", "dev", "--rows").stdout
    assert "rows compared by id: +2 -0 ~5" in said
    assert "The rows of gold.log cannot be matched by city_id, which is not unique" in said
    assert "rows compared as a whole: +2 -0" in said
