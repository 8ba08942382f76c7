"""Rows of real databases as Spark reads them: Postgres, and SQLite for those of which mere knows nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from mere import Lake, Session
from mere.errors import SourceError
from mere.pipeline.load.database import bounded, frame, tail
from mere.sources.source import Database, Declared, Portion, Source
from tests.services.postgres import PASSWORD, Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = Portion("rows", "", "")


@pytest.fixture(scope="module")
def url(postgres_server: Postgres) -> str:
    return postgres_server.new_database("sources_read")


@pytest.fixture
def spark(tmp_path: Path, spark_on: Callable[..., Session]) -> SparkSession:
    with Lake.create(str(tmp_path / "lake")) as lake:
        return spark_on(lake, "main").spark


@pytest.fixture
def in_berlin(spark: SparkSession) -> Iterator[None]:
    """The JVM has another time zone than the session, as it has on most machines."""
    zones: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Europe/Berlin"))
    yield
    zones.setDefault(before)


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


def source(database: Database, columns: Mapping[str, Declared] | None = None) -> Source:
    return Source(database, "", columns=columns or {})


# A value of each type as Postgres writes it, what Spark makes of it, and of which type.
TYPES: list[tuple[str, str, str, Any]] = [
    ("boolean", "true", "boolean", True),
    ("smallint", "-32768", "smallint", -32768),
    ("integer", "2147483647", "int", 2147483647),
    ("bigint", "9223372036854775807", "bigint", 9223372036854775807),
    ("real", "1.5", "float", 1.5),
    ("double precision", "0.1", "double", 0.1),
    ("numeric(38,10)", "1234567890123456789012345678.0123456789", "decimal(38,10)",
     Decimal("1234567890123456789012345678.0123456789")),
    ("numeric(5,2)", "1.10", "decimal(5,2)", Decimal("1.10")),
    ("numeric(2,4)", "0.0012", "decimal(4,4)", Decimal("0.0012")),
    ("numeric", "1" * 50 + ".10", "string", "1" * 50 + ".10"),
    ("numeric(50,2)", "1.10", "string", "1.10"),
    ("numeric(5,-2)", "12300", "string", "12300"),
    ("text", "ä'\"\\\n\t😀", "string", "ä'\"\\\n\t😀"),
    ("varchar(5)", "abc", "string", "abc"),
    ("bytea", "\\x00ff", "binary", bytearray(b"\x00\xff")),
    ("uuid", "6b9d4b6e-6f8c-4a3e-9d53-0d8f7b0f9b11", "string", "6b9d4b6e-6f8c-4a3e-9d53-0d8f7b0f9b11"),
    ("json", '{"a": 1.10}', "string", '{"a": 1.10}'),
    ("jsonb", '{"b":[1,2]}', "string", '{"b": [1, 2]}'),
    ("mood", "so so", "string", "so so"),
    ("positive", "5", "int", 5),
    ("money", "-1234.56", "decimal(21,2)", Decimal("-1234.56")),
    ("inet", "10.0.0.1/8", "string", "10.0.0.1/8"),
    ("time", "23:59:59.999999", "string", "23:59:59.999999"),
    ("int4range", "[1,5)", "string", "[1,5)"),
    ("bit(3)", "101", "string", "101"),
    ("integer[]", "{1,NULL,3}", "array<int>", [1, None, 3]),
    ("text[]", '{a,"b,c",""}', "array<string>", ["a", "b,c", ""]),
    ("uuid[]", "{6b9d4b6e-6f8c-4a3e-9d53-0d8f7b0f9b11}", "array<string>", ["6b9d4b6e-6f8c-4a3e-9d53-0d8f7b0f9b11"]),
    ("date", "2024-02-29", "date", date(2024, 2, 29)),
    ("date", "1500-01-01", "date", date(1500, 1, 1)),
    ("date", "infinity", "date", date(9999, 12, 31)),
    ("date", "-infinity", "date", date(1, 1, 1)),
    # Half past two did not exist in Berlin that night, and came twice in the other.
    ("timestamp", "2024-03-31 02:30:00.123456", "timestamp_ntz", datetime(2024, 3, 31, 2, 30, 0, 123456)),
    ("timestamp", "2024-10-27 02:30:00", "timestamp_ntz", datetime(2024, 10, 27, 2, 30)),
    ("timestamp", "1500-01-01 00:00:00", "timestamp_ntz", datetime(1500, 1, 1)),
    ("timestamp", "infinity", "timestamp_ntz", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", "2024-03-31 02:30:00.123456+02", "timestamp", datetime(2024, 3, 31, 0, 30, 0, 123456)),
    ("timestamptz", "-infinity", "timestamp", datetime(1, 1, 1)),
]  # fmt: skip


def test_every_type_arrives_as_what_it_is(url: str, spark: SparkSession, in_berlin: None) -> None:
    """All at once, so that it takes one query: a column for each value, a second row of NULLs."""
    columns = ", ".join(f"v{at} {kind}" for at, (kind, *_) in enumerate(TYPES))
    execute(
        url,
        "CREATE TYPE mood AS ENUM ('happy', 'so so'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);"
        f" CREATE TABLE every_type ({columns})",
    )
    with psycopg.connect(url, autocommit=True) as connection:
        places = ", ".join(f"%s::{kind}" for kind, *_ in TYPES)
        connection.execute(f"INSERT INTO every_type VALUES ({places})".encode(), [text for _, text, *_ in TYPES])
        connection.execute("INSERT INTO every_type VALUES (NULL)")
    rows = frame(source(Database(url, "every_type")), ALL, spark)
    assert [field.dataType.simpleString() for field in rows.schema] == [kind for _, _, kind, _ in TYPES]
    # Times with a zone as texts: collected, they would be in the time zone of this process.
    texts = [f"CAST({name} AS TIMESTAMP_NTZ) AS {name}" if kind == "timestamp" else name for name, kind in rows.dtypes]
    found, nulls = sorted(rows.selectExpr(*texts).collect(), key=lambda row: row[0] is None)
    assert list(found) == [value for *_, value in TYPES]
    assert set(nulls) == {None}


def test_columns_keep_their_names_and_a_text_is_what_postgres_writes(url: str, spark: SparkSession) -> None:
    execute(
        url,
        'CREATE SCHEMA "Weird.Schema"; CREATE TABLE "Weird.Schema"."my ""table""" ("select" int, "a.b" int,'
        ' "Mixed Case" int, "q""uote`" int, took interval);'
        ' INSERT INTO "Weird.Schema"."my ""table""" VALUES (1, 2, 3, 4, \'1 mon\')',
    )
    database = Database(url, '"Weird.Schema"."my ""table"""')
    rows = frame(source(database, {"length": Declared("string", source="took")}), ALL, spark)
    assert rows.columns == ["select", "a.b", "Mixed Case", 'q"uote`', "took"]
    assert list(rows.collect()[0]) == [1, 2, 3, 4, "1 mon"]


