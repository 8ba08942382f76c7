"""Columns that come, go, get other names or other types: what the plan says, and what becomes of the table."""

from __future__ import annotations

from typing import Any

import pytest

from mere.lake.query import show
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, Shop

ORDERS = "SELECT id, city_id, at, amount FROM landing.events"
DAILY = """
    -- kind: incremental
    -- time_column: day
    -- grain: day
    SELECT CAST(at AS date) AS day, sum(amount) AS revenue FROM silver.orders
    WHERE at >= :start AND at < :end GROUP BY CAST(at AS date)
"""
TIMED = """
    -- kind: incremental
    -- time_column: at
    -- grain: day
    SELECT id, at, amount FROM landing.events WHERE at >= :start AND at < :end
"""
RENAMED = TIMED.replace("-- grain", "-- columns: {total: {was: amount}}\n    -- grain").replace(
    "amount FROM", "amount AS total FROM"
)
FILE = "models/silver/orders.sql"
LATE = (6, 1, "2024-02-02T05:00", 3)


def columns(it: Shop, table: str = "silver.orders", at: str = "main") -> dict[str, tuple[int, str]]:
    """By name: the id and the type."""
    return {each.name: (each.id, each.type) for each in show.describe(it.lake.at(at), table).columns}


def values(it: Shop, column: str, at: str = "main") -> list[Any]:
    return [row[0] for row in it.rows(f"SELECT {column} FROM silver.orders", at)]


def operations(it: Shop) -> list[str]:
    """The snapshots on the way to the present one: a table that was replaced has no way."""
    return [each.operation for each in it.lake.at("main").metadata("silver.orders").since(None) or ()]


def test_a_column_that_is_dropped_is_kept_until_it_may_go(shop: MakeShop) -> None:
    it = shop({FILE: ORDERS, "models/gold/daily.sql": DAILY, "models/gold/all.sql": "SELECT id FROM silver.orders"})
    it.land(*FIRST)
    it("run")
    before, then = it.pointers(), columns(it)
    it.write({FILE: ORDERS.replace(", amount", "")})

    blocked = it.plan()["silver.orders"]
    assert (blocked["action"], blocked["reasons"]) == ("blocked", ["drops amount, read by gold.daily.revenue"])
    assert "mere run --allow-breaking silver.orders" in blocked["remedy"]
    assert "{was: amount}" in blocked["remedy"]
    said = it("run", exit_code=1).stderr
    assert "silver.orders: drops amount, read by gold.daily.revenue\nNothing was run." in said
    assert it.pointers() == before

    assert it.plan("--allow-breaking")["silver.orders"]["notes"] == ["drops amount, read by gold.daily.revenue"]
    it("run", "--allow-breaking", "silver.orders")
    assert columns(it) == {name: each for name, each in then.items() if name != "amount"}
    assert operations(it) == ["overwrite", "overwrite"]
    assert values(it, "sum(amount)", "main~1") == [27]


def test_what_only_spark_can_tell_is_refused_before_anything_is_written(shop: MakeShop) -> None:
    """A PySpark model's columns, and the types of any model."""
    python = """
        from mere import model, table

        @model("silver.orders")
        def orders(raw=table("landing.events")):
            return raw.select("id", "at", "amount")
    """
    it = shop({"models/silver/orders.py": python, "models/gold/daily.sql": DAILY})
    it.land(*FIRST)
    it("run")
    before = it.lake.at("main").metadata("silver.orders")
    it.replace("models/silver/orders.py", '"id", "at", "amount"', '"at", raw.amount.cast("int").alias("amount")')
    id_, said = it.failed_run()
    assert "silver.orders makes amount an int: it is a bigint, read by gold.daily.revenue" in said
    assert "silver.orders drops id" in said
    assert it.lake.at(f"run_{id_}").metadata("silver.orders").location == before.location
    it("run", "--allow-breaking", "--full-refresh", "silver.orders")
    after = columns(it)
    assert after == {"at": (2, "timestamptz"), "amount": (3, "int")}  # replaced, and the ids are kept by name
    assert values(it, "sum(amount)") == [27]


