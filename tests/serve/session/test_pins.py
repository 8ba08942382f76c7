"""Which commit a statement sees: one for each, one for a transaction, never half of a publish."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.serve.protocol.port import PgError, Session
from mere.serve.session.backend import LakeBackend
from tests.serve import raw
from tests.serve.asking import ask, failure, rows
from tests.serve.raw import Raw, query
from tests.serve.served import served


def put(lake: Lake, table: str, values: list[int], ref: str = "main") -> None:
    catalog = lake.pyiceberg(ref)
    catalog.create_namespace_if_not_exists("gold")
    content = pa.table({"n": pa.array(values, pa.int64())})
    catalog.create_table_if_not_exists(f"gold.{table}", content.schema).append(content)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        put(lake, "a", [0])
        put(lake, "b", [0])
        yield lake


@pytest.fixture
def backend(lake: Lake) -> Iterator[LakeBackend]:
    backend = LakeBackend(lake)
    yield backend
    backend.close()


@pytest.fixture
def session(backend: LakeBackend) -> Session:
    return backend.connect("ann", "main", {})


BOTH = "select (select max(n) from gold.a), (select max(n) from gold.b)"


def publish(lake: Lake, number: int) -> None:
    """Both tables in one commit."""
    lake.branch("work")
    put(lake, "a", [number], "work")
    put(lake, "b", [number], "work")
    lake.publish("work")
    lake.delete("work")


def test_a_publish_is_seen_by_the_next_statement(lake: Lake, session: Session) -> None:
    assert rows(session, BOTH) == [("0", "0")]
    publish(lake, 1)
    assert rows(session, BOTH) == [("1", "1")]
    assert rows(session, "select mere_commit()") == [(lake.at().commit.id,)] == [(session.commit,)]


def test_a_transaction_sees_one_commit_from_its_first_statement_on(lake: Lake, session: Session) -> None:
    session.begin()
    publish(lake, 1)
    assert rows(session, "select max(n) from gold.a") == [("1",)]
    publish(lake, 2)
    put(lake, "new", [1])
    assert rows(session, "select max(n) from gold.b") == [("1",)]
    assert failure(session, "select * from gold.new").sqlstate == "42P01"
    assert rows(session, "select count(*) from pg_class where relname = 'new'") == [("0",)]
    session.end()
    assert rows(session, "select max(n) from gold.b") == [("2",)]
    assert rows(session, "select count(*) from pg_class where relname = 'new'") == [("1",)]


def test_the_database_is_the_ref(lake: Lake, backend: LakeBackend) -> None:
    lake.tag("v1")
    first = lake.at().commit
    lake.branch("dev")
    put(lake, "a", [7], "dev")
    publish(lake, 1)
    expected = {"main": "1", "v1": "0", "dev": "7", "main~1": "0", first.id: "0", "main@0s": "1"}
    found = {ref: rows(backend.connect("ann", ref, {}), "select max(n) from gold.a")[0][0] for ref in expected}
    assert found == expected
    main = backend.connect("ann", "main", {})
    assert rows(main, "select max(n) from main.gold.a") == [("1",)]
    for ref, most in expected.items():
        assert rows(main, f'select max(n) from "{ref}".gold.a') == [(most,)]


@pytest.mark.parametrize("database", ["nope", "", "main@nonsense", "../x", "main'", "MAIN", "system"])
def test_a_database_that_is_no_ref_is_refused(backend: LakeBackend, database: str) -> None:
    with pytest.raises(PgError) as caught:
        backend.connect("ann", database, {})
    assert caught.value.sqlstate == "3D000"


def test_a_ref_that_is_gone_says_so(lake: Lake, backend: LakeBackend) -> None:
    lake.branch("dev")
    session = backend.connect("ann", "dev", {})
    assert rows(session, BOTH) == [("0", "0")]
    lake.delete("dev")
    assert failure(session, BOTH).sqlstate == "3D000"


def test_a_result_that_is_being_read_stays_as_it_was(lake: Lake, session: Session) -> None:
    (statement,) = session.read("select a.n from gold.a a, generate_series(1, 100000)")
    answer = session.run(statement, [], [])
    batches = answer.batches()
    next(batches)
    publish(lake, 5)
    assert {value for batch in batches for value in batch.column(0).to_pylist()} == {0}


def test_readers_under_a_writer_never_see_half_of_a_publish(lake: Lake, backend: LakeBackend) -> None:
    """Two tables that are always published together have the same number in every statement and every transaction."""
    done = threading.Event()
    mixed: list[object] = []
    seen: set[object] = set()

    def read(number: int) -> None:
        session = backend.connect(f"reader{number}", "main", {})
        try:
            while not done.is_set():
                (both,) = rows(session, BOTH)
                session.begin()
                first = rows(session, "select max(n) from gold.a")[0][0]
                second = rows(session, "select max(n) from gold.b")[0][0]
                session.end()
                seen.update({both[0], first})
                if both[0] != both[1] or first != second:
                    mixed.append((both, first, second))
        except Exception as error:  # noqa: BLE001
            mixed.append(error)

    readers = [threading.Thread(target=read, args=[number]) for number in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 7):
        publish(lake, number)
    done.set()
    for reader in readers:
        reader.join(60)
    assert mixed == []
    assert len(seen) > 2, "the readers were too slow to see anything move"


def test_statements_of_several_sessions_run_at_once(backend: LakeBackend) -> None:
    sessions = [backend.connect("ann", "main", {}) for _ in range(4)]
    answers = [
        session.run(session.read("select n from gold.a, generate_series(1, 50000)")[0], [], []) for session in sessions
    ]
    streams = [answer.batches() for answer in answers]
    counts = [0] * 4
    for at in list(range(4)) * 20:
        counts[at] += sum(batch.num_rows for batch in [next(streams[at], None)] if batch is not None)
    assert counts == [50_000] * 4


SLOW = "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b where a % 7 = b % 11"


@pytest.mark.parametrize("before", ["select 1", "explain select 1"])
def test_a_statement_can_be_cancelled_from_another_thread(backend: LakeBackend, before: str) -> None:
    session = backend.connect("ann", "main", {})
    rows(session, before)
    timer = threading.Timer(0.3, session.cancel)
    timer.start()
    error = failure(session, SLOW)
    timer.join()
    assert (error.sqlstate, error.message) == ("57014", "canceling statement due to user request")
    assert ask(session, "select 1").rows == [("1",)]


def test_nothing_is_left_of_an_explain(backend: LakeBackend) -> None:
    session = backend.connect("ann", "main", {})
    assert rows(session, "explain select count(*) from gold.a")
    assert failure(session, "explain select no_such_column from gold.a").sqlstate == "42703"
    assert session._running == set()
    session.cancel()


def test_what_has_ended_meanwhile_can_still_be_cancelled(backend: LakeBackend) -> None:
    session = backend.connect("ann", "main", {})
    answer = session.run(session.read("select 1")[0], [], [])
    answer.close()
    answer.cancel()


def test_a_transaction_after_another_in_one_message_sees_one_commit(lake: Lake, backend: LakeBackend) -> None:
    with served(backend) as found, Raw(found.port) as client:
        found_first = client.ask(query("select 1; begin; commit; begin; select max(n) from gold.a"))
        assert (raw.rows(found_first), found_first[-1]) == ([[b"1"], [b"0"]], (b"Z", b"T"))
        publish(lake, 1)
        assert raw.rows(client.ask(query("select max(n) from gold.b"))) == [[b"0"]]
        assert raw.rows(client.ask(query("commit; select max(n) from gold.b"))) == [[b"1"]]


def test_set_local_holds_in_a_transaction_after_another(backend: LakeBackend) -> None:
    with served(backend) as found, Raw(found.port) as client:
        answer = client.ask(query("begin; commit; begin; set local search_path = public; select count(*) from a"))
        assert raw.sqlstates(answer) == ["42P01"]
        answer = client.ask(query("rollback; select count(*) from a"))
        assert (raw.sqlstates(answer), raw.rows(answer)) == ([], [[b"1"]])


def test_a_chained_transaction_keeps_what_the_one_before_has_set(backend: LakeBackend) -> None:
    with served(backend) as found, Raw(found.port) as client:
        client.ask(query("begin; set search_path = gold; commit and chain; set search_path = silver; rollback"))
        assert raw.rows(client.ask(query("show search_path"))) == [[b"gold"]]
