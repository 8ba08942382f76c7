"""What drivers of Postgres see of a server: python drivers.py NAME URL. A JSON object, by what was done.

It runs in an environment of the newest drivers, without mere. Whatever fails is told by the error's class.
"""

# mypy: ignore-errors
# The packages are not of this environment.

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import io
import json
import re
import sys
import uuid
import warnings
from collections.abc import Callable
from pprint import pformat
from typing import Any

VALUES = """SELECT * FROM (SELECT 1::int2 AS i2, 2::int4 AS i4, 3::int8 AS i8, 1.5::float4 AS f4, 2.5::float8 AS f8,
  12.340::numeric(10,3) AS n, 'x'::text AS s, 'v'::varchar(10) AS vc, true AS b, NULL::int4 AS e,
  date '2024-02-29' AS d,
  time '12:34:56.789' AS t, timestamp '2024-02-29 12:34:56.789' AS ts, timestamptz '2024-02-29 12:34:56+00' AS tz,
  interval '1 day 2 hours' AS i, '6f1c0b1e-0000-4000-8000-000000000001'::uuid AS u, decode('00ff', 'hex') AS x,
  '{"a": 1}'::json AS j, ARRAY[1, 2, NULL]::int4[] AS ii, ARRAY['a', 'b,"']::text[] AS ss) v"""
NUMBERS = "SELECT n::int AS n, 'n' || n AS name FROM generate_series(1, 2500) AS g(n) ORDER BY 1"
EMPTY = "SELECT * FROM gold.orders WHERE false"
GIVEN: dict[str, Any] = {
    "bool": True, "int2": -7, "int4": 2**31 - 1, "int8": -(2**63), "float8": 0.1,
    "numeric(10,2)": decimal.Decimal("1.50"),
    "text": "é'\\ $1 %", "date": dt.date(2024, 2, 29), "time": dt.time(1, 2, 3, 4),
    "timestamp": dt.datetime(2024, 1, 1, 12, 0, 0, 1), "timestamptz": dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC),
    "interval": dt.timedelta(days=3, seconds=7), "uuid": uuid.UUID(int=7), "bytea": b"\x00\xff",
}  # fmt: skip
MISTAKES = ("SELECT 1/0", "SELEC 1", "SELECT nosuch", "SELECT * FROM nosuch", "SELECT 'x'::int", "SELECT nosuch(1)")


def _state(error: Any) -> str | None:
    """The SQLSTATE, wherever the driver keeps it."""
    given = error.args[0] if error.args else None
    found = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    found = found or (given.get("C") if isinstance(given, dict) else None)
    origin = getattr(error, "orig", None)
    return found or (None if origin is None else _state(origin))


class Said(dict[str, Any]):
    def do(self, name: str, act: Callable[..., Any], *given: Any) -> Any:
        try:
            found = act(*given)
        except Exception as error:  # noqa: BLE001 (it is what is compared)
            self[name] = f"{type(error).__name__} {_state(error) or str(error)[:300]}"
            return None
        self[name] = re.sub(r" at 0x[0-9a-f]+", "", pformat(found, width=200))  # of dictionaries, in order
        return found


