"""Spark through `type=rest`: it needs no database and no driver, and a branch is its catalog."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from mere.lake.lake import Lake
from tests.conftest import OpenSession
from tests.lake import orders
from tests.serve.iceberg.rest import Rest
from tests.serve.iceberg.test_read import catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def spark(rest: Rest, lake: Lake, spark_on: OpenSession) -> Iterator[SparkSession]:
    found = spark_on(lake, "main").spark
    for ref in ("dev", lake.resolve("main").commit.id):
        prefix = f"spark.sql.catalog.{ref}"
        found.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for name, value in {"type": "rest", "uri": rest.uri, "warehouse": ref, "cache-enabled": "false"}.items():
            found.conf.set(f"{prefix}.{name}", value)
    found.sql("USE dev.gold")
    yield found
    found.sql("SET CATALOG main")


def rows(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(sql).collect()]


def test_tables_are_made_merged_and_dropped(spark: SparkSession, lake: Lake) -> None:
    before = sum(1 for _ in lake.log("dev"))
    main = lake.resolve("main").commit.id
    spark.sql("CREATE NAMESPACE dev.silver")
    spark.sql("CREATE TABLE dev.silver.days (id BIGINT, day DATE) USING iceberg PARTITIONED BY (months(day))")
    spark.sql("INSERT INTO dev.silver.days VALUES (1, DATE'2026-01-01'), (2, DATE'2026-02-01')")
    spark.sql("CREATE TABLE fresh USING iceberg AS SELECT id, amount FROM orders WHERE amount IS NOT NULL")
    spark.sql(
        "MERGE INTO orders t USING (SELECT 3 AS id, 'new' AS customer, 5.0 AS amount"
        " UNION ALL SELECT 9, 'nine', 9.0) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("ALTER TABLE orders ADD COLUMN note STRING")
    spark.sql("UPDATE orders SET note = 'x' WHERE id = 1")
    spark.sql("CREATE OR REPLACE TABLE fresh USING iceberg AS SELECT id FROM orders")
    spark.sql("ALTER TABLE fresh RENAME TO silver.older")
    spark.sql("DROP TABLE dev.silver.days")
    found = orders.rows(lake, "select id, customer, amount, note from gold.orders order by id", "dev")
    assert found == [
        (1, "ann", 10.0, "x"),
        (2, "bob", 20.0, None),
        (3, "new", 5.0, None),
        (9, "nine", 9.0, None),
    ]
    assert orders.rows(lake, "select count(*) from silver.older", "dev") == [(4,)]
    made = list(lake.log("dev"))[:-before]
    assert [(each.message or "").partition(" (")[0] for each in reversed(made)] == [
        "create namespace silver",
        "create silver.days",
        "append silver.days",
        "create gold.fresh",
        "overwrite gold.orders",
        "alter gold.orders",
        "overwrite gold.orders",
        "overwrite gold.fresh",
        "rename gold.fresh to silver.older",
        "drop silver.days",
    ]
    assert all("Apache Iceberg" in (each.message or "") for each in made)
    assert lake.resolve("main").commit.id == main


def test_time_travels_by_snapshots_and_by_commits(spark: SparkSession, lake: Lake) -> None:
    ((old,),) = rows(spark, "SELECT snapshot_id FROM dev.gold.orders.snapshots")
    spark.sql("DELETE FROM orders WHERE id > 1")
    assert rows(spark, "SELECT count(*) FROM orders") == [(1,)]
    assert rows(spark, f"SELECT count(*) FROM orders VERSION AS OF {old}") == [(3,)]
    assert rows(spark, f"SELECT count(*) FROM `{lake.resolve('main').commit.id}`.gold.orders") == [(3,)]
    spark.sql("ALTER TABLE orders CREATE BRANCH audit")
    spark.sql("INSERT INTO dev.gold.orders.branch_audit VALUES (7, 'g', 1.0)")
    assert rows(spark, "SELECT count(*) FROM orders VERSION AS OF 'audit'") == [(2,)]
    assert rows(spark, "SELECT count(*) FROM orders") == [(1,)]


def test_views_follow_their_ref(spark: SparkSession, lake: Lake) -> None:
    spark.sql("CREATE VIEW big AS SELECT id FROM gold.orders WHERE amount > 15")
    spark.sql("CREATE OR REPLACE VIEW big AS SELECT id, amount FROM gold.orders WHERE amount > 5")
    assert rows(spark, "SELECT count(*) FROM big") == [(2,)]
    assert orders.rows(lake, "select count(*) from gold.big", "dev") == [(2,)]
    lake.publish("dev")
    orders.write(lake, "gold.orders", orders.ONE_MORE)
    lake.set_properties({"gold.orders": {"a": "b"}})
    assert orders.rows(lake, "select count(*) from gold.big", "main") == [(2,)]
    with pytest.raises(Exception, match="names a ref"):
        spark.sql("CREATE VIEW fixed AS SELECT id FROM main.gold.orders")
    spark.sql("ALTER VIEW big RENAME TO small")
    spark.sql("DROP VIEW small")
    assert rows(spark, "SHOW VIEWS IN dev.gold") == []


def test_what_would_hurt_other_refs_is_refused(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(Exception, match="is a guard and stays false"):
        spark.sql("ALTER TABLE orders SET TBLPROPERTIES ('gc.enabled' = 'true')")
    with pytest.raises(Exception, match="GC is disabled"):
        spark.sql("CALL dev.system.expire_snapshots('gold.orders')")
    with pytest.raises(Exception, match="Cannot purge table"):  # by Spark itself, for that guard is set
        spark.sql("DROP TABLE orders PURGE")
    with pytest.raises(Exception, match="read-only"):
        spark.sql(f"DELETE FROM `{lake.resolve('main').commit.id}`.gold.orders")


def test_spark_and_pyiceberg_write_one_table_at_once(spark: SparkSession, rest: Rest, lake: Lake) -> None:
    each = 4

    def by_pyiceberg() -> None:
        for _ in range(each):
            catalog(rest, "dev").load_table("gold.orders").append(orders.ONE_MORE)

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(by_pyiceberg)
        for number in range(each):
            spark.sql(f"INSERT INTO dev.gold.orders VALUES ({100 + number}, 's', 1.0)")
        other.result(120)
    found = orders.rows(lake, "select count(*), count(distinct id) from gold.orders", "dev")
    assert found == [(3 + 2 * each, 3 + each + 1)]
