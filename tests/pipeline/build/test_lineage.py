"""The lineage of PySpark models, kept by a run."""

from __future__ import annotations

from mere.lake.iceberg.properties import LINEAGE
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST

FILES = {
    "models/staging/cheap.sql": """
        -- kind: view
        SELECT id AS cheap_id, city_id FROM landing.events WHERE amount < 5
        """,
    "models/gold/totals.py": """
        from pyspark.sql import DataFrame
        from pyspark.sql import functions as F

        from mere import model, table


        @model("gold.totals")
        def totals(events: DataFrame = table("landing.events"), cheap: DataFrame = table("staging.cheap")) -> DataFrame:
            kept = events.join(cheap, events.id == cheap.cheap_id, "left_anti")
            return kept.groupBy("city_id").agg(F.sum("amount").alias("amount"))
        """,
}


def test_a_run_keeps_the_lineage_of_a_pyspark_model(shop: MakeShop) -> None:
    project = shop(FILES)
    project.land(*FIRST)
    assert "rows of gold.totals  by table" in project("lineage", "landing.events.at", "--down").stdout
    project.run()
    up = project("lineage", "gold.totals.amount", "--up").stdout.splitlines()
    assert up[1] == "├── landing.events.amount  models/gold/totals.py:8"
    assert [line for line in up if "perhaps" in line or "by table" in line] == []
    assert "goes into nothing" in project("lineage", "landing.events.at", "--down").stdout
    assert project("lineage", "staging.cheap.cheap_id", "--down").stdout.splitlines()[1:] == [
        "└── rows of gold.totals  models/gold/totals.py:8"
    ]
    assert LINEAGE not in project("show", "gold.totals").stdout

    kept = project.lake.at("main").metadata("gold.totals").properties[LINEAGE]
    project.replace("models/gold/totals.py", 'F.sum("amount")', 'F.max("at")')
    assert "by table" in project("lineage", "landing.events.at", "--down").stdout  # the code is another
    project.run("--allow-breaking")
    assert project.lake.at("main").metadata("gold.totals").properties[LINEAGE] != kept
    assert project("lineage", "gold.totals.amount", "--up").stdout.splitlines()[1].startswith("├── landing.events.at")
