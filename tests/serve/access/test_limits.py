"""What clients can make the server keep, and how long one of them can keep the others waiting."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from weakref import ref

import pyarrow as pa
import pytest
from sqlglot import exp

from mere.lake.lake import Lake
from mere.serve.access.limits import Budget
from mere.serve.engine.engine import CATALOG
from mere.serve.engine.recent import Recent
from mere.serve.language import statements
from mere.serve.postgres.portals import Portal, Portals, Prepared
from mere.serve.protocol.port import PgError, Session
from mere.serve.protocol.statement import Query, Select
from mere.serve.session.backend import LakeBackend
from tests.serve import raw
from tests.serve.asking import failure, rows
from tests.serve.plain import PlainBackend
from tests.serve.postgres.test_fuzz import memory
from tests.serve.raw import Raw, query, sqlstates
from tests.serve.served import Served, eventually, served

INT_ARRAY = 1007


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(PlainBackend()) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[Raw]:
    with Raw(server.port) as found:
        yield found


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeBackend]:
    with Lake.create(tmp_path_factory.mktemp("lake") / "lake") as lake:
        found = LakeBackend(lake)
        yield found
        found.close()


@pytest.fixture
def session(backend: LakeBackend) -> Session:
    return backend.connect("ann", "main", {})


# Time


def longest_wait(server: Served, busy: Callable[[], None], seconds: float) -> float:
    """Of another client, which asks again and again in the meantime."""
    longest, end = 0.0, time.monotonic() + seconds
    with Raw(server.port) as other:
        thread = threading.Thread(target=busy, daemon=True)
        thread.start()
        while time.monotonic() < end:
            start = time.monotonic()
            other.ask(raw.SYNC)
            longest = max(longest, time.monotonic() - start)
        thread.join(60)
    return longest


def test_answers_that_nobody_reads_neither_pile_up_nor_keep_others_waiting(server: Served, client: Raw) -> None:
    client.ask(raw.parse("select " + ",".join(f"1 as column_number_{i}" for i in range(1600)), "wide"), raw.SYNC)
    before = memory()
    assert longest_wait(server, lambda: client.send(raw.describe(b"S", "wide") * 4000), 1) < 1
    assert memory() - before < 60


def test_answers_to_the_statements_of_one_message_do_not_pile_up(server: Served, client: Raw) -> None:
    client.send(query("begin;" * 100_000))
    eventually(lambda: len(server.server._links) == 1)
    (link,) = server.server._links
    transport = link._transport
    assert transport is not None
    eventually(lambda: transport.get_write_buffer_size() > 0)
    time.sleep(1)
    assert transport.get_write_buffer_size() < 200_000


def test_a_pipeline_is_answered_in_full_to_who_reads_late(client: Raw) -> None:
    client.ask(raw.parse("select " + ",".join(f"1 as column_number_{i}" for i in range(400)), "wide"), raw.SYNC)
    client.send(raw.describe(b"S", "wide") * 500, raw.SYNC)
    time.sleep(0.3)
    assert raw.letters(client.until_ready()) == "tT" * 500 + "Z"


def test_a_large_value_is_decoded_while_others_go_on(server: Served, client: Raw) -> None:
    client.ask(raw.parse("select $1", "array", (INT_ARRAY,)), raw.SYNC)
    body = b"{" + b"1," * 400_000 + b"1}"
    answers: list[raw.Message] = []
    bind = raw.bind("", "array", (body,))
    assert longest_wait(server, lambda: answers.extend(client.ask(bind, raw.SYNC)), 1) < 0.8
    assert raw.letters(answers) == "2Z"
    assert sqlstates(client.ask(raw.bind("", "array", (b"x" * 10_000,)), raw.SYNC)) == ["22P02"]


def test_large_literals_of_execute_are_decoded_while_others_go_on(backend: LakeBackend) -> None:
    with served(backend) as lake, Raw(lake.port) as client:
        client.ask(query("prepare p (int4[]) as select 1 where $1 is null"))
        execute = query(f"execute p ('{{{'1,' * 400_000}x}}')")
        assert longest_wait(lake, lambda: client.send(execute), 1) < 0.8
        assert sqlstates(client.until_ready()) == ["22P02"]


def test_an_alarm_that_fails_is_told_and_the_others_still_ring(caplog: pytest.LogCaptureFixture) -> None:
    rung = threading.Event()

    def fail() -> None:
        raise RuntimeError("closed already")

    with caplog.at_level(logging.ERROR), Budget(timedelta(seconds=0.01), fail).running():
        time.sleep(0.2)
    assert "closed already" in caplog.text
    with Budget(timedelta(seconds=0.01), rung.set).running():
        assert rung.wait(5)


LARGE = {
    "in": f"select 1 where 1 in ({', '.join(map(str, range(40_000)))})",
    "values": f"select count(*) from (values {', '.join(f'({n})' for n in range(15_000))}) v",
    "case": f"select case {' '.join(f'when 1 = {n} then {n}' for n in range(8_000))} end",
    "columns": f"select {', '.join(f'{n} as c{n}' for n in range(30_000))}",
}


@pytest.mark.parametrize("sql", LARGE.values(), ids=LARGE)
def test_reading_and_compiling_are_part_of_a_statements_time(backend: LakeBackend, sql: str) -> None:
    session = backend.connect("ann", "main", {"statement_timeout": "100"})
    start = time.monotonic()
    error = failure(session, sql)
    assert error.sqlstate == "57014"
    assert time.monotonic() - start < 6, "of a tenth of a second, on a busy machine"


def test_what_is_compiled_can_be_cancelled(backend: LakeBackend) -> None:
    session = backend.connect("ann", "main", {})
    threading.Timer(0.2, session.cancel).start()
    assert failure(session, LARGE["case"]).message == "canceling statement due to user request"
    assert rows(session, "select 1") == [("1",)]


# What is kept


def test_what_was_not_used_for_the_longest_makes_room() -> None:
    kept: Recent[str, int] = Recent(10)
    for number, name in enumerate("abc"):
        kept.keep(name, number, 4 if name != "c" else 2)
    assert kept.get("a") == 0
    kept.keep("d", 3, 4)
    assert [kept.get(name) for name in "abcd"] == [0, None, 2, 3]
    kept.keep("d", 4, 5)
    assert (kept.weight, len(kept), kept.get("a")) == (7, 2, None)


def test_texts_that_were_read_are_kept_up_to_a_sum() -> None:
    for number in range(6):
        statements.read(f"select {number} -- {'x' * 45_000}")
    assert statements._known.weight <= 200_000
    (first,), (second,) = statements.read("select 1"), statements.read("select 1")
    assert isinstance(first, Select)
    assert isinstance(second, Select)
    assert first.parsed is second.parsed


@pytest.mark.parametrize("text", ["  select nope", "begin; explain select 1, nope", "prepare p as (select nope)"])
def test_what_is_kept_for_long_forgets_its_tree_and_reads_it_again(text: str) -> None:
    *_, statement = statements.read(f"{text} -- {'x' * 100_000}")
    inner = statement.all[-1]
    assert isinstance(inner, Select)
    query = inner.parsed
    (seen,) = query.tree.find_all(exp.Column)
    where, weak = dict(seen.this.meta), ref(query.tree)
    del seen
    statement.forget()
    gc.collect()
    assert weak() is None
    (seen,) = query.tree.find_all(exp.Column)
    assert {name: seen.this.meta[name] for name in ("start", "end")} == {name: where[name] for name in ("start", "end")}


def test_many_prepared_statements_take_no_more_memory_than_their_texts(backend: LakeBackend) -> None:
    def size() -> int:
        gc.collect()
        return sum(1 for each in gc.get_objects() if isinstance(each, exp.Literal))

    with served(backend) as lake, Raw(lake.port) as client:
        before = size()
        for number in range(3):
            text = f"select 1 as x{number} where 7 in ({', '.join(map(str, range(2_500)))}) -- {'x' * 100_000}"
            assert sqlstates(client.ask(raw.parse(text, f"p{number}"), raw.SYNC)) == []
        assert size() < before + 4_000
        assert raw.letters(client.ask(raw.bind("", "p1"), raw.execute(), raw.SYNC)) == "2DCZ"


def test_prepared_statements_are_counted(client: Raw) -> None:
    client.ask(*(raw.parse("begin", f"p{number}") for number in range(1000)), raw.SYNC)
    for found in (client.ask(raw.parse("begin", "more"), raw.SYNC), client.ask(query("prepare more as select 1"))):
        assert sqlstates(found) == ["53400"]
        assert "DEALLOCATE" in raw.errors(found)[0]["H"]
    assert sqlstates(client.ask(raw.parse("begin"), raw.SYNC)) == []
    assert sqlstates(client.ask(raw.close(b"S", "p7"), raw.parse("begin", "more"), raw.SYNC)) == []
    client.ask(query("discard all"))
    assert sqlstates(client.ask(query("prepare another as select 1"))) == []


def test_prepared_statements_are_bounded_by_the_sum_of_their_texts(client: Raw) -> None:
    def long(size: int) -> str:
        return f"select {' ' * size} 1"

    assert sqlstates(client.ask(raw.parse(long(4_800_000), "alone"), raw.SYNC)) == []
    assert sqlstates(client.ask(raw.parse("select 1", "second"), raw.SYNC)) == ["53400"]
    client.ask(query("deallocate alone"))
    found = client.ask(*(raw.parse(long(1_200_000), f"p{number}") for number in range(4)), raw.SYNC)
    assert (raw.letters(found), sqlstates(found)) == ("111EZ", ["53400"])
    assert sqlstates(client.ask(raw.parse(long(3_600_000)), raw.SYNC)) == []


def test_portals_are_counted_and_so_are_their_values(client: Raw) -> None:
    client.ask(query("begin"), raw.parse("select $1", "p"), raw.SYNC)
    client.until_ready()
    found = client.ask(*(raw.bind(f"c{number}", "p", (b"x" * 1_600_000,)) for number in range(3)), raw.SYNC)
    assert (raw.letters(found), sqlstates(found)) == ("22EZ", ["53400"])
    client.ask(query("rollback; begin"))
    found = client.ask(*(raw.bind(f"c{number}", "p", (b"x",)) for number in range(1001)), raw.SYNC)
    assert (raw.letters(found), sqlstates(found)) == ("2" * 1000 + "EZ", ["53400"])
    client.ask(query("rollback; begin"))
    assert sqlstates(client.ask(query("declare c cursor for select 1"))) == []


def test_a_cursor_that_there_is_no_room_for_is_closed() -> None:
    session, portals = PlainBackend().connect("ann", "main", {}), Portals()
    prepared = Prepared(Query("SELECT", "x" * 2_400_000))
    portals.open("first", Portal(prepared))
    (statement,) = session.read("select 1")
    answer = session.run(statement, (), ())
    second = Portal(Prepared(prepared.statement, (), answer.fields))
    second.start(answer)
    with pytest.raises(PgError) as caught:
        portals.open("second", second)
    assert (caught.value.sqlstate, answer.closed) == ("53400", True)


def test_pins_are_kept_where_they_are_in_use(backend: LakeBackend) -> None:
    used = backend.connect("ann", "main@2099-01-01", {})
    rows(used, "select 1")
    pin = backend.pin("main@2099-01-01")
    for number in range(150):
        backend.pin(f"main@2099-01-01T00:00:00.{number:06}")
    gc.collect()
    assert len(backend._pins) <= 110  # some are those of sessions before
    assert backend.pin("main@2099-01-01") is pin
    assert backend.pin("main@2099-01-01T00:00:00.000149") is backend.pin("main@2099-01-01T00:00:00.000149")


def test_tables_of_the_catalog_are_kept_up_to_a_number(backend: LakeBackend) -> None:
    engine = backend.engine_for(())
    for number in range(310):
        engine.fill(f"some {number}", lambda: pa.table({"n": [1]}))
    with engine.cursor() as cursor:
        found = cursor.execute(f"select count(*) from duckdb_tables() where schema_name = '{CATALOG}'").fetchall()
    assert found == [(300,)]


def test_a_value_of_a_setting_is_no_longer_than_it_has_to_be(session: Session, backend: LakeBackend) -> None:
    session.set("application_name", "x" * 1000, False)
    for local in (False, True):
        with pytest.raises(PgError) as caught:
            session.set("my.own", "x" * 1001, local)
        assert caught.value.sqlstate == "22023"
        assert "xxx" not in caught.value.message
    assert failure(session, f"select set_config('my.own', '{'x' * 1001}', false)").sqlstate == "22023"
    with pytest.raises(PgError) as caught:
        backend.connect("ann", "main", {"application_name": "x" * 1001})
    assert caught.value.sqlstate == "22023"


def test_settings_are_no_more_than_they_have_to_be(session: Session) -> None:
    for number in range(9):
        session.set(f"my.own{number}", "x" * 1000, False)
    with pytest.raises(PgError) as caught:
        session.set("my.own9", "x" * 1000, False)
    assert caught.value.sqlstate == "53400"
    session.set(None, None, False)
    session.set("my.own", "x" * 1000, False)
    with pytest.raises(PgError) as caught:
        session.set("my." + "x" * 10_000, "", False)
    assert caught.value.sqlstate == "53400"


def test_settings_come_back_although_both_are_almost_too_many(tmp_path: Path) -> None:
    def full(name: str, others: str) -> str:
        sets = [f"set {others}.a{number} = ''" for number in range(7)]
        return "; ".join([*sets, *(f"set {name}.a{number} = '{'x' * 1000}'" for number in range(7))])

    with Lake.create(tmp_path / "lake") as lake, served(LakeBackend(lake)) as found, Raw(found.port) as client:
        assert sqlstates(client.ask(query(full("first", "second")))) == []
        assert sqlstates(client.ask(query(f"begin; set new.one = 'x'; {full('second', 'first')}"))) == []
        assert sqlstates(client.ask(query("rollback"))) == []
        assert raw.rows(client.ask(query("show first.a3; show second.a3"))) == [[b"x" * 1000], [b""]]
        assert sqlstates(client.ask(query("show new.one"))) == ["42704"]
