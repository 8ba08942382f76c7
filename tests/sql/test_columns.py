"""Which columns a query may name. Spark itself is asked whether it agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from sqlglot import parse_one

from mere import Lake
from mere.names import TableName
from mere.sql.columns import output_columns, unknown_columns
from mere.sql.spark.read import SparkView
from tests.conftest import OpenSession

TABLES = {
    "b.orders": "id BIGINT, amount DOUBLE, order_date DATE, address STRUCT<city: STRING, zip: STRING>,"
    " tags ARRAY<STRUCT<x: ARRAY<INT>>>, m MAP<STRING, STRING>",
    "b.people": "id BIGINT, name STRING, address STRING",
}
SCHEMAS = {
    TableName("b", "orders"): ("id", "amount", "order_date", "address", "tags", "m"),
    TableName("b", "people"): ("id", "name", "address"),
}
# What Spark understands.
RIGHT = [
    "SELECT address.city FROM b.orders ORDER BY city",
    "SELECT address.city, o.address.zip AS z FROM b.orders o GROUP BY 1, 2",
    "SELECT address.city AS c FROM b.orders address",
    "SELECT explode(m) AS (k, v) FROM b.orders ORDER BY k",
    "SELECT k FROM (SELECT explode(m) AS (k, v) FROM b.orders)",
    "SELECT col1 FROM VALUES (1), (2)",
    "SELECT datediff(DAY, order_date, order_date) AS d, timestampadd(HOUR, 1, order_date) AS e FROM b.orders",
    "SELECT dateadd(MICROSECOND, 1, order_date) AS e, extract(DOW FROM order_date) AS w FROM b.orders",
    "SELECT current_date AS d, user AS u, current_timestamp AS t, session_user AS s, current_time AS c FROM b.orders",
    "SELECT id, grouping__id FROM b.orders GROUP BY id WITH ROLLUP",
    "SELECT id, count(*) AS n FROM b.orders GROUP BY ALL ORDER BY ALL",
    "SELECT zip FROM (SELECT address.* FROM b.orders)",
    "SELECT o.address.* FROM b.orders o",
    "SELECT /*+ BROADCAST(o), REPARTITION(3, id) */ o.id FROM b.orders o",
    "SELECT id, aggregate(array(1), 0, (acc, x) -> acc + x, acc -> acc * 2) AS a FROM b.orders",
    "SELECT id, map_filter(m, (k, v) -> k > v) AS a FROM b.orders",
    "SELECT id, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS p FROM b.orders GROUP BY id",
    "SELECT id, sum(amount) FILTER (WHERE amount > 1) AS f FROM b.orders GROUP BY id HAVING f > 1",
    "SELECT o.id, s.x FROM b.orders o, LATERAL (SELECT o.amount + 1 AS x) s",
    "SELECT id, e FROM b.orders LATERAL VIEW explode(tags) t AS e",
    "SELECT id, pos, col FROM b.orders LATERAL VIEW posexplode(tags) t",
    "SELECT id, key, value FROM b.orders LATERAL VIEW OUTER explode(m) t",
    "SELECT e, f FROM b.orders LATERAL VIEW explode(tags) t AS e LATERAL VIEW explode(e.x) u AS f",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    "SELECT id, sum(amount) OVER w AS s FROM b.orders WINDOW w AS (PARTITION BY id ORDER BY order_date)",
    "SELECT a.id FROM b.orders a LEFT SEMI JOIN b.people p ON p.id = a.id",
    "SELECT id, tags[0].x AS t, m['z'] AS u, m.foo AS f FROM b.orders",
    "SELECT id FROM range(10)",
    "SELECT trim(BOTH 'x' FROM name) AS n, position('a' IN name) AS p, substring(name FROM 2) AS s FROM b.people",
    "SELECT max(struct(order_date, amount)).amount AS latest FROM b.orders",
    "SELECT id, CASE WHEN amount > 1 THEN 'a' END AS k FROM b.orders GROUP BY id, k HAVING k = 'a'",
    "SELECT id AS x FROM b.orders DISTRIBUTE BY x SORT BY x",
    "SELECT id, amount * 2 AS dbl, dbl + 1 AS more FROM b.orders ORDER BY more",
    "SELECT id FROM (SELECT * EXCEPT (amount) FROM b.orders)",
    "SELECT id, n FROM b.orders UNPIVOT (n FOR c IN (amount))",
    "SELECT `1` FROM (SELECT id, amount FROM b.orders) PIVOT (sum(amount) FOR id IN (1, 2))",
    "SELECT id FROM b.orders o WHERE o.amount > (SELECT avg(amount) FROM b.orders p WHERE p.id = o.id)",
    "SELECT o.*, p.name FROM b.orders o JOIN b.people p USING (id)",
    "SELECT `order date` FROM (SELECT id, amount AS `order date` FROM b.orders)",
    "SELECT id, cast(amount AS STRING) FROM b.orders ORDER BY amount",
    "SELECT t.b FROM b.orders AS t(a, b, c, d, e, f) WHERE t.b > 1",
    "SELECT a FROM (SELECT inline(array(struct(1 AS a, 2 AS b))))",
    "SELECT EXISTS (SELECT 1 FROM b.people p WHERE p.id = orders.id) AS e FROM b.orders",
    "SELECT count(*), id FROM b.orders GROUP BY id",
]  # fmt: skip
# What it does not, with the name that it does not find.
WRONG = [
    ("SELECT id, sum(evnts) AS evnts FROM b.orders GROUP BY id", "evnts"),
    ("SELECT evnts AS evnts FROM b.orders GROUP BY evnts", "evnts"),
    ("SELECT id, max(nam) OVER (PARTITION BY id) AS nam FROM b.people", "nam"),
    ("WITH c AS (SELECT sum(evnts) AS evnts FROM b.orders) SELECT evnts FROM c", "evnts"),
    ("SELECT id FROM b.orders UNION ALL SELECT idd AS idd FROM b.people", "idd"),
    ("SELECT id AS x FROM b.orders WHERE x > 1", "x"),
    ("SELECT o.id AS x FROM b.orders o JOIN b.people p ON p.id = x", "x"),
    ("SELECT more + 1 AS a, amount AS more FROM b.orders", "more"),
    ("SELECT id FROM b.orders GROUP BY id HAVING sum(evnts) > 1", "evnts"),
    ("SELECT id FROM b.orders ORDER BY evnts", "evnts"),
    ("SELECT e FROM b.orders LATERAL VIEW explode(tgs) t AS e", "tgs"),
    ("SELECT o.city FROM b.orders o", "city"),
    ("SELECT id FROM (SELECT id FROM b.orders) WHERE amount > 1", "amount"),
]  # fmt: skip


def unknown(sql: str) -> list[str]:
    return [each.name for each in unknown_columns(parse_one(sql, dialect=SparkView), SCHEMAS)]


@pytest.mark.parametrize("sql", RIGHT)
def test_what_spark_understands_is_known(sql: str) -> None:
    assert unknown(sql) == []


@pytest.mark.parametrize(("sql", "name"), WRONG)
def test_what_spark_does_not_find_is_unknown(sql: str, name: str) -> None:
    assert set(unknown(sql)) == {name}


def _columns(spark: SparkSession, sql: str) -> tuple[str, ...] | None:
    try:
        return tuple(spark.sql(sql).columns)
    except AnalysisException:
        return None


def test_spark_agrees(tmp_path: Path, spark_on: OpenSession) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        spark = spark_on(lake, "main").spark
        spark.sql("CREATE NAMESPACE b")
        for table, columns in TABLES.items():
            spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg")
        # What is said of a query's columns is what Spark makes of it, or nothing.
        disagreed = []
        for sql in RIGHT:
            made, said = _columns(spark, sql), output_columns(parse_one(sql, dialect=SparkView), SCHEMAS)
            if made is None or said not in (None, made):
                disagreed.append((sql, said, made))
        assert disagreed == []
        for sql, _ in WRONG:
            with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
                _ = spark.sql(sql).columns
