"""All kinds of models, on a server: built, with nothing changed, with new rows, and afresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from mere.engine.discovery import Engine
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


def test_all_kinds_are_built_kept_and_refreshed_on_a_server(
    warm_engine: Engine, no_jvm_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", warm_engine.token)
    address = f"sc://localhost:{warm_engine.address.partition(':')[2]}"
    shop = Shop(tmp_path / "shop", KINDS)
    with (shop.folder / "mere.yaml").open("a") as file:
        file.write(f"    spark: {{remote: '{address}'}}\n")
    shop.land(*FIRST)
    assert f"Spark: {address}" in shop("run").stdout
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
