"""What is asked of a database without Spark; Postgres is a real one."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from mere.engine.jvm.jars import POSTGRES
from mere.errors import SourceError
from mere.sources import database as db
from mere.sources.postgres import table_name
from mere.sources.source import Database, Loaded, Portion
from mere.sql.spelling.standard import quoted
from tests.services.postgres import PASSWORD, Postgres

NAME = "sources_asked"
ALL = Portion("rows", "", "")


@pytest.fixture(scope="module")
def url(postgres_server: Postgres) -> str:
    return postgres_server.new_database(NAME)


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True) as opened:
        opened.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        yield opened


Connection = psycopg.Connection[tuple[object, ...]]


def loaded(until: str | None) -> Loaded:
    return Loaded("rows", "", "", 0, None, None, 1, 0, None, until, "1", datetime.now(UTC), "run_1")


def matching(connection: Connection, database: Database, portion: Portion) -> list[object]:
    """The rows of a portion by what Spark is given, asked over the same server."""
    query = db.reading(database, portion, {}).options["dbtable"]
    return sorted((row[0] for row in connection.execute(f"SELECT c0 FROM {query}".encode())), key=str)


# names


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("orders", ("orders",)),
        ("Shop.Orders", ("Shop", "Orders")),
        ('"my.schema"."a ""b"" c"', ("my.schema", 'a "b" c')),
        ("select", ("select",)),
        ("x; DROP TABLE y --", ("x; DROP TABLE y --",)),
    ],
)
def test_a_name_is_taken_as_it_is(text: str, parts: tuple[str, ...]) -> None:
    assert table_name(text) == parts


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "a.b.c", '"a', 'a"b', '"a"b', 'x" AS t; DROP TABLE y; --']
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="not the name of a table"):
        table_name(text)


@pytest.mark.parametrize("name", ["select", "Mixed Case", 'a"b', "a.b", "x; DROP TABLE victim --", "ä%s", "it's"])
def test_no_name_of_a_table_or_column_gets_out_of_its_quotes(url: str, connection: Connection, name: str) -> None:
    connection.execute("CREATE TABLE victim (id int)")
    connection.execute(
        f"CREATE TABLE {quoted(name)} ({quoted(name)} int); INSERT INTO {quoted(name)} VALUES (7)".encode()
    )
    database = Database(url, f'"public".{quoted(name)}', cursor=name, partition_column=name, partitions=2)
    assert db.newest(database) == "7"
    assert matching(connection, database, Portion("rows", "", "", until="7")) == [7]
    assert connection.execute("SELECT count(*) FROM victim").fetchone() == (0,)


@pytest.mark.parametrize(
    "query", ["SELECT 1 AS id;", "SELECT 1 AS id -- that is all", "SELECT 1 AS id ; \n", "VALUES (1)"]
)
def test_a_query_is_wrapped_whatever_it_ends_with(url: str, connection: Connection, query: str) -> None:
    assert matching(connection, Database(url, query=query), ALL) == [1]


def test_a_query_cannot_write(url: str, connection: Connection) -> None:
    connection.execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)")
    with pytest.raises(SourceError):
        db.reading(Database(url, query="SELECT 1) AS t; DELETE FROM kept; SELECT (1"), ALL, {})
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1,)


def test_two_columns_of_one_name_are_an_error(url: str, connection: Connection) -> None:
    with pytest.raises(SourceError, match="two columns id"):
        db.reading(Database(url, query="SELECT 1 AS id, 2 AS id"), ALL, {})


# cursors


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("integer", ["3", "20", None], "20"),
        ("bigint", ["9007199254740993"], "9007199254740993"),
        ("numeric", ["1.5", "NaN", "2.10"], "2.10"),
        ("date", ["2026-01-31", "infinity", "-infinity"], "2026-01-31"),
        ("timestamp", ["2026-01-31 10:00:00.000001", "infinity"], "2026-01-31T10:00:00.000001"),
        ("timestamptz", ["2026-01-31 10:00:00.5+02", "infinity"], "2026-01-31T08:00:00.500000+00:00"),
        ("integer", [None], None),
        ("date", ["infinity"], None),
        ("date", [], None),
    ],
)
def test_the_newest_value_is_a_text_that_means_the_same_everywhere(
    url: str, connection: Connection, kind: str, values: list[str | None], expected: str | None
) -> None:
    connection.execute(f"CREATE TABLE t (at {kind}); ALTER DATABASE {NAME} SET TimeZone = 'Asia/Tokyo'".encode())
    connection.execute(f"ALTER DATABASE {NAME} SET DateStyle = 'German'".encode())
    for value in values:
        connection.execute(f"INSERT INTO t VALUES (%s::{kind})".encode(), [value])
    assert db.newest(Database(url, "t", cursor="at")) == expected
    connection.execute(f"ALTER DATABASE {NAME} RESET ALL".encode())


@pytest.mark.parametrize(
    ("kind", "values", "last", "overlap", "first", "then"),
    [
        ("integer", ["1", "5", "8", "10", None], "8", 3, ["1", "10", "5", "8", None], ["10", "5", "8"]),
        ("date", ["2026-01-01", "2026-01-03", "infinity", None], "2026-01-03", timedelta(days=1),
         ["2026-01-01", "2026-01-03", "infinity", None], ["2026-01-03", "infinity"]),
        ("timestamptz", ["2026-01-01 00:00+00", "2026-01-02 00:00+00"], "2026-01-02T00:00:00.000000+00:00",
         timedelta(hours=1), ["2026-01-01 00:00+00", "2026-01-02 00:00+00"], ["2026-01-02 00:00+00"]),
        ("timestamp", ["2026-01-01 23:30", "2026-01-02 00:00"], "2026-01-02T00:00:00.000000", timedelta(hours=1),
         ["2026-01-01 23:30", "2026-01-02 00:00"], ["2026-01-01 23:30", "2026-01-02 00:00"]),
    ],
)  # fmt: skip
def test_a_portion_has_the_rows_from_the_last_value_less_the_overlap_up_to_the_newest(
    url: str,
    connection: Connection,
    kind: str,
    values: list[str | None],
    last: str,
    overlap: timedelta | int,
    first: list[str | None],
    then: list[str | None],
) -> None:
    connection.execute(f"CREATE TABLE t (said text, at {kind})".encode())
    for value in values:
        connection.execute(f"INSERT INTO t VALUES (%s, %s::{kind})".encode(), [value, value])
    database = Database(url, "t", cursor="at", overlap=overlap)
    whole, more = db.offered(database, None), db.offered(database, loaded(last))
    assert whole is not None
    assert more is not None
    # What comes between the plan and the load is left to the next one.
    later = "'2030-01-01'" if kind != "integer" else "99"
    connection.execute(f"INSERT INTO t VALUES ('later', {later}::{kind})".encode())
    assert matching(connection, database, whole) == sorted(first, key=str)
    assert matching(connection, database, more) == sorted(then, key=str)


def test_nothing_is_new_if_the_newest_value_is_the_last_and_there_is_no_overlap(
    url: str, connection: Connection
) -> None:
    connection.execute("CREATE TABLE t (at int); INSERT INTO t VALUES (5), (NULL)")
    database = Database(url, "t", cursor="at")
    assert db.offered(database, loaded("5")) is None
    assert db.offered(replace(database, overlap=1), loaded("5")) is not None
    assert db.offered(replace(database, cursor=None), loaded(None)) is not None
    assert db.offered(database, loaded("4")) == Portion("rows", db.address(database), "5", since="4", until="5")
    assert db.without_cursor(database) == 1


def test_a_cursor_that_went_back_is_found_out(url: str, connection: Connection) -> None:
    connection.execute("CREATE TABLE t (at int); INSERT INTO t VALUES (5)")
    database = Database(url, "t", cursor="at", overlap=2)
    assert db.offered(database, loaded("7")) is not None
    with pytest.raises(SourceError, match="was 8 at the last load, and is at most 5 now"):
        db.offered(database, loaded("8"))
    connection.execute("DELETE FROM t")
    with pytest.raises(SourceError, match="has no value now"):
        db.offered(database, loaded("5"))
    assert db.offered(database, None) is not None


@pytest.mark.parametrize("value", ["5 OR true", "1'; DROP TABLE t; --", "NaN", "2026-13-01"])
def test_only_a_value_gets_into_a_statement(url: str, connection: Connection, value: str) -> None:
    connection.execute("CREATE TABLE t (at int, day date)")
    for cursor in ("at", "day"):
        with pytest.raises(SourceError, match="is not a value of"):
            db.reading(Database(url, "t", cursor=cursor), Portion("rows", "", "", until=value), {})


def test_a_text_cannot_be_a_cursor_nor_cut_rows_into_parts(url: str, connection: Connection) -> None:
    connection.execute("CREATE TABLE t (name text)")
    with pytest.raises(SourceError, match="name is text, and cannot be a cursor"):
        db.newest(Database(url, "t", cursor="name"))
    with pytest.raises(SourceError, match="cannot be cut into parts"):
        db.reading(Database(url, "t", partition_column="name", partitions=2), ALL, {})


# what goes wrong


def test_an_interval_is_refused_by_name_unless_it_is_declared_as_text(url: str, connection: Connection) -> None:
    from mere.sources.source import Declared

    connection.execute("CREATE TABLE t (id int, took interval)")
    with pytest.raises(SourceError, match="The column took is an interval"):
        db.reading(Database(url, "t"), ALL, {})
    assert "took" in (db.reading(Database(url, "t"), ALL, {"took": Declared("string")}).columns or {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": "Nowhere"}, 'relation "Nowhere" does not exist'),
        ({"table": "t", "cursor": "att"}, "t has no column att. It has: at"),
        ({"table": None, "query": "SELEC 1"}, "syntax error"),
    ],
)
def test_what_is_not_there_is_named(url: str, connection: Connection, change: dict[str, Any], said: str) -> None:
    connection.execute("CREATE TABLE t (at int)")
    database = replace(Database(url, "t"), **change)
    with pytest.raises(SourceError, match=said):
        db.newest(database) if database.cursor else db.reading(database, ALL, {})


def test_no_user_and_no_password_is_in_an_error_or_a_repr(url: str, connection: Connection) -> None:
    connection.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (at int)")
    connection.execute(
        "DO $$ BEGIN CREATE ROLE prying_eyes LOGIN PASSWORD 'pry-s3cret'; EXCEPTION WHEN duplicate_object THEN END $$"
    )
    right = url.replace(f"postgres:{PASSWORD}@", "prying_eyes:pry-s3cret@")
    wrong = right.replace("pry-s3cret", "wr0ng-s3cret")
    nobody = right.replace("prying_eyes", "no_such_eyes")
    away = right.replace(f":{psycopg.conninfo.conninfo_to_dict(url)['port']}/", ":1/")
    for address in (right, wrong, nobody, away):
        database = Database(address, "t", cursor="at")
        with pytest.raises(SourceError) as raised:
            db.newest(database)
        told = "".join(traceback.format_exception(raised.value)) + repr(database) + db.address(database)
        assert "eyes" not in told
        assert "s3cret" not in told
    reading = db.reading(Database(url, "t"), ALL, {})
    assert PASSWORD not in repr(reading)
    assert reading.options["password"] == PASSWORD
    assert PASSWORD not in reading.options["url"] + reading.options["dbtable"]


# what Spark is told


def test_what_a_url_says_of_tls_reaches_the_driver(url: str, connection: Connection) -> None:
    connection.execute("CREATE TABLE t (at int)")
    options = db.reading(Database(f"{url}?sslmode=prefer&sslrootcert=/etc/ca.pem", "t"), ALL, {}).options
    assert options["sslmode"] == "prefer"
    assert options["sslrootcert"] == "/etc/ca.pem"
    assert options["url"].startswith("jdbc:postgresql://127.0.0.1:")


def test_a_session_gets_the_driver_of_postgres_though_its_address_is_not_known_yet() -> None:
    for url in ("postgresql://${HOST}/d", "${SHOP_DATABASE}", "jdbc:postgresql://h/d"):
        assert db.drivers(Database(url)) == (POSTGRES,)
    assert db.drivers(Database("jdbc:mysql://h/d")) == ()


@pytest.mark.parametrize(
    ("given", "left", "user", "password"),
    [
        ("jdbc:mysql://h/d?user=me&password=a%26b&useSSL=true", "jdbc:mysql://h/d?useSSL=true", "me", "a&b"),
        ("jdbc:mysql://h/d?useSSL=true&user=me&password=x", "jdbc:mysql://h/d?useSSL=true", "me", "x"),
        ("jdbc:sqlserver://h;databaseName=d;user=me;password=x;encrypt=true",
         "jdbc:sqlserver://h;databaseName=d;encrypt=true", "me", "x"),
        ("jdbc:sqlite:/tmp/x.db", "jdbc:sqlite:/tmp/x.db", None, None),
    ],
)  # fmt: skip
def test_of_another_database_only_the_user_and_password_are_taken_out_of_the_url(
    given: str, left: str, user: str | None, password: str | None
) -> None:
    database = Database(given, "shop.orders")
    options = db.reading(database, ALL, {}).options
    assert (options["url"], options.get("user"), options.get("password")) == (left, user, password)
    assert options["dbtable"] == "shop.orders"
    assert db.newest(replace(database, cursor="id")) is None
    assert "me" not in db.address(database).split()[0].replace("databaseName", "")


@pytest.mark.parametrize("name", ["a b", "x; DROP TABLE y", "(SELECT 1) z", 'a"b', "a.b.c.d", "1a", ""])
def test_of_another_database_only_plain_names_are_asked(name: str) -> None:
    with pytest.raises(SourceError, match="how it quotes names is not known"):
        db.reading(Database("jdbc:mysql://h/d", name), ALL, {})


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("integer", ["1", "100", None], ("1", "100")),
        ("numeric(10,2)", ["1.5", "9.25"], ("1", "10")),
        ("date", ["2026-01-01", "2026-02-01", "infinity"], ("2026-01-01", "2026-02-01")),
        ("timestamp", ["2026-01-01", "2026-02-01 10:00"], ("2026-01-01 00:00:00", "2026-02-01 10:00:00")),
        ("integer", ["1", "1"], None),
        ("integer", [], None),
    ],
)
def test_rows_are_cut_between_the_least_and_the_greatest_value(
    url: str, connection: Connection, kind: str, values: list[str | None], expected: tuple[str, str] | None
) -> None:
    connection.execute(f"CREATE TABLE t (at {kind})".encode())
    for value in values:
        connection.execute(f"INSERT INTO t VALUES (%s::{kind})".encode(), [value])
    options = db.reading(Database(url, "t", partition_column="at", partitions=4), ALL, {}).options
    found = (options["lowerBound"], options["upperBound"]) if "lowerBound" in options else None
    assert found == expected