def test_a_declared_name_is_given_to_the_column_with_all_its_history(shop: MakeShop) -> None:
    it = shop({FILE: TIMED, "models/gold/ids.sql": "SELECT id, at FROM silver.orders"})
    it.land(*FIRST)
    it("run")
    then = columns(it)
    it.write({FILE: RENAMED})
    assert it.plan("--forward-only")["silver.orders"]["reasons"] == ["renames amount to total"]
    planned = it.plan()["silver.orders"]
    assert (planned["reasons"], planned["notes"]) == (["SQL changed"], ["renames amount to total"])
    it("run")
    assert columns(it) == {"id": then["id"], "at": then["at"], "total": then["amount"]}
    assert operations(it) == ["overwrite", "overwrite"]
    assert (sum(values(it, "total")), sum(values(it, "amount", "main~1"))) == (27, 27)
    it.land(LATE)
    assert it.built() == {"silver.orders", "gold.ids"}
    assert sum(values(it, "total")) == 30
    assert it.plan() == {}


def test_the_time_column_gets_another_name(shop: MakeShop) -> None:
    """By which files are partitioned, and of which Iceberg keeps all metrics."""
    it = shop({FILE: TIMED})
    it.land(*FIRST)
    it("run")
    then = columns(it)
    it.replace(FILE, "time_column: at", "time_column: happened\n-- columns: {happened: {was: at}}")
    it.replace(FILE, "id, at,", "id, at AS happened,")
    it("run")
    it.land(LATE)
    it("run")
    assert columns(it)["happened"] == then["at"]
    assert show.describe(it.lake.at("main"), "silver.orders").partitioning == ("day(happened)",)
    assert values(it, "id") == [1, 2, 3, 4, 5, 6]
    assert values(it, 'count("at")', "main~3") == [5]


def test_a_name_alone_is_changed_without_a_build(shop: MakeShop) -> None:
    it = shop({FILE: TIMED})
    it.land(*FIRST)
    it("run")
    then = columns(it)
    it.replace(FILE, "-- grain", "-- columns: {total: {was: amount}}\n-- grain")
    early = it.plan()["silver.orders"]
    told = "renames amount to total, and its query still gives amount"
    assert (early["action"], early["reasons"]) == ("blocked", [told])
    it.write({FILE: RENAMED})
    done = it("run", "--forward-only")
    assert "✓ silver.orders  renames amount to total" in done.output
    assert columns(it)["total"] == then["amount"]
    assert operations(it) == ["overwrite"]
    assert it.plan() == {}


def test_columns_are_added_and_widened_where_rows_stay(shop: MakeShop) -> None:
    query = """
        -- kind: append
        SELECT id, CAST(amount AS int) AS amount, CAST(amount AS float) AS ratio,
          CAST(amount AS decimal(6, 2)) AS price,
          named_struct('a', CAST(id AS int), 'b', array(CAST(id AS int))) AS deep
        FROM landing.events
    """
    wider = """
        -- kind: append
        -- columns: {note: What else.}
        SELECT amount, id, CAST(amount AS double) AS ratio, CAST(amount AS decimal(9, 2)) AS price,
          named_struct('b', array(id), 'a', CAST(id AS int), 'c', 'new') AS deep, 'x' AS note
        FROM landing.events
    """
    it = shop({FILE: query})
    it.land(*FIRST)
    it("run")
    then = columns(it)
    it.write({FILE: wider})
    it.land(LATE)
    it("run", "--forward-only")
    now = columns(it)
    assert {name: now[name][0] for name in then} == {name: id_ for name, (id_, _) in then.items()}
    assert {name: kind for name, (_, kind) in now.items()} == {
        "id": "long",
        "amount": "long",
        "ratio": "double",
        "price": "decimal(9, 2)",
        "deep": "struct<a: int, b: list<long>, c: string>",
        "deep.a": "int",
        "deep.b": "list<long>",
        "deep.b.element": "long",
        "deep.c": "string",
        "note": "string",
    }
    rows = it.rows("SELECT id, amount, deep.b[1], deep.c, note FROM silver.orders WHERE id IN (1, 6)")
    assert rows == [(1, 10, 1, None, None), (6, 3, 6, "new", "x")]


