"""Errors: the SQLSTATE that Postgres gives, its position, and a hint where there is a near match."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mere.lake.lake import Lake
from mere.serve.protocol.port import Session
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import failure
from tests.services.postgres import Postgres


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with orders.create(tmp_path_factory.mktemp("errors")) as lake:
        yield lake


@pytest.fixture(scope="module")
def session(lake: Lake) -> Iterator[Session]:
    backend = LakeBackend(lake)
    yield backend.connect("ann", "main", {})
    backend.close()


@pytest.fixture(scope="module")
def postgres(postgres_server: Postgres) -> Iterator[psycopg.Connection]:
    """With the same tables."""
    with psycopg.connect(postgres_server.new_database("sqlstates"), autocommit=True) as connection:
        connection.execute("create schema gold; create table gold.orders (id int8, customer text, amount float8)")
        connection.execute("create table gold.customers (name text, country text)")
        connection.execute("insert into gold.orders values (1, 'ann', 10), (2, 'bob', 20), (3, 'ann', NULL)")
        connection.execute("set default_transaction_read_only = on")
        yield connection


@pytest.mark.parametrize(
    "sql",
    [
        "select 1 / 0",
        "select id / 0 from gold.orders",
        "select 1 % 0",
        "select 1.5 / 0",
        "select id / (id - id) from gold.orders",
        "select mod(1, 0)",
        "select 'abc'::int",
        "select '1.5'::int",
        "select ''::int",
        "select '99999999999'::int",
        "select 'abc'::numeric",
        "select 'abc'::float8",
        "select 'maybe'::bool",
        "select 'xyz'::uuid",
        "select customer::int from gold.orders",
        "select '2020-13-01'::date",
        "select 'not a date'::date",
        "select '2020-01-01 25:00'::timestamp",
        "select 'x'::interval",
        "select '{1,2'::int[]",
        "select 2147483647 + 1",
        "select 9223372036854775807 + 1",
        "select 100000::int2",
        "select sqrt(-1)",
        "select ln(0)",
        "select nope",
        "select nope from gold.orders",
        "select gold.orders.nope from gold.orders",
        "select o.nope from gold.orders o",
        "select x.id from gold.orders o",
        "select orders.id from gold.orders o",
        "select * from gold.nope",
        "select * from nope",
        "select * from nope.nope",
        "select nope(1)",
        "select lower(1, 2, 3)",
        "select lower()",
        "select 1 = 'x'",
        "select id from gold.orders a, gold.orders b",
        "select customer, count(*) from gold.orders",
        "select id from gold.orders where count(*) > 1",
        "select sum(count(*)) from gold.orders",
        "select id from gold.orders group by customer",
        "select 1 union select 1, 2",
        "select * from gold.orders order by 9",
        "select id from gold.orders limit -1",
        "select (select id from gold.orders)",
        "select (select id, customer from gold.orders)",
        "select 'x'::nonsense",
        "select row_number() over () from gold.orders where row_number() over () = 1",
        "select * from gold.orders o, gold.customers o",
        "select 'a' ~ '('",
        "select substring('a', 1, -1)",
        "select extract(nonsense from now())",
        "selec 1",
        "select * from gold.orders where",
        "select ( 1",
        "select 'x",
        "select 1 from",
        "select $1",
        "select array_length(1, 1)",
        "select 'x'::regclass",
        "select current_setting('nonsense')",
        "select set_config('nonsense', 'x', false)",
        "select date_trunc('nonsense', now())",
        "select to_date('x', 'YYYY-MM-DD')",
        "insert into gold.orders values (1)",
    ],
)
def test_an_error_has_the_state_that_postgres_gives(session: Session, postgres: psycopg.Connection, sql: str) -> None:
    with pytest.raises(psycopg.Error) as theirs:
        postgres.execute(sql)
    assert failure(session, sql).sqlstate == theirs.value.sqlstate


@pytest.mark.parametrize(
    ("sql", "message", "hint", "position"),
    [
        ("select * from gold.order", 'relation "gold.order" does not exist', "Did you mean gold.orders?", 20),
        ("select * from orderz", 'relation "orderz" does not exist', "Did you mean gold.orders?", 15),
        ("select custmer from gold.orders", 'column "custmer" does not exist', "Did you mean customer?", 8),
        ("select id,\n  o.amout from gold.orders o", 'column "amout" does not exist', "Did you mean amount?", 16),
        ("select lowr('x')", "function lowr does not exist", "Did you mean lower", 8),
        ("select 1 +\n from x", 'syntax error at or near "from"', None, 13),
    ],
)
def test_an_error_says_where_and_what_was_meant(
    session: Session, sql: str, message: str, hint: str | None, position: int
) -> None:
    error = failure(session, sql)
    assert (error.message, error.position) == (message, position)
    assert (error.hint or "").startswith(hint or "")
    assert bool(error.hint) == bool(hint)


def test_a_table_whose_file_is_gone_says_so_and_the_others_are_read(tmp_path: Path) -> None:
    with orders.create(tmp_path) as lake:
        backend = LakeBackend(lake)
        session = backend.connect("ann", "main", {})
        data = [path for path in Path(lake.warehouse).rglob("*.parquet") if "customers" in str(path)]
        for path in data:
            path.unlink()
        error = failure(session, "select * from gold.customers")
        assert (error.sqlstate, "gold.customers cannot be read" in error.message) == ("58030", True)
        assert failure(session, "select * from gold.customers").sqlstate == "58030"
        assert session.describe(session.read("select * from gold.orders")[0], []).fields[0].name == "id"
        backend.close()
