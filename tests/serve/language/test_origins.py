"""The columns of a result: their types, and the tables that they are from, as a real Postgres tells them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.generators import execute

from mere.serve import builtin

Both = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(scope="module")
def both(shop_in_lake: str, shop_in_postgres: str) -> Iterator[Both]:
    with (
        psycopg.connect(shop_in_lake, autocommit=True) as ours,
        psycopg.connect(shop_in_postgres, autocommit=True) as real,
    ):
        yield ours, real


OF_ROWS = "pg_catalog.pg_statistic_ext_data"  # it has an array of rows of a system table, a type that is not served


def columns(connection: psycopg.Connection, query: str) -> list[tuple[object, ...]]:
    """Name, type, its size and modifier, and the column's table and number there."""
    connection.pgconn.prepare(b"", query.encode())
    connection.pgconn.send_describe_prepared(b"")  # what waits for the answer would keep the server from giving it
    (found,) = connection.wait(execute(connection.pgconn))
    assert found.status == psycopg.pq.ExecStatus.COMMAND_OK, found.error_message
    run = connection.pgconn.exec_params(query.encode(), None)
    assert run.status == psycopg.pq.ExecStatus.TUPLES_OK, run.error_message
    told, run_told = (
        [
            (each.fname(at), each.ftype(at), each.fsize(at), each.fmod(at), each.ftable(at), each.ftablecol(at))
            for at in range(each.nfields)
        ]
        for each in (found, run)
    )
    assert told == run_told
    return list(told)


def test_every_column_of_every_system_table_has_the_type_that_postgres_gives_it(both: Both) -> None:
    ours, real = both
    differ = {}
    for relation in builtin.definitions():
        query = f"SELECT * FROM {relation} WHERE false"
        if (mine := columns(ours, query)) != (theirs := columns(real, query)) and relation != OF_ROWS:
            differ[relation] = set(mine) ^ set(theirs)
    assert differ == {}


def test_every_system_table_can_be_read_in_the_binary_format(both: Both) -> None:
    """aclitem has none in Postgres, and what there is in the others differs: here, each of them has only to be read."""
    ours, _ = both
    for relation, definition in builtin.definitions().items():
        names = ", ".join(f'"{each.name}"' for each in definition.columns if each.type != "aclitem[]")
        with ours.cursor(binary=True) as cursor:
            binary = cursor.execute(f"SELECT {names} FROM {relation} LIMIT 500").fetchall()
        text = ours.execute(f"SELECT {names} FROM {relation} LIMIT 500").fetchall()
        assert len(binary) == len(text)
        assert [len(row) for row in binary] == [len(row) for row in text]


SHOWN = [
    "SELECT oid, typinput, typoutput, typreceive, typsend, typmodin, typmodout, typsubscript FROM pg_type",
    "SELECT oid, typreceive::text, typname || typinput::text FROM pg_type",
    "SELECT oid, amhandler FROM pg_am",
    "SELECT rngtypid, rngcanonical, rngsubdiff FROM pg_range",
]


@pytest.mark.parametrize("query", SHOWN)
def test_a_function_is_shown_by_its_name(query: str, both: Both) -> None:
    ours, real = ({row[0]: row[1:] for row in each.execute(query).fetchall()} for each in both)
    assert ours == {oid: real[oid] for oid in ours}
    assert ours


