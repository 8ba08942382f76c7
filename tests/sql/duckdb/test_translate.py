"""`mere sql` and Spark, asked the same of tables and views that Spark wrote."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mere.engine.session import Session
from mere.lake.iceberg.manifests import file_kinds
from mere.lake.lake import Lake
from mere.lake.query import query
from tests.lake.orders import failure, rows

Open = Callable[..., Session]
MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)
VALUES = """
    (1, 2.5D, 2.345, 'abc', null, true, date'2020-02-29', timestamp'2020-02-29 13:14:15.678',
     array(3, 1, 2, 2), map('k', 1), named_struct('a', 1, 'b c', 'z'), X'00FF', timestamp_ntz'2020-02-29 01:02:03'),
    (-7, double('NaN'), -1.250, 'a_b,c.d', 'x', false, date'1582-01-01', timestamp'1600-01-01 00:00:00.000001Z',
     array(5, null), map('k', null), named_struct('a', null, 'b c', 'y'), X'',
     timestamp_ntz'9999-12-31 23:59:59.999999'),
    (12, -3.5D, 100.000, 'ABC%', null, true, date'2019-12-30', timestamp'2019-12-30 23:59:59.999999Z',
     array(), map(), named_struct('a', 3, 'b c', null), X'6162', null),
    (null, null, null, null, null, null, null, null, null, null, null, null, null)"""
# In each of them Spark and DuckDB, or sqlglot between them, would differ if nothing were done; or might.
EXPRESSIONS = r"""
    cast(i * 1.5D as int) | cast(2.7 as int) | cast(dec as bigint) | int(dec * 10) | cast(dec as decimal(8, 1))
    cast(ts as string) | cast(dt as string) | cast(i as string) | cast(b as int) | cast(cast(dec as int) as string)
    dayofweek(dt) | weekday(dt) | extract(dow from dt) | date_part('dow', dt) | weekofyear(ts) | year(dt)
    s like 'a\\_%' | s like 'a%' | s not like '%b%' | s like n | s ilike 'AB%' | s rlike '^[a-z]'
    substring(s, 0, 2) | substring(s, i, 2) | left(s, 1) | length(s) | initcap(s)
    array_contains(ar, 2) | not array_contains(ar, 5) | size(ar) | element_at(m, 'k') | transform(ar, x -> x + 1)
    sort_array(ar) | array_max(ar) | filter(ar, x -> x > 1) | map_keys(m) | st.a | st.`b c` | element_at(m, 'none')
    isnull(n) | isnotnull(n) | isnan(d) | n <=> s | nvl(n, s) | coalesce(n, 'none') | if(b, 'yes', 'no')
    unix_seconds(ts) | date_trunc('month', ts) | datediff(dt, date'2020-01-01') | date_add(dt, i) | last_day(dt)
    date_format(ts, 'yyyy-MM-dd HH:mm:ss') | date_format(dt, 'EEEE') | monthname(dt)
    'it''s' | "dq" | 'a\tb' | s || n | concat(s, '-', i) | concat_ws('-', s, n, 'x') | regexp_replace(s, '[ab]', 'X')
    i / 2 | i div 2 | i % 5 | dec / 3 | dec * dec | round(dec, 1) | 1 / 3 | split(s, '[,.]')
    row_number() over (order by i) | lag(i) over (order by s) | sum(i) over (partition by b) | greatest(i, 2, null)
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "it's [1] läke") as lake:
        yield lake


