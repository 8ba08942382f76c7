"""Who is connected, and cancelling by the number of a process: the same as with a real Postgres."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.serve.conftest import CLIENT

# Minutes of work for both.
LONG = "select count(*) from generate_series(1, 9000000) a, generate_series(1, 9000000) b where a.a + b.b < 0"
# What Superset's Stop button sends.
SUPERSET = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid='{}'"

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.service), "gateway"])
def url(request: pytest.FixtureRequest) -> str:
    name = {"postgres": "shop_in_postgres", "gateway": "shop_in_lake"}[request.param]
    return str(request.getfixturevalue(name))


@pytest.fixture
def one(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True, application_name="one") as connection:
        yield connection


@pytest.fixture
def other(url: str) -> Iterator[Connection]:
    connection = psycopg.connect(url, autocommit=True, application_name="other")
    yield connection
    connection.close()


def rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


class Asking(threading.Thread):
    """A query that runs until somebody ends it."""

    def __init__(self, connection: Connection, watcher: Connection) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self._watcher = watcher
        self.failure: psycopg.Error | None = None
        self.start()

    def run(self) -> None:
        try:
            self._connection.execute(LONG)
        except psycopg.Error as error:
            self.failure = error

    @property
    def process(self) -> int:
        return self._connection.info.backend_pid

    def __enter__(self) -> Asking:
        deadline = time.monotonic() + 30
        query = f"select 1 from pg_stat_activity where pid = {self.process} and state = 'active'"
        while not rows(self._watcher, query):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.join(30)
        assert not self.is_alive()


def test_the_number_of_the_process_is_the_one_that_clients_cancel_with(one: Connection, other: Connection) -> None:
    assert rows(one, "select pg_backend_pid()") == [(one.info.backend_pid,)]
    assert one.info.backend_pid != other.info.backend_pid


def test_what_ones_connections_are_at(one: Connection, other: Connection) -> None:
    other.execute("begin")
    other.execute("select 5 as five")
    query = """select pid, datname::text, usename::text, application_name, state, query, client_addr is not null,
        client_port > 0, backend_start <= query_start, xact_start is not null, query_start <= state_change
        from pg_stat_activity where application_name in ('one', 'other') order by application_name"""
    rest = (True, True, True, True, True)
    assert rows(one, query) == [
        (one.info.backend_pid, "shop", CLIENT, "one", "active", query, *rest),
        (other.info.backend_pid, "shop", CLIENT, "other", "idle in transaction", "select 5 as five", *rest),
    ]
    with pytest.raises(psycopg.Error):
        other.execute("select nothing")
    states = "select state from pg_stat_activity where application_name = 'other'"
    assert rows(one, states) == [("idle in transaction (aborted)",)]
    other.execute("rollback")
    assert rows(one, states) == [("idle",)]
    other.close()
    deadline = time.monotonic() + 10
    while rows(one, states) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert rows(one, states) == []


def test_a_long_query_is_cut(one: Connection, other: Connection) -> None:
    other.execute(f"select '{'x' * 2000}'")
    length = "select length(query) from pg_stat_activity where application_name = 'other'"
    assert 1000 < rows(one, length)[0][0] < 1025


def test_a_query_is_cancelled_from_another_connection(one: Connection, other: Connection) -> None:
    with Asking(other, one) as asking:
        assert rows(one, f"select pg_cancel_backend({asking.process})") == [(True,)]
    assert isinstance(asking.failure, psycopg.errors.QueryCanceled)
    assert rows(other, "select 1") == [(1,)]


def test_a_query_and_its_connection_are_ended_from_another_one(one: Connection, other: Connection) -> None:
    with Asking(other, one) as asking:
        assert rows(one, SUPERSET.format(asking.process)) == [(True,)]
    assert isinstance(asking.failure, psycopg.errors.AdminShutdown)
    with pytest.raises(psycopg.OperationalError):
        other.execute("select 1")


def test_an_idle_connection_is_ended(one: Connection, other: Connection) -> None:
    process = other.info.backend_pid
    assert rows(one, f"select pg_terminate_backend({process})") == [(True,)]
    with pytest.raises(psycopg.OperationalError, match=r"terminating connection|closed|is lost"):
        _ask_for_some_seconds(other)


def _ask_for_some_seconds(connection: Connection) -> None:
    for _ in range(100):
        connection.execute("select 1")
        time.sleep(0.05)


def test_to_cancel_nothing_does_nothing(one: Connection, other: Connection) -> None:
    assert rows(one, f"select pg_cancel_backend({other.info.backend_pid})") == [(True,)]
    assert rows(other, "select 1") == [(1,)]
    assert rows(one, "select pg_cancel_backend(null), pg_terminate_backend(null)") == [(None, None)]
    assert rows(one, "select pg_cancel_backend(1999999999)") == [(False,)]


def test_ones_own_query_and_connection(one: Connection, other: Connection) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        one.execute("select pg_cancel_backend(pg_backend_pid()) from generate_series(1, 9000000)")
    with pytest.raises(psycopg.errors.AdminShutdown):
        other.execute("select pg_terminate_backend(pg_backend_pid()) from generate_series(1, 9000000)")
    assert rows(one, "select 1") == [(1,)]


def test_what_is_described_or_explained_ends_nothing(one: Connection, other: Connection) -> None:
    with psycopg.ClientCursor(one) as cursor:
        cursor.execute(f"explain select pg_terminate_backend({other.info.backend_pid})")
    one.execute("prepare ending as select pg_terminate_backend($1)")
    assert rows(other, "select 1") == [(1,)]


def test_others_are_not_seen_and_not_ended(shop_in_lake: str) -> None:
    """Postgres would tell that they are there; here a user learns nothing of the others."""
    bob = shop_in_lake.replace(f"{CLIENT}@", "bob@")
    with psycopg.connect(shop_in_lake, autocommit=True) as mine, psycopg.connect(bob, autocommit=True) as his:
        assert rows(his, "select distinct usename::text from pg_stat_activity") == [("bob",)]
        assert rows(his, "select count(*) from pg_stat_activity") == [(1,)]
        for function in ("pg_cancel_backend", "pg_terminate_backend"):
            assert rows(his, f"select {function}({mine.info.backend_pid})") == [(False,)]
        assert rows(mine, "select 1") == [(1,)]