def test_a_portion_in_parts_has_each_of_its_rows_once(url: str, spark: SparkSession) -> None:
    execute(
        url,
        "CREATE TABLE events (id int, at timestamptz);"
        " INSERT INTO events SELECT n, timestamptz '2026-01-01 00:00+00' + n * interval '1 hour'"
        " FROM generate_series(1, 200) AS n; INSERT INTO events VALUES (201, 'infinity'), (202, NULL)",
    )
    database = Database(url, "events", cursor="at", partition_column="at", partitions=4)
    until = "2026-01-05T04:00:00.000000+00:00"  # n = 100
    whole = frame(source(database), Portion("rows", "", "", until=until), spark)
    assert sorted(row.id for row in whole.collect()) == [*range(1, 101), 201, 202]
    more = Portion("rows", "", "", since="2026-01-05T00:00:00.000000+00:00", until=until)  # n = 96
    assert sorted(row.id for row in frame(source(database), more, spark).collect()) == [*range(96, 101), 201]
    by_id = replace(database, partition_column="id")
    assert sorted(row.id for row in frame(source(by_id), more, spark).collect()) == [*range(96, 101), 201]
    parts = frame(source(by_id), ALL, spark)
    assert parts.selectExpr("spark_partition_id() AS part").distinct().count() == 4


def test_no_user_and_no_password_is_in_a_plan_or_an_error(url: str, spark: SparkSession) -> None:
    execute(url, "CREATE TABLE secretive (id int)")
    rows = frame(source(Database(url, "secretive")), ALL, spark)
    rows.createOrReplaceTempView("secretive_rows")
    plan = "\n".join(row[0] for row in spark.sql("EXPLAIN EXTENDED SELECT * FROM secretive_rows").collect())
    assert PASSWORD not in plan
    assert "user" not in plan
    with pytest.raises(Exception) as raised:
        frame(source(Database(url, query="SELECT 1/(id - 1) AS id FROM (VALUES (1)) AS v(id)")), ALL, spark).collect()
    assert "division by zero" in str(raised.value)
    assert PASSWORD not in str(raised.value)


def test_the_rows_that_a_portion_replaces_are_those_that_it_reads_again(spark: SparkSession) -> None:
    portion = Portion("rows", "", "", since="2026-01-02T00:00:00.000000+00:00", until="x")
    condition = tail(Database("", "t", cursor="at"), portion, "at", "timestamp")
    assert condition is not None
    times = spark.sql("SELECT explode(array(TIMESTAMP '2026-01-01 23:59:59Z', TIMESTAMP '2026-01-02 00:00:00Z')) AS at")
    assert times.where(condition).count() == 1
    assert tail(Database("", "t", cursor="at"), ALL, "at", "timestamp") is None


def test_another_database_is_read_by_spark_alone(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", [(at, f"n{at}") for at in (*range(1, 11), None)])
    connection.close()
    database = Database(f"jdbc:sqlite:{file}", "orders", cursor="id", partition_column="id", partitions=2)
    whole = bounded(source(database), ALL, spark)
    assert whole.until == "10"
    assert frame(source(database), whole, spark).count() == 11
    more = replace(whole, since="8")
    assert sorted(row.id for row in frame(source(replace(database, overlap=2)), more, spark).collect()) == [
        6,
        7,
        8,
        9,
        10,
    ]
    query = Database(f"jdbc:sqlite:{file}", query="SELECT max(id) AS most FROM orders -- that is all")
    assert [row.most for row in frame(source(query), ALL, spark).collect()] == [10]


def test_a_driver_that_is_not_there_is_said_so(spark: SparkSession) -> None:
    for url in ("jdbc:mysql://h/d", "jdbc:nosuch://h/d"):
        with pytest.raises(SourceError, match="no driver for this database"):
            frame(source(Database(url, "t")), ALL, spark)
