from __future__ import annotations

from tests.pipeline.conftest import MakeShop

NUMBERS = """
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from mere import model


    @model("gold.numbers", now="year")
    def numbers(spark: SparkSession, now: datetime, rows: int = 2) -> DataFrame:
        return spark.range(rows).selectExpr("id", f"{now.month} AS month")
"""


def test_a_python_model_gets_the_session_and_the_bound_time_that_it_asks_for(shop: MakeShop) -> None:
    it = shop({"models/gold/numbers.py": NUMBERS})
    it.run()
    assert it.rows("gold.numbers") == [(0, 1), (1, 1)]
