"""Expressions and queries in the gateway and in a real Postgres: the same texts, under the same names."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from mere.lake.lake import Lake
from mere.serve.protocol.port import PgError, Session
from mere.serve.session.backend import LakeBackend
from tests.serve.asking import Row, ask
from tests.serve.expressions import DIFFERENT, EXPRESSIONS, QUERIES
from tests.services.postgres import Postgres


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Lake.create(tmp_path_factory.mktemp("dialect") / "lake") as lake:
        backend = LakeBackend(lake)
        yield backend.connect("ann", "main", {})
        backend.close()


@pytest.fixture(scope="module")
def postgres(postgres_server: Postgres) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def told_by_postgres(postgres: psycopg.Connection, sql: str) -> tuple[list[str], list[Row]]:
    cursor = postgres.execute(sql)
    result = cursor.pgresult
    assert result is not None
    values = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
    rows: list[Row] = [tuple(None if value is None else bytes(value).decode() for value in row) for row in values]
    return [(result.fname(column) or b"").decode() for column in range(result.nfields)], rows


@pytest.mark.parametrize("sql", [*(f"select {each}" for each in EXPRESSIONS), *QUERIES])
def test_it_gives_what_postgres_gives(session: Session, postgres: psycopg.Connection, sql: str) -> None:
    told = ask(session, sql)
    assert (told.names, told.rows) == told_by_postgres(postgres, sql)


@pytest.mark.parametrize("sql", DIFFERENT)
def test_what_differs_is_known(session: Session, postgres: psycopg.Connection, sql: str) -> None:
    ours, theirs = DIFFERENT[sql]
    assert (ask(session, sql).rows, told_by_postgres(postgres, sql)[1]) == ([(ours,)], [(theirs,)])
    assert ours != theirs


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("select date()", "42883"),
        ("select to_char()", "42883"),
        ("select 'a' like any('{" + "b," * 2000 + "a}')", "54000"),
        ("select 1 = any('{1')", "22P02"),
        (r"select decode('a\b', 'escape')", "22P02"),
    ],
)
def test_calls_and_arrays_that_cannot_be_are_told(session: Session, sql: str, sqlstate: str) -> None:
    with pytest.raises(PgError) as caught:
        ask(session, sql)
    assert caught.value.sqlstate == sqlstate