# Nothing of the tables is shown: in Postgres they are empty.
QUERIES = [
    "SELECT * FROM gold.orders",
    "SELECT orders.* FROM gold.orders",
    "SELECT id, (line), o.customer AS who, id + 1, id::int, day::text FROM gold.orders o",
    "SELECT * FROM gold.totals",
    "WITH a AS (SELECT id, oid FROM gold.orders, pg_class) SELECT * FROM a",
    "WITH a (x, y) AS (SELECT id, relname FROM gold.orders, pg_class) SELECT y, x, a.x FROM a",
    "SELECT x.b FROM (SELECT id AS a, customer AS b FROM gold.orders) x",
    "SELECT * FROM gold.orders o JOIN silver.orders s USING (id)",
    "SELECT o.id, s.* FROM gold.orders o LEFT JOIN silver.orders s ON s.id = o.id",
    "SELECT c.* FROM gold.orders o, LATERAL (SELECT o.id, o.day) c",
    "SELECT id FROM gold.orders UNION SELECT id FROM silver.orders",
    "SELECT oid, relname FROM pg_class UNION ALL SELECT 0, 'x'",
    "SELECT relname FROM pg_class UNION ALL SELECT 'x'::text",
    "SELECT max(oid), min(relname), count(*), any_value(oid), array_agg(relname), array_agg(oid) FROM pg_class",
    "SELECT CASE WHEN true THEN oid ELSE 0 END, coalesce(relname, 'x'), nullif(oid, 1), relname || 'x' FROM pg_class",
    "SELECT (SELECT oid FROM pg_class LIMIT 1), (SELECT relname FROM pg_class LIMIT 1) AS n",
    "SELECT lag(oid) OVER (ORDER BY oid), first_value(relname) OVER () FROM pg_class",
    "SELECT 'a'::varchar(3), 'a'::name, '1'::oid, 'x'::\"char\", ARRAY['a']::name[], ARRAY[1]::oid[], 1::oid::text",
    "SELECT current_database(), current_schema, current_user, session_user, user, current_catalog, version()",
    "SELECT current_schemas(true), pg_get_userbyid(10), getdatabaseencoding(), pg_my_temp_schema()",
    "SELECT table_name, is_nullable, ordinal_position, character_set_name FROM information_schema.columns",
    "SELECT max(table_name), ordinal_position + 1, upper(min(table_name)) FROM information_schema.columns GROUP BY 2",
    "SELECT customer, id FROM gold.orders UNION ALL SELECT relname, oid FROM pg_class",
    "SELECT id, amount FROM gold.orders UNION ALL SELECT id, price FROM gold.orders",
    "SELECT indkey, indclass, indkey[0], indoption::text FROM pg_index",
    "SELECT attname, attnum, attidentity, attacl, attoptions FROM pg_attribute",
    "WITH RECURSIVE t (n, d) AS (SELECT oid, 1 FROM pg_class UNION ALL SELECT n, d FROM t WHERE d < 1) TABLE t",
    "SELECT EXISTS (SELECT 1), 1.5::numeric(5,2), NULL, 'x', 1, $$a$$::varchar",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_tells_of_its_columns_what_postgres_tells(query: str, both: Both) -> None:
    """The tables have other numbers here."""
    ours, real = (columns(each, f"SELECT * FROM ({query}) q LIMIT 0") for each in both)
    assert _by_place(ours) == _by_place(real)
    ours, real = (columns(each, query) for each in both)
    assert _by_place(ours) == _by_place(real)


def _by_place(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """With the tables numbered as they come."""
    tables = dict.fromkeys(table for *_, table, _ in found if table)
    return [(*rest, table and list(tables).index(table) + 1, number) for *rest, table, number in found]


def test_the_table_of_a_column_is_found_in_pg_class(both: Both) -> None:
    ours, _ = both
    (first, *_) = columns(ours, "SELECT id FROM gold.orders")
    named = ours.execute("SELECT oid::regclass::text FROM pg_class WHERE oid = %s", [first[4]]).fetchall()
    assert named == [("orders",)]


NAMES = ["user", "current_user", "session_user", "current_role", "current_catalog", "current_date", "localtime"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_quotes_is_a_column_or_an_error(name: str, both: Both) -> None:
    ours, real = both
    for connection in both:
        with pytest.raises(psycopg.errors.UndefinedColumn, match=f'column "{name}" does not exist'):
            connection.execute(f'SELECT "{name}"')
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute(f'SELECT 1 FROM gold.orders WHERE "{name}" IS NULL')
    found = f'SELECT "{name}", (SELECT "{name}") AS again FROM (VALUES (1)) AS t ("{name}") ORDER BY "{name}"'
    assert ours.execute(found).fetchall() == real.execute(found).fetchall() == [(1, 1)]


ROWS = [
    "SELECT u FROM unnest(ARRAY[1, 2]) AS u",
    "SELECT * FROM unnest(ARRAY['a', 'b']) WITH ORDINALITY AS o (a, b)",
    "SELECT k, e FROM (SELECT ARRAY['a', 'b'] AS k) x CROSS JOIN unnest(k) AS e ORDER BY e",
    "SELECT k, e.f FROM (SELECT ARRAY['a', 'b'] AS k) x LEFT JOIN LATERAL unnest(k) AS e (f) ON true ORDER BY f",
    "SELECT n, e FROM (SELECT ARRAY['a', 'b'] AS k) x, LATERAL unnest(k) WITH ORDINALITY AS o (e, n) ORDER BY n",
    ("SELECT attname FROM pg_constraint c CROSS JOIN unnest(conkey) AS key JOIN pg_attribute a ON a.attnum = key"
    " AND attrelid = conrelid WHERE conname = 'orders_pkey' ORDER BY 1"),
    "SELECT \"user\" FROM unnest(ARRAY[1]) AS \"user\"",
]  # fmt: skip


@pytest.mark.parametrize("query", ROWS)
def test_the_column_of_a_function_has_the_name_of_its_alias(query: str, both: Both) -> None:
    ours, real = both
    assert columns(ours, query) == columns(real, query)
    assert ours.execute(query).fetchall() == real.execute(query).fetchall()