def comparable(value: Any) -> Any:
    """The same for what is the same: Spark's rows, DuckDB's dictionaries, two kinds of NaN and of UTC."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    if hasattr(value, "asDict"):
        return {name: comparable(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    return [comparable(each) for each in value] if isinstance(value, list | tuple) else value


def assert_same(session: Session, lake: Lake, sql: str) -> int:
    """Both engines give the same columns and the same rows; how many."""
    theirs = session.spark.sql(sql)
    ours = query(lake, sql)
    assert [column.name for column in ours.columns] == theirs.columns
    found = sorted(str(comparable(row)) for row in ours)
    assert found == sorted(str(comparable(tuple(row))) for row in theirs.collect())
    return len(found)


def run(session: Session, *statements: str) -> None:
    for statement in statements:
        session.spark.sql(statement)


def make_values(session: Session) -> None:
    run(
        session,
        "create namespace gold",
        "create table gold.vals (i int, d double, dec decimal(12, 3), s string, n string, b boolean, dt date,"
        " ts timestamp, ar array<int>, m map<string, int>, st struct<a: int, `b c`: string>, bin binary,"
        " ntz timestamp_ntz) tblproperties ('write.metadata.compression-codec'='gzip')",
        f"insert into gold.vals values {VALUES}",
    )


def test_every_type_is_the_same_as_in_spark(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    make_values(session)
    assert assert_same(session, lake, "select * from gold.vals") == 4
    assert_same(
        session,
        lake,
        "select dt, ts, count(*) as n from gold.vals where ts < now() and dt > date'1500-01-01' group by 1, 2",
    )


def test_views_give_the_values_that_spark_gives(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    make_values(session)
    expressions = [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in line.split(" | ")]
    columns = ", ".join(f"{expression} as e{n}" for n, expression in enumerate(expressions))
    run(
        session,
        "use gold",
        f"create view gold.many as select i as key, {columns} from vals",
        "create view gold.grouped (`K ey` comment 'of two', n) as select b, count(*) from vals group by b order by b",
        "create view gold.exploded as select i, e from vals lateral view explode(ar) t as e",
        "create view gold.above as with g as (select * from grouped) select max(n) as top, count(*) as `count` from g",
        "create view gold.sets as select i from vals where i > 0 union all (select 5 except select i from vals)",
    )
    theirs = session.spark.table("gold.many").collect()
    ours = {row[0]: row for row in rows(lake, "select * from gold.many")}
    for row in theirs:
        wrong = [
            (expression, mine, his)
            for expression, mine, his in zip(expressions, ours[row["key"]][1:], tuple(row)[1:], strict=True)
            if str(comparable(mine)) != str(comparable(his))
        ]
        assert wrong == []
    for view in ("grouped", "exploded", "above", "sets"):
        assert assert_same(session, lake, f"select * from gold.{view}")


def test_hidden_partitions_are_pruned_rightly(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    run(
        session,
        "create namespace gold",
        "create table gold.hidden (id int, ts timestamp, s string, d date)"
        " partitioned by (days(ts), truncate(2, s), bucket(3, id), months(d))",
        "insert into gold.hidden select id, timestamp_seconds(id * 40000 - 400000),"
        " if(id % 7 = 0, null, concat('é', id)), date_from_unix_date(id * 20 - 500) from range(60)",
        "alter table gold.hidden alter column id type bigint",
        "alter table gold.hidden drop partition field days(ts)",
        "alter table gold.hidden rename column s to text",
        "insert into gold.hidden values (3000000000, timestamp'2020-01-01', 'new', date'2020-01-01')",
    )
    for condition in (
        "id = 5",
        "id > 2500000000",
        "text = 'é5'",
        "text is null",
        "d < date'1970-01-01'",
        "text >= 'é5'",
    ):
        assert assert_same(session, lake, f"select * from gold.hidden where {condition}"), condition


def test_deletes_of_the_second_format_are_honoured(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    run(
        session,
        "create namespace gold",
        f"create table gold.mor (id bigint, p int, v string) partitioned by (p) tblproperties ({MERGE_ON_READ})",
        "insert into gold.mor select id, cast(id % 3 as int), cast(id as string) from range(3000)",
        "delete from gold.mor where id % 4 = 0",
        "update gold.mor set v = 'changed' where id % 50 = 1",
        "delete from gold.mor where p = 2 and id > 2000",
    )
    metadata = lake.at().metadata("gold.mor")
    assert metadata.current
    assert metadata.current.count("total-position-deletes")
    for condition in ("true", "v = 'changed'", "p = 2", "id < 100"):
        assert_same(session, lake, f"select * from gold.mor where {condition}")
        assert_same(session, lake, f"select count(*) as n, sum(id) as s from gold.mor where {condition}")


def test_deletion_vectors_never_give_wrong_rows(lake: Lake, spark_on: Open) -> None:
    """Of four vectors in one Puffin file, one of them large, DuckDB makes other rows: PyIceberg reads the table."""
    session = spark_on(lake, "main")
    run(
        session,
        "create namespace gold",
        f"create table gold.dv (id bigint, v string) tblproperties ('format-version'='3', {MERGE_ON_READ})",
        "create table gold.v3 (id bigint) tblproperties ('format-version'='3')",
        "insert into gold.v3 values (1), (2)",
    )
    session.spark.range(0, 100_000, 1, 4).selectExpr("id", "cast(id as string) as v").writeTo("gold.dv").append()
    run(
        session,
        "delete from gold.dv where (id < 25000 and id % 3 = 0) or id in (30000, 60000, 90000) or id % 10007 = 1",
    )
    storage = lake.storage
    assert "PUFFIN" in file_kinds("gold.dv", lake.at().metadata("gold.dv"), storage)
    assert file_kinds("gold.v3", lake.at().metadata("gold.v3"), storage) == {"PARQUET"}
    for sql in (
        "select count(*) as n, sum(id) as s, min(v) as v from gold.dv",
        "select * from gold.dv where id < 100 or v = '60000'",
        "select count(*) as n from gold.dv a join gold.dv b on a.id = b.id join gold.v3 c on a.id = c.id + 1",
    ):
        assert assert_same(session, lake, sql)
    code = (
        "import sys; from mere.lake.lake import Lake\n"
        "result = Lake.open(sys.argv[1]).sql('select * from gold.dv')\n"
        "print(len(next(result.rows())))"
    )
    done = subprocess.run([sys.executable, "-c", code, lake.root], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("2\n", "", 0)


def test_files_that_duckdb_cannot_read_are_read_by_pyiceberg_or_refused(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    run(session, "create namespace gold")
    for form in ("orc", "avro"):
        run(
            session,
            f"create table gold.{form} (id int) tblproperties ('write.format.default'='{form}')",
            f"insert into gold.{form} values (1), (2)",
        )
    assert rows(lake, "select sum(id) from gold.orc") == [(3,)]
    assert "mere sql cannot read gold.avro" in failure(lake, "select * from gold.avro")
