"""All kinds of models, on a server: built, with nothing changed, with new rows, and afresh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mere.engine.warm.discovery import Engine
from tests.pipeline.load.test_load import put
from tests.pipeline.plan.test_remedies import FILES
from tests.pipeline.shop import FIRST, WHOLE, Shop

KINDS = WHOLE | {
    "models/gold/latest.sql": """
        -- kind: merge
        -- key: city_id
        -- latest_by: at
        SELECT city_id, id, at, amount FROM bronze.events
    """,
    "models/gold/history.sql": """
        -- kind: scd2
        -- key: city_id
        SELECT city_id, amount FROM gold.latest
    """,
}
TABLES = ("raw.cities", "bronze.events", "silver.events", "gold.daily", "gold.totals", "gold.latest")


def rows(shop: Shop) -> dict[str, list[str]]:
    return {table: sorted(map(repr, shop.lake.sql(f"SELECT * FROM {table}").rows())) for table in TABLES}


@pytest.fixture
def server(warm_engine: Engine, no_jvm_here: None, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", warm_engine.token)
    return f"sc://localhost:{warm_engine.address.partition(':')[2]}"


def shop_on(server: str, folder: Path, files: Mapping[str, str], way: str = "jdbc") -> Shop:
    shop = Shop(folder / "shop", files)
    with (shop.folder / "mere.yaml").open("a") as file:
        file.write(f"    spark: {{remote: '{server}', catalog: {way}}}\n")
    return shop


@pytest.mark.parametrize("way", ["jdbc", pytest.param("rest", marks=pytest.mark.long)])
def test_all_kinds_are_built_kept_and_refreshed_on_a_server(server: str, tmp_path: Path, way: str) -> None:
    shop = shop_on(server, tmp_path, KINDS, way)
    shop.land(*FIRST)
    assert f"Spark: {server}" in shop("run").stdout
    built = rows(shop)
    assert [len(built[table]) for table in TABLES] == [3, 5, 5, 4, 3, 3]

    assert "nothing to do" in shop("run").stdout
    shop("run", "--full-refresh")  # whose snapshots differ in no row from those before
    assert rows(shop) == built

    shop.land((6, 1, "2024-02-06T10:00", 1))
    shop("run")
    grown = rows(shop)
    assert [len(grown[table]) for table in TABLES] == [3, 6, 6, 5, 3, 3]
    shop("run", "--full-refresh")
    assert rows(shop) == grown
    history = shop.lake.sql("SELECT amount FROM gold.history WHERE city_id = 1 ORDER BY valid_from").rows()
    assert [amount for (amount,) in history] == [7, 1]
    shop.lake.close()


def test_an_append_model_takes_only_what_is_new_of_a_source_on_a_server(server: str, tmp_path: Path) -> None:
    """Where Spark resolves a table that is read by several snapshots once, all of its rows came for each."""
    shop = shop_on(server, tmp_path, FILES)
    put(shop, "1", "1,Oslo\n2,Bern", header="id,city")
    put(shop, "2", "3,Rome", header="id,city")
    shop("run")
    put(shop, "1", "1,Oslo\n20,Wien", header="id,city")
    put(shop, "3", "4,Graz", header="id,city")
    shop("run", "bronze.f")
    put(shop, "4", "5,Linz", header="id,city")
    shop("run", "bronze.f")
    shop("run", exit_code=1)
    shop("run", "--accept", "silver.log")
    assert shop.rows("select id from silver.log") == [(1,), (2,), (3,), (4,), (5,)]
    put(shop, "5", "6,Paris", header="id,city")
    shop("run")
    assert shop.rows("select id from silver.log") == [(1,), (2,), (3,), (4,), (5,), (6,)]
    shop.lake.close()
