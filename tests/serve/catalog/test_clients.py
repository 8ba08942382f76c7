"""psql, SQLAlchemy and JDBC themselves: they show of the lake what they show of the same tables in Postgres."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy as sa

from mere.engine.jvm import jars, java
from tests.services import postgres

_META = Path(__file__).with_name("Meta.java")


def _psql(url: str, command: str) -> str:
    environment = {**os.environ, "PSQLRC": "/dev/null", "PAGER": ""}
    done = subprocess.run(
        [postgres.binary("psql"), url, "-X", "-c", command],
        check=False, capture_output=True, text=True, timeout=60, env=environment,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        r"\d gold.orders",
        r"\d+ gold.orders",
        r"\d gold.totals",
        r"\d silver.*",
        r"\d gold.orders_pkey",
        r"\d orders",
        r"\dt gold.*",
        r"\dv *.totals",
        r"\di gold.*",
        r"\d pg_catalog.pg_views",
        r"\df",
        r"\df abs",
        r"\dT",
        r"\d nothing.here",
        r"\dconfig search_path",
    ],
)
def test_psql_shows_the_same(command: str, shop_in_lake: str, shop_in_postgres: str) -> None:
    assert _psql(shop_in_lake, command) == _psql(shop_in_postgres, command)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (r"\dn+", "gold   | mere  | =U/mere           | For everyone"),
        (r"\dp gold.*", "orders | table | =r/mere"),
        (r"\l", "shop | mere  | UTF8"),
        (r"\du", " mere"),
        (r"\dt+ gold.*", "| What was ordered"),
        (r"\sv gold.totals", "SELECT customer, sum(amount) FROM orders GROUP BY 1"),
    ],
)
def test_psql_shows_what_is_the_lakes_own(command: str, told: str, shop_in_lake: str) -> None:
    assert told in _psql(shop_in_lake, command)


@pytest.mark.parametrize(("command", "kinds"), [(r"\d", r"\dtvs"), (r"\dt", r"\dt"), (r"\dv", r"\dv")])
def test_psql_lists_the_tables_of_all_schemas(
    command: str, kinds: str, shop_in_lake: str, shop_in_postgres: str
) -> None:
    """Also silver.orders, which Postgres leaves out because gold.orders comes first."""
    told = _psql(shop_in_lake, command)
    assert told == _psql(shop_in_postgres, f"{kinds} (gold|silver).*")
    assert command == r"\dv" or " silver | orders " in told


# What psql 15 and 16 ask for \l and \dO, as they write it.
_OF_OLDER = (
    """SELECT d.datname as "Name", pg_catalog.pg_get_userbyid(d.datdba) as "Owner", d.daticulocale as "ICU Locale",
    CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' END AS "Locale Provider"
    FROM pg_catalog.pg_database d WHERE d.daticulocale IS NULL ORDER BY 1;""",
    """SELECT n.nspname AS "Schema", c.collname AS "Name", c.colliculocale AS "ICU Locale"
    FROM pg_catalog.pg_collation c, pg_catalog.pg_namespace n WHERE n.oid = c.collnamespace
    AND c.collencoding IN (-1, pg_catalog.pg_char_to_encoding(pg_catalog.getdatabaseencoding())) ORDER BY 1, 2;""",
)


@pytest.mark.parametrize("query", _OF_OLDER)
def test_columns_that_older_clients_ask_for_are_there(query: str, shop_in_lake: str) -> None:
    with psycopg.connect(shop_in_lake) as connection:
        cursor = connection.execute(query.encode())
        assert "ICU Locale" in [each.name for each in cursor.description or ()]
        assert cursor.fetchall()


def test_columns_of_older_versions_are_only_those_of_the_catalogs(shop_in_lake: str) -> None:
    with psycopg.connect(shop_in_lake) as connection:
        told = connection.execute("SELECT x.daticulocale FROM (SELECT 1 AS daticulocale) x").fetchone()
        assert told == (1,)


def test_psql_without_a_database_is_connected_to_main(shop_in_lake: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(shop_in_lake)
    url = f"postgresql://ann@{parts['host']}:{parts['port']}"
    told = _psql(url, "SELECT current_database(), datname FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    assert "main             | main" in told
    assert 'database "nobody" does not exist' in _psql(f"{url}/nobody", "SELECT 1")


def _reflected(url: str) -> dict[str, Any]:
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        inspector = sa.inspect(engine)
        tables = {schema: sorted(inspector.get_table_names(schema)) for schema in ("gold", "silver")}
        found: dict[str, Any] = {
            "schemas": inspector.get_schema_names(),
            "default": inspector.default_schema_name,
            "tables": tables,
            "views": inspector.get_view_names("gold"),
            "has": [inspector.has_table(name, schema="gold") for name in ("orders", "totals", "nothing")],
            "own": sorted(inspector.get_table_names()),
        }
        for schema, names in tables.items():
            for name in names:
                found[f"{schema}.{name}"] = [
                    [{**column, "type": repr(column["type"])} for column in inspector.get_columns(name, schema)],
                    inspector.get_pk_constraint(name, schema),
                    inspector.get_foreign_keys(name, schema),
                    inspector.get_indexes(name, schema),
                    inspector.get_unique_constraints(name, schema),
                    inspector.get_check_constraints(name, schema),
                    inspector.get_table_comment(name, schema),
                    inspector.get_table_options(name, schema),
                ]
        loaded = sa.Table("orders", sa.MetaData(), schema="gold", autoload_with=engine)
        found["autoload"] = [repr(column) for column in loaded.columns], [column.name for column in loaded.primary_key]
        with engine.connect() as connection:
            found["rows"] = len(connection.execute(sa.select(loaded)).all())
        return found
    finally:
        engine.dispose()


def test_sqlalchemy_reflects_the_same(shop_in_lake: str, shop_in_postgres: str) -> None:
    ours, theirs = _reflected(shop_in_lake), _reflected(shop_in_postgres)
    assert ours.pop("rows") == 3  # those in Postgres are empty
    assert theirs.pop("rows") == 0
    assert ours == theirs


def test_pandas_reads_a_table_by_its_name(shop_in_lake: str) -> None:
    engine = sa.create_engine(shop_in_lake.replace("postgresql://", "postgresql+psycopg://"))
    try:
        frame = pd.read_sql_table("orders", engine, schema="gold")
    finally:
        engine.dispose()
    assert [*frame.columns][:3] == ["id", "line", "customer"]
    assert sorted(frame["customer"]) == ["ann", "ann", "bob"]


def test_jdbc_describes_the_same(shop_in_lake: str, shop_in_postgres: str) -> None:
    """All methods of DatabaseMetaData about tables, columns, keys, indexes, types and functions."""
    (driver,) = jars.fetch([jars.POSTGRES])
    ours, theirs = described(driver, shop_in_lake, shop_in_postgres)
    assert ours == theirs
    assert len(ours["getColumns"].splitlines()) == 8
    assert "PK_NAME=orders_pkey" in ours["getPrimaryKeys"]


def described(driver: Path, shop_in_lake: str, shop_in_postgres: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a version of the driver is told of both, by the method that asks."""
    done = subprocess.run(
        [java.find().executable, "-cp", str(driver), str(_META), _jdbc(shop_in_lake), _jdbc(shop_in_postgres)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    ours, theirs = (_sections(half) for half in done.stdout.split("=====\n"))
    return ours, theirs


def _jdbc(url: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    password = f"&password={parts['password']}" if "password" in parts else ""
    return f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}?user={parts['user']}{password}"


def _sections(text: str) -> dict[str, str]:
    """What each method gave, a line for a row."""
    sections = [part.partition("\n") for part in text.split("# ")[1:]]
    return {name: rows for name, _, rows in sections}