def test_columns_that_cannot_be_had_for_rows_that_stay(shop: MakeShop) -> None:
    it = shop({FILE: "-- kind: append\nSELECT id, amount FROM landing.events"})
    it.land(*FIRST)
    it("run")
    it.land(LATE)
    it.replace(FILE, "amount FROM", "CAST(amount AS string) AS amount FROM")
    _, said = it.failed_run("--forward-only", "--allow-breaking")
    assert "makes amount a string: it is a bigint, which existing rows cannot have" in said
    assert "mere run --full-refresh --allow-breaking silver.orders" in said
    it.replace(FILE, "CAST(amount AS string) AS amount FROM", "'x' AS note FROM")
    it("run", "--forward-only", "--allow-breaking")
    assert list(columns(it)) == ["id", "note"]
    assert len(values(it, "id")) == 6


def test_a_column_by_which_files_are_cut_goes_with_the_files(shop: MakeShop) -> None:
    """DuckDB would end the process: it looks up the column of a partition, whatever is in the files."""
    it = shop({FILE: "-- kind: append\n-- partition_by: [city_id]\n-- sort_by: [amount]\n" + ORDERS})
    it.land(*FIRST)
    it("run")
    it.land(LATE)
    it.write({FILE: "-- kind: append\n-- sort_by: [amount]\n" + ORDERS})
    it("run")  # files that are cut by it stay
    it.write({FILE: "-- kind: append\nSELECT id, at FROM landing.events"})
    it.land((7, 1, "2024-02-02T05:00", 3))
    _, said = it.failed_run("--forward-only", "--allow-breaking")
    assert "drops city_id, by which it is partitioned, which existing rows cannot have" in said
    it("run", "--full-refresh", "--allow-breaking")
    assert values(it, "id") == [1, 2, 3, 4, 5, 6, 7]
    assert sum(values(it, "amount", "main~1")) == 30


def test_a_view_keeps_its_columns_too(shop: MakeShop) -> None:
    it = shop(
        {
            "models/staging/orders.sql": "-- kind: view\nSELECT id, amount FROM landing.events",
            "models/gold/total.sql": "SELECT sum(amount) AS total FROM staging.orders",
        }
    )
    it.land(*FIRST)
    it("run")
    it.write({"models/staging/orders.sql": "-- kind: view\nSELECT id FROM landing.events"})
    assert it.plan()["staging.orders"]["reasons"] == ["drops amount, read by gold.total.total"]
    it.write(
        {"models/staging/orders.sql": "-- kind: view\nSELECT id, CAST(amount AS string) AS amount FROM landing.events"}
    )
    _, said = it.failed_run()
    assert "staging.orders makes amount a string: it is a bigint, read by gold.total.total" in said
    it("run", "--allow-breaking", "staging.orders")
    assert columns(it, "staging.orders")["amount"][1] == "string"


def test_a_run_that_was_allowed_to_break_is_resumed_as_such(shop: MakeShop) -> None:
    it = shop({FILE: ORDERS + "\n"})
    it.land(*FIRST)
    it("run")
    it.write({FILE: "-- audits: [{row_count: {min: 6}}]\nSELECT id FROM landing.events"})
    id_, said = it.failed_run("--allow-breaking")
    assert "drops" not in said
    it.land(LATE)
    it("run", "--resume", id_, "--allow-breaking", exit_code=2)
    it("run", "--resume", id_)
    assert list(columns(it)) == ["id"]


def test_what_an_interrupted_build_altered_is_taken_back(shop: MakeShop) -> None:
    """The table is altered before its rows are written. Whoever thinks better of it then has lost nothing."""
    it = shop({FILE: ORDERS + "\n"})
    it.land(*FIRST)
    it("run")
    before = it.everything()
    it.write({FILE: "SELECT id, CAST(raise_error('no') AS bigint) AS amount FROM landing.events"})
    id_, _ = it.failed_run("--allow-breaking")
    assert "at" not in columns(it, at=f"run_{id_}")
    it.write({FILE: ORDERS + "\n"})
    it("run", "--resume", id_)
    assert it.everything() == before


@pytest.mark.parametrize("kind", ["full", "append"])
def test_small_types_are_no_change(shop: MakeShop, kind: str) -> None:
    """Iceberg keeps them as what they fit into."""
    query = f"-- kind: {kind}\nSELECT id, CAST(1 AS tinyint) AS a, CAST('x' AS varchar(3)) AS b FROM landing.events"
    it = shop({FILE: query})
    it.land(*FIRST)
    it("run")
    it.land(LATE)
    it("run")
    assert values(it, "a") == [1] * 6
    assert "append" in operations(it) if kind == "append" else operations(it) == ["overwrite", "overwrite"]