def psycopg3(url: str) -> Said:
    import psycopg
    from psycopg.rows import namedtuple_row

    said = Said()
    with psycopg.connect(url, autocommit=True) as connection:
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)

            def ask(query: str, *values: Any, cursor: Any = cursor) -> Any:
                found = cursor.execute(query, values).fetchall()
                return [(each.name, each.type_code) for each in cursor.description], found

            said.do(f"values {binary}", ask, VALUES)
            for name, value in GIVEN.items():
                said.do(f"{name} {binary}", ask, f"SELECT %s::{name}", value)
                said.do(f"{name} bare {binary}", ask, "SELECT %s", value)
                said.do(f"{name} list {binary}", ask, f"SELECT %s::{name}[]", [value, None])
                said.do(f"{name} any {binary}", ask, "SELECT %s = ANY(%s)", value, [value])
            said.do(f"two {binary}", ask, "SELECT coalesce(%s,%s)", None, "b")
        said.do("prepared", lambda: [connection.execute("SELECT %s + 1", [n], prepare=True).fetchone() for n in (1, 2)])
        said.do("rows", lambda: connection.cursor(row_factory=namedtuple_row).execute(EMPTY).fetchall())
        said.do("copy", _copied, connection, f"COPY ({NUMBERS}) TO STDOUT (FORMAT csv, HEADER)")
        said.do("copy binary", _copied, connection, "COPY (SELECT 1::int4, 'x'::text) TO STDOUT (FORMAT binary)")
        said.do("many", lambda: connection.cursor().executemany("SELECT %s::int", [(1,), (2,)], returning=True))
        for each in MISTAKES:
            said.do(each, connection.execute, each)
        with connection.pipeline():
            found = [connection.execute("SELECT %s::int", [n]) for n in range(5)]
        said.do("pipeline", lambda: [each.fetchone() for each in found])
        said.do("stream", lambda: sum(n for n, _ in connection.cursor().stream(NUMBERS)))
    with psycopg.connect(url) as connection:
        with connection.cursor("named") as cursor:
            cursor.itersize = 1000
            said.do("cursor", lambda: sum(n for n, _ in cursor.execute(NUMBERS)))
        said.do("savepoint", _in_transaction, connection)
        said.do("status", lambda: connection.info.transaction_status)
        said.do("version", lambda: connection.info.server_version // 10000)
        connection.rollback()
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        said.do("level", lambda: connection.execute("SHOW transaction_isolation").fetchone())
    said.do("async", lambda: asyncio.run(_psycopg_async(url)))
    return said


def _copied(connection: Any, statement: str) -> Any:
    with connection.cursor().copy(statement) as copy:
        return b"".join(bytes(each) for each in copy)[:2000]


def _in_transaction(connection: Any) -> Any:
    try:
        with connection.transaction():
            connection.execute("SELECT 1/0")
    except Exception as error:  # noqa: BLE001
        return getattr(error, "sqlstate", ""), connection.execute("SELECT 1").fetchone()


async def _psycopg_async(url: str) -> Any:
    import psycopg

    async with await psycopg.AsyncConnection.connect(url) as connection:
        cursor = await connection.execute(NUMBERS)
        return len(await cursor.fetchall())


def psycopg2(url: str) -> Said:
    import psycopg2
    import psycopg2.extras

    said = Said()
    psycopg2.extras.register_uuid()
    connection = psycopg2.connect(url)
    cursor = connection.cursor()

    def ask(query: str, *values: Any) -> Any:
        cursor.execute(query, values or None)
        return [each[:2] for each in cursor.description], _of_buffers(cursor.fetchall())

    said.do("values", ask, VALUES)
    for name, value in GIVEN.items():
        said.do(name, ask, f"SELECT %s::{name}", value)
        said.do(f"{name} list", ask, "SELECT %s", [value])
    said.do("in", ask, "SELECT 2 IN %s", (1, 2))
    query = "SELECT * FROM (VALUES %s) v(a, b) ORDER BY 1"
    said.do("execute_values", lambda: psycopg2.extras.execute_values(cursor, query, [(2, "b"), (1, "a")], fetch=True))
    for each in MISTAKES:
        said.do(each, ask, each)
        connection.rollback()
    with connection.cursor("named", cursor_factory=psycopg2.extras.DictCursor) as named:
        said.do("cursor", lambda: (named.execute(NUMBERS), len(named.fetchmany(7)), named.fetchone())[1:])
    connection.commit()
    into = io.StringIO()
    said.do("copy", lambda: (cursor.copy_expert(f"COPY ({NUMBERS}) TO STDOUT CSV HEADER", into), into.getvalue()[:200]))
    connection.rollback()
    connection.set_session(readonly=True, autocommit=True, isolation_level="REPEATABLE READ")
    with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as plain:
        said.do("dict", lambda: (plain.execute("SELECT 1 AS a, 'x' AS b"), plain.fetchall())[1])
        said.do("empty", lambda: (plain.execute(EMPTY), [each[:2] for each in plain.description])[1])
    said.do("encoding", lambda: connection.encoding)
    connection.close()
    return said


def _of_buffers(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(bytes(each) if isinstance(each, memoryview) else each for each in row) for row in rows]


def asyncpg(url: str) -> Said:
    said = Said()
    asyncio.run(_asyncpg(url, said))
    return said


async def _asyncpg(url: str, said: Said) -> None:
    import asyncpg

    async def do(name: str, act: Callable[..., Any], *given: Any) -> None:
        try:
            found = await act(*given)
        except Exception as error:  # noqa: BLE001 (it is what is compared)
            found = error
        said.do(name, _given, found)

    connection = await asyncpg.connect(url)
    await do("values", connection.fetch, VALUES)
    for name, value in GIVEN.items():
        await do(name, connection.fetchval, f"SELECT $1::{name}", value)
        await do(f"{name} list", connection.fetchval, f"SELECT $1::{name}[]", [value, None])
        await do(f"{name} in", connection.fetchval, f"SELECT $1::{name} = ANY($2::{name}[])", value, [value])
    await do("two", connection.fetchval, "SELECT coalesce($1,$2)::text", None, "b")
    prepared = await connection.prepare("SELECT $1::int AS a, $2::text[] AS b, NULL::json AS c")
    said.do("attributes", prepared.get_attributes)
    said.do("parameters", prepared.get_parameters)
    await do("prepared", prepared.fetchrow, 1, ["x"])
    await do("many", connection.executemany, "SELECT $1::int", [(1,), (2,)])
    for each in MISTAKES:
        await do(each, connection.execute, each)

    async def cursor() -> Any:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return sum([row["n"] async for row in connection.cursor(NUMBERS, prefetch=100)])

    await do("cursor", cursor)
    into = io.BytesIO()
    await do("copy", lambda: connection.copy_from_query(NUMBERS, output=into, format="csv"))
    said.do("copied", lambda: into.getvalue()[:100])
    await connection.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await do("json", connection.fetchval, "SELECT $1::json", {"a": [1]})
    said.do("version", lambda: connection.get_server_version().major)
    await connection.close()

    async def pooled() -> Any:
        async with asyncpg.create_pool(url, min_size=2, max_size=3) as pool:
            return await asyncio.gather(*(pool.fetchval("SELECT $1::int", n) for n in range(20)))

    await do("pool", pooled)


def _given(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found


def pg8000(url: str) -> Said:
    import pg8000.dbapi
    import pg8000.native

    said, parts = Said(), _parts(url)
    native = pg8000.native.Connection(**parts)

    def ask(query: str, **values: Any) -> Any:
        try:
            found = native.run(query, **values)
        except pg8000.native.DatabaseError as error:
            return error.args[0]["C"]
        return [(each["name"], each["type_oid"]) for each in native.columns], found

    said.do("values", ask, VALUES)
    for name, value in GIVEN.items():
        said[name] = repr(ask(f"SELECT CAST(:v AS {name})", v=value))
    said["list"] = repr(ask("SELECT CAST(:v AS int[])", v=[1, 2, None]))
    said["two"] = repr(ask("SELECT coalesce(:a,:b)", a=None, b="b"))
    for each in (*MISTAKES, EMPTY):
        said.do(each, ask, each)
    statement = native.prepare("SELECT CAST(:v AS int) + 1")
    said.do("prepared", lambda: [statement.run(v=n) for n in range(3)])
    native.close()
    connection = pg8000.dbapi.connect(**parts)
    cursor = connection.cursor()
    said.do("numbers", lambda: (cursor.execute(NUMBERS), len(cursor.fetchall()))[1])
    said.do("format", lambda: (cursor.execute("SELECT %s, %s", ("x", 5)), cursor.fetchall())[1])
    connection.rollback()
    connection.close()
    return said


def _parts(url: str) -> dict[str, Any]:
    found = re.fullmatch(r"postgresql://(\w+)(?::(\w+))?@([\w.]+):(\d+)/(\w+)", url)
    assert found, url
    user, password, host, port, database = found.groups()
    return {"user": user, "host": host, "port": int(port), "database": database, "password": password}


def sqlalchemy(url: str) -> Said:
    said = Said()
    for driver in ("psycopg", "psycopg2", "pg8000"):
        found = _sqlalchemy(url.replace("postgresql://", f"postgresql+{driver}://"))
        said.update({f"{driver} {name}": told for name, told in found.items()})
    said.do("async", lambda: asyncio.run(_sqlalchemy_async(url)))
    return said


def _sqlalchemy(url: str) -> Said:
    import sqlalchemy as sa

    said, engine = Said(), sa.create_engine(url)
    inspector = sa.inspect(engine)
    said.do("schemas", lambda: _schemas(inspector.get_schema_names()))
    for kind in ("columns", "pk_constraint", "foreign_keys", "indexes", "table_comment", "check_constraints"):
        said.do(kind, getattr(inspector, f"get_{kind}"), "orders", "gold")
        said.do(f"all {kind}", getattr(inspector, f"get_multi_{kind}"), "silver")
    said.do("views", inspector.get_view_names, "gold")
    table = said.do("table", lambda: sa.Table("orders", sa.MetaData(), schema="gold", autoload_with=engine))
    with engine.connect() as connection:

        def ask(query: Any, **values: Any) -> Any:
            return _of_buffers([tuple(each) for each in connection.execute(query, values)])

        said.do("select", ask, sa.select(table).where(table.c.id.in_([1, 2]), table.c.customer == "nobody"))
        said.do("values", ask, sa.text(VALUES.replace(":", r"\:")))
        for name, value in GIVEN.items():
            said[name] = repr(ask(sa.text(f"SELECT CAST(:v AS {name})"), v=value))
        many = connection.execution_options(stream_results=True, max_row_buffer=500)
        said.do("stream", lambda: sum(n for n, _ in many.execute(sa.text(NUMBERS))))
        for each in MISTAKES:
            said.do(each, ask, sa.text(each))
            connection.rollback()
    engine.dispose()
    return said


def _schemas(names: list[str]) -> list[str]:
    """Without those that only one of them has: the tables of the lake itself, and Postgres's storage."""
    return [each for each in names if each not in ("mere", "pg_toast")]


async def _sqlalchemy_async(url: str) -> Any:
    import sqlalchemy as sa
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.connect() as connection:
        found = (await connection.execute(sa.text(VALUES.replace(":", r"\:")))).all()
        names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names(schema="silver"))
    await engine.dispose()
    return found, sorted(names)


def adbc(url: str) -> Said:
    import adbc_driver_postgresql.dbapi as driver

    said = Said()
    with driver.connect(url) as connection:
        with connection.cursor() as cursor:

            def ask(query: str, *values: Any) -> Any:
                cursor.execute(query, values or None)
                found = cursor.fetch_arrow_table()
                return str(found.schema.remove_metadata()), found.num_rows, found.slice(0, 3).to_pylist()

            for name, query in (("values", VALUES), ("empty", EMPTY), ("numbers", NUMBERS)):
                said.do(name, ask, query)
            said.do("parameters", ask, "SELECT $1::int8, $2::text", 1, "x")
            for each in MISTAKES:
                said.do(each, ask, each)
                connection.rollback()
        said.do("schema", lambda: str(connection.adbc_get_table_schema("orders", db_schema_filter="gold")))
        said.do("tables", lambda: _tables(connection.adbc_get_objects(depth="columns", catalog_filter="shop")))
        said.do("kinds", lambda: sorted(connection.adbc_get_table_types()))
    return said


def _tables(objects: Any) -> Any:
    (catalog,) = objects.read_all().to_pylist()
    return sorted(
        (schema["db_schema_name"], table["table_name"], table["table_type"],
         [column["column_name"] for column in table["table_columns"]],
         [(one["constraint_type"], one["constraint_column_names"]) for one in table["table_constraints"]])
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"] if schema["db_schema_name"] in ("gold", "silver")
    )  # fmt: skip


def ibis(url: str) -> Said:
    import ibis

    said = Said()
    connection = ibis.connect(url)
    said.do("databases", lambda: _schemas(connection.list_databases()))
    said.do("tables", lambda: sorted(connection.list_tables(database="silver")))
    orders = connection.table("orders", database="gold")
    said.do("schema", lambda: str(orders.schema()))
    said.do("kinds", lambda: str(connection.table("kinds", database="silver").schema()))
    none = orders.filter(orders.customer == "nobody").group_by("customer").agg(total=orders.amount.sum())
    said.do("aggregate", lambda: none.execute().to_dict())
    said.do("sql", lambda: connection.sql(NUMBERS).count().execute())
    said.do("values", lambda: connection.sql("SELECT 1::int8 AS a, 'x' AS b, ARRAY[1,2] AS c").to_pyarrow().to_pylist())
    said.do("raw", lambda: connection.raw_sql("SELECT 1").fetchall())
    connection.disconnect()
    return said


def frames(url: str) -> Said:
    import connectorx
    import pandas as pd
    import polars as pl
    import sqlalchemy as sa

    said = Said()
    simple = VALUES.replace("SELECT *", "SELECT i2, i4, i8, f4, f8, n, s, vc, b, e, d, ts, tz, u, x, ii, ss")
    for engine in ("connectorx", "adbc"):
        for name, query in (("values", simple), ("empty", EMPTY), ("numbers", NUMBERS)):
            said.do(
                f"polars {engine} {name}",
                lambda *given: _polars(pl.read_database_uri(*given[:2], engine=given[2])),
                query,
                url,
                engine,
            )
    parts = {"partition_on": "n", "partition_num": 3, "return_type": "arrow"}
    said.do("connectorx", lambda: connectorx.read_sql(url, NUMBERS.partition(" ORDER")[0], **parts).num_rows)
    said.do("connectorx pandas", lambda: connectorx.read_sql(url, simple).to_dict())
    alchemy = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with alchemy.connect() as connection:
        said.do("polars", lambda: _polars(pl.read_database(NUMBERS, connection)))
        said.do("pandas", lambda: pd.read_sql_query(sa.text(VALUES), connection).astype(str).to_dict())
        said.do("pandas table", lambda: str(pd.read_sql_table("kinds", connection, schema="silver").dtypes))
    alchemy.dispose()
    return said


def _polars(frame: Any) -> Any:
    return frame.schema, frame.head(3).rows()


DRIVERS = {each.__name__: each for each in (psycopg3, psycopg2, asyncpg, pg8000, sqlalchemy, adbc, ibis, frames)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    json.dump(DRIVERS[sys.argv[1]](sys.argv[2]), sys.stdout)
