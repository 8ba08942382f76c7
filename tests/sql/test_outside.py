"""What the SQL of a view does besides reading tables is found, also where Spark reads the text otherwise."""

from __future__ import annotations

import pytest
import sqlglot

from mere.sql.outside import hidden, outside

REFLECT = "reflect('java.lang.System', 'getenv', 'HOME')"


def found(sql: str, dialect: str) -> str | None:
    return outside(sqlglot.parse_one(sql, dialect=dialect), dialect) or hidden(sql, dialect)


@pytest.mark.parametrize(
    "sql",
    [
        f"select {REFLECT} as x",
        "select `reflect`('a', 'b') as x",
        "select system.builtin.reflect('a', 'b') as x",
        "select JAVA_METHOD('a', 'b') as x",
        "select try_reflect('a', 'b') as x",
        "select x from orders where id = (select java_method('a', 'b'))",
        "select id from orders lateral view reflect('a', 'b') t as x",
        "select * from csv.`/etc/passwd`",
        "select * from text.`mere.yaml`",
        "select * from text.`*`",
        "select * from binaryFile.`s3://bucket/key`",
        "select * from `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`passwd`",
        "select * from orders where id in (select _c0 from csv.`/etc/passwd`)",
        "select * from read_files('/etc/passwd')",
        "select * from orders, lateral read_files('/etc/passwd')",
        "select * from identifier('csv.`/etc/passwd`')",
        "select transform(id) using 'cat /etc/passwd' as (x) from orders",
        "from orders select transform(id) using 'sh'",
        "select from_protobuf(x, 'm', '/etc/passwd') from orders",
        "with t as (select 1 as x) insert into orders select * from t",
        "select '${env:AWS_SECRET_ACCESS_KEY}' as x",
    ],
)
def test_spark_does_nothing_for_a_view_but_read_tables(sql: str) -> None:
    assert found(sql, "spark") is not None


@pytest.mark.parametrize(
    "sql",
    [
        # A backslash makes the next line part of Spark's comment.
        f"select id, -- \\\n' ,\n{REFLECT.replace(chr(39), chr(34))} as x -- '\n from orders",
        "select id, -- \\\n' from csv.`/etc/passwd` -- '\n from orders",
        # A hint in a comment does not nest in Spark.
        f"select 1 /* /*+ */ , {REFLECT} as x -- */\n from orders",
        "select 1 as x /* /*+ */ from csv.`/etc/passwd` -- */\n from orders",
        "select 1 as x /* /*+ */ , identifier('ref' || 'lect') -- */\n from orders",
        "select 'a' /* /*+ */ , transform(id) using 'sh' -- */\n from orders",
    ],
)
def test_what_spark_sees_in_a_comment_or_a_string_is_seen(sql: str) -> None:
    assert outside(sqlglot.parse_one(sql, dialect="spark"), "spark") is None, "it is hidden"
    assert hidden(sql, "spark") is not None


@pytest.mark.parametrize(
    "sql",
    [
        "values (1), (2)",
        "select * from values (1), (2) as t(x)",
        "-- a comment; it's one line\nselect reflect, identifier /* it's two */ from orders -- the end",
        "select a.id from orders a join customers b using (id) union all select explode(array(1)) as id",
        "select transform(xs, x -> x + 1) as xs from orders",
        "select * from orders lateral view outer explode(xs) t as x",
        "select * from orders, lateral explode(xs)",
        "select * from range(3) cross join json.text",
        "select r'\\' as a, 'b\\'c' as b, `a/b` from gold.orders.snapshots",
        "with a as (select 1 as x) select * from a tablesample (5 rows)",
    ],
)
def test_plain_queries_stay(sql: str) -> None:
    assert found(sql, "spark") is None
    assert found("select * from range(3) a, lateral (select a.range + 1) b, unnest([1]) c", "duckdb") is None


@pytest.mark.parametrize(
    "sql",
    [
        "select * from o, lateral read_csv('/x')",
        "select * from o left join lateral read_text('/x') on true",
        "select * from glob('*')",
        "select * from query_table('/x')",
        "select 'HOME'.getenv()",
        "from '/etc/passwd'",
        "show tables",
        "copy o to '/x'",
    ],
)
def test_duckdb_does_nothing_for_a_view_but_read_tables(sql: str) -> None:
    assert found(sql, "duckdb") is not None
