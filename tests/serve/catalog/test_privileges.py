"""has_table_privilege and its like: as a real Postgres answers somebody who may read, and by the role."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mere.lake.lake import Lake
from mere.serve.catalog import calls
from mere.serve.parse import syntax
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import declared, failure, rows
from tests.serve.conftest import CLIENT

Pair = tuple[psycopg.Connection, psycopg.Connection]


@pytest.fixture(scope="module")
def both(shop_in_lake: str, shop_in_postgres: str) -> Iterator[Pair]:
    with psycopg.connect(shop_in_postgres, autocommit=True) as owner:
        owner.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
        owner.execute("GRANT USAGE ON SCHEMA gold, silver TO reader")
        owner.execute("GRANT SELECT ON ALL TABLES IN SCHEMA gold, silver TO reader")
        owner.execute("REVOKE ALL ON DATABASE shop FROM PUBLIC")
        owner.execute("GRANT CONNECT ON DATABASE shop TO reader")
        with (
            psycopg.connect(shop_in_lake.replace(f"{CLIENT}@", "reader@"), autocommit=True) as ours,
            psycopg.connect(
                shop_in_postgres.replace(f"{CLIENT}:{CLIENT}@", "reader:reader@"), autocommit=True
            ) as theirs,
        ):
            yield ours, theirs
        owner.execute("DROP OWNED BY reader")
        owner.execute("DROP ROLE reader")
        owner.execute("GRANT CONNECT, TEMPORARY ON DATABASE shop TO PUBLIC")


def answer(connection: psycopg.Connection, query: str) -> object:
    try:
        return connection.execute(query).fetchall()
    except psycopg.Error as error:
        return error.sqlstate


EXPRESSIONS = [
    "has_table_privilege('gold.orders', 'SELECT')",
    "has_table_privilege('gold.orders', 'select, insert')",
    "has_table_privilege('gold.orders', ' Insert , update')",
    "has_table_privilege('gold.orders', 'delete')",
    "has_table_privilege('gold.orders', 'select with grant option')",
    "has_table_privilege('gold.orders', 'read')",
    "has_table_privilege('gold.orders', '')",
    "has_table_privilege('gold.orders', 'select, read')",
    "has_table_privilege('GOLD.Orders', 'SELECT')",
    "has_table_privilege('gold.nothing', 'SELECT')",
    "has_table_privilege('nowhere.orders', 'SELECT')",
    "has_table_privilege('gold.orders'::regclass, 'SELECT')",
    "has_table_privilege('gold.orders'::regclass::oid, 'truncate')",
    "has_table_privilege(4294967, 'SELECT')",
    "has_table_privilege(null::text, 'SELECT')",
    "has_table_privilege('gold.orders', null)",
    "has_table_privilege('reader', 'gold.orders', 'SELECT')",
    "has_table_privilege(current_user, 'gold.orders', 'INSERT')",
    "has_table_privilege('stranger', 'gold.orders', 'SELECT')",
    "has_table_privilege('pg_class', 'SELECT')",
    "has_any_column_privilege('gold.orders', 'SELECT')",
    "has_any_column_privilege('gold.orders', 'DELETE')",
    "has_column_privilege('gold.orders', 'id', 'SELECT')",
    "has_column_privilege('gold.orders', 'id', 'UPDATE')",
    "has_column_privilege('gold.orders', 'nothing', 'SELECT')",
    "has_column_privilege('gold.orders', 1::smallint, 'SELECT')",
    "has_column_privilege('gold.orders', 99::smallint, 'SELECT')",
    "has_column_privilege('gold.nothing', 'id', 'SELECT')",
    "has_column_privilege('reader', 'gold.orders', 'id', 'select,references')",
    "has_schema_privilege('gold', 'USAGE')",
    "has_schema_privilege('gold', 'CREATE')",
    "has_schema_privilege('nowhere', 'USAGE')",
    "has_schema_privilege('gold', 'SELECT')",
    "has_schema_privilege('reader', 'silver', 'usage,create')",
    "has_database_privilege('shop', 'CONNECT')",
    "has_database_privilege('shop', 'CREATE')",
    "has_database_privilege('shop', 'TEMP')",
    "has_database_privilege('nowhere', 'CONNECT')",
    "has_database_privilege(current_database(), 'connect')",
    "has_function_privilege('lower(text)', 'EXECUTE')",
    "has_tablespace_privilege('pg_default', 'CREATE')",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_privilege_is_what_it_is_in_postgres(expression: str, both: Pair) -> None:
    ours, theirs = (answer(connection, f"SELECT {expression}") for connection in both)
    assert ours == theirs


QUERIES = [
    """SELECT c.relname, has_table_privilege(c.oid, 'SELECT'), has_table_privilege(c.oid, 'INSERT')
       FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = 'gold' AND c.relkind IN ('r', 'v') ORDER BY 1""",
    """SELECT nspname, has_schema_privilege(nspname, 'USAGE') FROM pg_namespace
       WHERE nspname IN ('gold', 'silver') ORDER BY 1""",
    """SELECT tablename, has_table_privilege(schemaname || '.' || tablename, 'SELECT') FROM pg_tables
       WHERE schemaname = 'gold' ORDER BY 1""",
    """SELECT tablename, has_any_column_privilege('"' || replace(schemaname, '"', '""') || '".' ||
              quote_ident(tablename), 'UPDATE, SELECT') FROM pg_tables WHERE schemaname = 'gold' ORDER BY 1""",
    "SELECT p, has_table_privilege('gold.orders', p) FROM (VALUES ('SELECT'), ('insert')) v(p) ORDER BY 1",
    """SELECT attname, has_column_privilege(attrelid, attname, 'SELECT'),
              has_column_privilege(attrelid, attnum, 'INSERT') FROM pg_attribute
       WHERE attrelid = 'gold.orders'::regclass AND attnum > 0 ORDER BY attnum""",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_privilege_of_what_a_query_finds(query: str, both: Pair) -> None:
    ours, theirs = (answer(connection, query) for connection in both)
    assert ours == theirs


def test_a_name_that_is_put_together_is_computed_once() -> None:
    """It would stand in the text a dozen times, in queries within queries: each call took DuckDB a second to plan."""
    arguments = [syntax.expression(text) for text in ("'gold.' || replace(t.name, 'a', 'b')", "'select'")]
    call = calls.call("has_table_privilege", arguments)
    assert call is not None
    assert call.sql(dialect="duckdb").lower().count("replace(t.name") == 1


def test_a_role_has_no_privilege_on_what_it_does_not_see(tmp_path: Path) -> None:
    role = {"tables": "gold.c*", "columns": {"gold.customers": ["country"]}, "refs": "main"}
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        orders.write(lake, "silver.raw", orders.CUSTOMERS)
        orders.write(lake, "gold.hidden", orders.CUSTOMERS)
        lake.branch("dev")
        backend = LakeBackend(lake, declared({"ann": role, "all": {"tables": "*"}}))
        ann, whole = backend.connect("ann", "main", {}), backend.connect("all", "main", {})
        for call, sqlstate in {
            "has_table_privilege('silver.raw', 'SELECT')": "3F000",
            "has_any_column_privilege('silver.raw', 'SELECT')": "3F000",
            "has_table_privilege('gold.hidden', 'SELECT')": "42P01",
            "has_column_privilege('gold.customers', 'name', 'SELECT')": "42703",
            "has_schema_privilege('silver', 'USAGE')": "3F000",
            "has_database_privilege('dev', 'CONNECT')": "3D000",
        }.items():
            hidden, never = (
                failure(ann, f"select {each}")
                for each in (call, call.replace("dev", "xyz").replace("raw", "xyz").replace("hidden", "xyz"))
            )
            assert (hidden.sqlstate, never.sqlstate) == (sqlstate, sqlstate)
            assert rows(whole, f"select {call}") == [("t",)]
        (raw,) = rows(whole, "select oid::bigint from pg_class where relname = 'raw'")
        assert rows(ann, f"select has_table_privilege({raw[0]}, 'SELECT')") == [(None,)]
        assert rows(whole, f"select has_table_privilege({raw[0]}, 'SELECT')") == [("t",)]
        assert failure(ann, "select has_table_privilege('all', 'gold.customers', 'SELECT')").sqlstate == "42704"
        backend.close()
