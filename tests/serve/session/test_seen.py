"""A statement that was seen before costs less, and is answered as if it had never been seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.serve.access.roles import Role
from mere.serve.protocol.port import PgError, Session
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import ask, declared, failure, rows
from tests.serve.raw import Raw, query
from tests.serve.served import served

ROLES = {
    "all": {"tables": ["*"]},
    "narrow": {"tables": ["gold.*"], "columns": {"gold.orders": ["id"]}},
    "own": {"tables": ["gold.*"], "rows": {"gold.orders": "customer = current_user"}},
    "none": {"tables": ["silver.*"]},
}
WHO = {"root": "all", "nan": "narrow", "ann": "own", "bob": "own", "sil": "none"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("seen") / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "silver.orders", pa.table({"id": [100], "customer": ["sil"], "amount": [0.0]}))
        yield lake


@pytest.fixture(scope="module")
def backend(lake: Lake) -> Iterator[LakeBackend]:
    backend = LakeBackend(lake, declared(ROLES, WHO))
    yield backend
    backend.close()


def outcome(session: Session, sql: str) -> object:
    """What the statement gives this session: the names and the rows, or the error."""
    try:
        told = ask(session, sql)
    except PgError as error:
        return error.sqlstate
    return told.names, sorted(told.rows, key=str)


STATEMENTS = (
    "select * from gold.orders",
    "select customer from gold.orders",
    "select count(*) from gold.orders",
    "select id from orders",
    "select current_user, current_setting('TimeZone'), current_schema()",
    "select timestamptz '2024-07-01 12:00' at time zone 'UTC'",
    "select cast(timestamptz '2024-07-01 12:00+00' as text), date_trunc('day', timestamptz '2024-07-01 23:00+00')",
)


def test_nobody_gets_what_was_compiled_for_other_rights_or_settings(backend: LakeBackend) -> None:
    settings: list[dict[str, str]] = [{}, {"search_path": "silver"}, {"TimeZone": "Asia/Tokyo"}]
    sessions = [backend.connect(user, "main", each) for user in WHO for each in settings]
    # Each in a server of its own, which has seen nothing.
    fresh = []
    for session in sessions:
        alone = LakeBackend(backend._lake, backend._roles)
        known = alone.connect(session.settings["session_authorization"], "main", {})
        for name in ("search_path", "TimeZone"):
            known.set(name, session.settings[name], False)
        fresh.append([outcome(known, sql) for sql in STATEMENTS])
        alone.close()
    assert len({str(each) for each in fresh}) == len(sessions)  # or nothing would be tested
    for _ in range(3):
        assert [[outcome(session, sql) for sql in STATEMENTS] for session in sessions] == fresh
    for sql, *wanted in zip(STATEMENTS, *fresh, strict=True):  # and in the other order
        assert [outcome(session, sql) for session in sessions] == wanted


def test_a_setting_of_a_session_holds_for_statements_that_it_has_asked_before(backend: LakeBackend) -> None:
    session = backend.connect("root", "main", {})
    sql = "select cast(timestamptz '2024-07-01 12:00+00' as text), (select min(id) from orders)"
    assert rows(session, sql) == [("2024-07-01 12:00:00+00", "1")]
    session.set("TimeZone", "Asia/Tokyo", False)
    session.set("search_path", "silver", False)
    assert rows(session, sql) == [("2024-07-01 21:00:00+09", "100")]
    session.set(None, None, False)
    assert rows(session, sql) == [("2024-07-01 12:00:00+00", "1")]


def test_a_role_that_changes_holds_for_what_was_prepared_before(lake: Lake) -> None:
    known = declared(ROLES, {})

    class Changing:
        now = "all"

        def of(self, user: str) -> Role | None:
            return known.of(self.now)

        def named(self, role: str) -> Role | None:
            return known.named(role)

        def admit(self) -> None:
            pass

    changing = Changing()
    backend = LakeBackend(lake, changing)
    session = backend.connect("ann", "main", {})
    (statement,) = session.read("select count(*), max(customer) from gold.orders")
    whole = rows(session, statement.text)
    for _ in range(2):
        changing.now = "own"
        assert rows(session, statement.text) == [("2", "ann")] != whole
        changing.now = "narrow"
        assert failure(session, statement.text).sqlstate == "42703"
        changing.now = "none"
        assert failure(session, statement.text).sqlstate == "42P01"
        changing.now = "all"
        assert rows(session, statement.text) == whole
    backend.close()


def test_a_publish_is_seen_by_what_was_prepared_before_it(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        backend = LakeBackend(lake)
        session = backend.connect("ann", "main", {})
        (statement,) = session.read("select count(*) from gold.orders where id > $1")
        fields = session.describe(statement, (20,)).fields
        for at in range(5):
            answer = session.run(statement, [0], (20,))
            assert answer.fields == fields
            (batch,) = answer.batches()
            assert batch.column(0).to_pylist() == [len(orders.ORDERS) + at]
            assert session.commit == lake.at().commit.id
            orders.write(lake, "gold.orders", pa.table({"id": [10 + at], "customer": ["cat"], "amount": [1.0]}))
        lake.branch("dev", "main~2")
        dev = backend.connect("ann", "dev", {})
        before = rows(dev, "select count(*) from gold.orders")
        lake.delete("dev")
        lake.branch("dev", "main")  # the same name, somewhere else
        assert rows(dev, "select count(*) from gold.orders") != before
        backend.close()


def test_a_connection_of_duckdb_that_was_cancelled_serves_nobody_else(backend: LakeBackend) -> None:
    session = backend.connect("root", "main", {})
    engine = backend.engine_for([])
    rows(session, "select 1")
    idle = list(engine._idle)
    assert idle
    (statement,) = session.read("select count(*) from generate_series(1, 100000000) a, generate_series(1, 1000) b")
    threading.Timer(0.3, session.cancel).start()
    with pytest.raises(PgError) as caught:
        list(session.run(statement, (), ()).batches())
    assert caught.value.sqlstate == "57014"
    assert [each for each in engine._idle if each in idle] == idle[:-1] == engine._idle
    (statement,) = session.read("select * from generate_series(1, 100000)")
    answer = session.run(statement, (), ())
    next(iter(answer.batches()))
    answer.close()  # before its end: what is left of it dies with its connection
    assert engine._idle == idle[:-1]
    (statement,) = session.read("select 1")
    answer = session.run(statement, (), ())
    assert [batch.num_rows for batch in answer.batches()] == [1]
    answer.cancel()  # too late to reach anybody
    assert rows(session, "select 2") == [("2",)]
    assert failure(session, "select 1 / 0").sqlstate == "22012"
    assert rows(session, "select 3") == [("3",)]


def test_a_client_that_cancels_again_and_again_never_cancels_another(lake: Lake) -> None:
    backend = LakeBackend(lake)
    with served(backend, workers=2) as server, Raw(server.port) as one, Raw(server.port) as other:
        stop = threading.Event()

        def cancel() -> None:
            connections = list(server.server._connections.values())
            while not stop.wait(0.001):
                server.loop.call_soon_threadsafe(connections[0][1].cancel)

        canceller = threading.Thread(target=cancel)
        canceller.start()
        try:
            for _ in range(150):
                one.ask(query("select 1"))
                told = other.ask(query("select 2"))
                assert b"57014" not in b"".join(content for _, content in told)
        finally:
            stop.set()
            canceller.join()
    backend.close()
