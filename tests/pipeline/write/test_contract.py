"""What a model promises of its columns is held against its query before anything is written."""

from __future__ import annotations

import pytest

from mere.lake.query import show
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, Row, Shop

FILE = "models/silver/orders.sql"
ORDERS = """
    -- contract:
    --   id: {type: bigint, nullable: false, description: Counted up.}
    --   Amount: decimal(12, 2)
    --   deep: struct<a int, b array<string>>
    SELECT id, CAST(amount AS decimal(12, 2)) AS amount, named_struct('a', 1, 'b', array('x')) AS deep
    FROM landing.events
"""
TIMED = """
    -- kind: incremental
    -- time_column: at
    -- contract:
    --   id: {type: bigint, nullable: NULLABLE}
    --   at: timestamp
    SELECT nullif(id, 6) AS id, at FROM landing.events WHERE at >= :start AND at < :end
"""
SIXTH: Row = (6, 1, "2024-02-02T05:00", 3)


def columns(it: Shop, at: str = "main") -> dict[str, tuple[str, bool, str | None]]:
    found = show.describe(it.lake.at(at), "silver.orders").columns
    return {each.name: (each.type, each.required, each.comment) for each in found if "." not in each.name}


def test_a_contract_becomes_the_table(shop: MakeShop) -> None:
    it = shop({FILE: ORDERS})
    it.land(*FIRST)
    it("run")
    assert columns(it) == {
        "id": ("long", True, "Counted up."),
        "amount": ("decimal(12, 2)", False, None),
        "deep": ("struct<a: int, b: list<string>>", False, None),
    }
    assert it.plan() == {}


def test_what_breaks_a_contract_is_told_at_once_and_nothing_is_written(shop: MakeShop) -> None:
    it = shop({FILE: ORDERS})
    it.replace(FILE, "SELECT id, CAST(amount AS decimal(12, 2)) AS amount", "SELECT 'x' AS id, 1 AS amont")
    it.land(*FIRST)
    id_, said = it.failed_run("--no-check")
    assert "silver.orders breaks its contract. Nothing was written." in said
    assert "id: promised as bigint, but the query gives string" in said
    assert "Amount: promised, but missing from the query. Did you mean amont?" in said
    assert "amont: in the query, but not promised" in said
    assert "deep" not in said
    assert "silver.orders" not in map(str, it.lake.at(f"run_{id_}"))


def test_a_null_where_none_may_be_stops_the_run(shop: MakeShop) -> None:
    it = shop({FILE: TIMED.replace("NULLABLE", "false")})
    it.land(*FIRST)
    it("run")
    before = it.rows("silver.orders")
    it.land(SIXTH)
    _, said = it.failed_run()
    assert "models/silver/orders.sql:6: A row has no id, which is never null in the table." in said
    assert it.rows("silver.orders") == before


def test_a_contract_that_is_made_stricter_builds_the_table_and_a_looser_one_alters_it(shop: MakeShop) -> None:
    it = shop({FILE: TIMED.replace("NULLABLE", "true").replace("nullif(id, 6)", "id")})
    it.land(*FIRST)
    it("run")
    assert columns(it)["id"][1] is False
    it.replace(FILE, "nullable: true", "nullable: false")
    assert it.plan()["silver.orders"]["reasons"] == ["id may no longer be null"]
    it("run")
    assert columns(it)["id"][1] is True
    it.replace(FILE, "nullable: false", "nullable: true")
    assert it.plan()["silver.orders"]["reasons"] == ["id may be null from now on"]
    it("run")
    assert columns(it)["id"][1] is False
    assert it.plan() == {}


def test_a_promise_that_rows_which_stay_may_break_is_refused(shop: MakeShop) -> None:
    it = shop({FILE: "-- kind: append\nSELECT id FROM landing.events"})
    it.land(*FIRST)
    it("run")
    it.write(
        {FILE: "-- kind: append\n-- contract: {id: {type: bigint, nullable: false}}\nSELECT id FROM landing.events"}
    )
    it.land(SIXTH)
    _, said = it.failed_run()
    assert "silver.orders promises that id is never null, which existing rows cannot have" in said
    assert "mere run --full-refresh silver.orders" in said
    it("run", "--full-refresh", "silver.orders")
    assert columns(it)["id"][1] is True


@pytest.mark.parametrize("kind", ["view", "python"])
def test_contracts_of_views_and_of_functions(shop: MakeShop, kind: str) -> None:
    view = "-- kind: view\n-- contract: {id: {type: bigint, description: Counted up.}}\nSELECT id FROM landing.events"
    python = """
        from mere import model, table

        @model("silver.orders", contract={"id": {"type": "bigint", "description": "Counted up."}})
        def orders(raw=table("landing.events")):
            return raw.select("id")
    """
    it = shop({FILE: view} if kind == "view" else {"models/silver/orders.py": python})
    it.land(*FIRST)
    it("run")
    assert columns(it) == {"id": ("long", False, "Counted up.")}
    file = FILE if kind == "view" else "models/silver/orders.py"
    it.replace(file, "bigint", "string")
    it.replace(
        file, *(("SELECT id", "SELECT id + 1 AS id") if kind == "view" else ('"id")', '(raw.id + 1).alias("id"))'))
    )
    _, said = it.failed_run()
    assert "id: promised as string, but the query gives bigint" in said


@pytest.mark.parametrize(("kind", "more"), [("merge", set()), ("scd2", {"valid_from", "valid_to", "is_current"})])
def test_contracts_of_models_by_key(shop: MakeShop, kind: str, more: set[str]) -> None:
    header = f"-- kind: {kind}\n-- key: id\n-- contract: {{id: {{type: bigint, nullable: false}}, amount: bigint}}"
    it = shop({FILE: f"{header}\nSELECT id, amount FROM landing.events"})
    it.land(*FIRST)
    it("run")
    it.land(SIXTH)
    it("run")
    assert columns(it)["id"] == ("long", True, None)
    assert columns(it).keys() == {"id", "amount", *more}
    assert [row[0] for row in it.rows("SELECT id FROM silver.orders")] == [1, 2, 3, 4, 5, 6]
