"""The work of the start-up case, the same for both sides: a small table is written, read and merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.sides.answer import sized

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "SELECT id, id % 7 AS shop, CAST(id AS DOUBLE) / 4 AS amount FROM range({start}, {end})"


def work(spark: SparkSession) -> list[list[object]]:
    rows = sized(1000)
    first, second = ROWS.format(start=0, end=rows), ROWS.format(start=rows // 2, end=rows + rows // 2)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS sales")
    spark.sql("CREATE TABLE sales.orders (id BIGINT, shop BIGINT, amount DOUBLE) USING iceberg")
    spark.sql(f"INSERT INTO sales.orders {first}")
    before = spark.sql("SELECT count(*), sum(amount) FROM sales.orders").collect()
    spark.sql(f"""
        MERGE INTO sales.orders AS t USING ({second}) AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET t.amount = s.amount + 1
        WHEN NOT MATCHED THEN INSERT *
    """)
    after = spark.sql("SELECT shop, count(*), sum(amount) FROM sales.orders GROUP BY shop ORDER BY shop").collect()
    return [list(row) for row in [*before, *after]]
