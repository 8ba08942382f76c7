"""The protocol, message by message, over plain DuckDB."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator

import psycopg
import pytest

from mere.serve.protocol import types
from tests.serve import raw
from tests.serve.plain import PlainBackend
from tests.serve.raw import Raw, letters, query, rows, sqlstates, tags
from tests.serve.served import Served, eventually, served


@pytest.fixture(scope="module")
def backend() -> PlainBackend:
    return PlainBackend(batch=100)


@pytest.fixture(scope="module")
def server(backend: PlainBackend) -> Iterator[Served]:
    with served(backend) as found:
        yield found


@pytest.fixture
def client(server: Served) -> Iterator[Raw]:
    with Raw(server.port) as found:
        yield found


# The start


def test_the_greeting_names_the_settings_and_the_key(client: Raw) -> None:
    assert letters(client.greeting).startswith("RS")
    assert letters(client.greeting).endswith("KZ")
    told = dict(content[:-1].split(b"\0") for letter, content in client.greeting if letter == b"S")
    assert told[b"client_encoding"] == b"UTF8"
    assert told[b"TimeZone"] == b"UTC"
    assert client.greeting[-1] == (b"Z", b"I")


def test_settings_of_the_start_are_the_sessions(server: Served, backend: PlainBackend) -> None:
    with Raw(server.port, application_name="mine", options="-c statement_timeout=5s --search-path=a\\ b"):
        assert backend.sessions[-1].settings["application_name"] == "mine"
        assert backend.sessions[-1].settings["statement_timeout"] == "5s"
        assert backend.sessions[-1].settings["search_path"] == "a b"


def test_a_newer_protocol_and_unknown_options_are_talked_down(server: Served) -> None:
    with Raw(server.port, log_in=False) as client:
        client.send(raw.startup((3 << 16) + 2, user="ann", **{"_pq_.fancy": "1"}))
        found = client.until_ready()
    assert found[0] == (b"v", struct.pack("!ii", 3 << 16, 1) + b"_pq_.fancy\0")
    assert found[1] == (b"R", bytes(4))


@pytest.mark.parametrize(
    ("first", "sqlstate"),
    [
        (raw.startup(2 << 16, user="ann"), "0A000"),
        (raw.startup(4 << 16, user="ann"), "0A000"),
        (raw.startup(database="main"), "28000"),
        (raw.startup(user="ann", database="nowhere"), "3D000"),
        (raw.startup(user="ann", replication="database"), "0A000"),
        (raw.startup(user="ann", client_encoding="LATIN1"), "22023"),
        (raw.startup(user="ann", options="nonsense"), "42601"),
        (raw.startup(user="ann")[:-1][:4] + raw.startup(user="ann")[4:-1] + b"x", "08P01"),
        (struct.pack("!ii", 8, 3 << 16), "08P01"),
        (struct.pack("!i", 3), "08P01"),
        (struct.pack("!i", -1), "08P01"),
        (struct.pack("!i", 2**31 - 1), "08P01"),
        (b"GET / HTTP/1.1\r\n\r\n", "08P01"),
    ],
)
def test_a_start_that_cannot_be_one_is_told_and_ended(server: Served, first: bytes, sqlstate: str) -> None:
    with Raw(server.port, log_in=False) as client:
        client.send(first)
        found = client.rest()
    assert sqlstates(found) == [sqlstate]
    assert raw.errors(found)[0]["S"] == "FATAL"


def test_encryption_that_is_not_there_is_refused_with_a_letter(server: Served) -> None:
    with Raw(server.port, log_in=False) as client:
        for request in (80877104, 80877103):
            client.send(struct.pack("!ii", 8, request))
            assert client.read(1) == b"N"
        client.send(raw.startup(user="ann"))
        assert letters(client.until_ready()).startswith("R")


# Simple queries


def test_several_statements_in_one_message(client: Raw) -> None:
    found = client.ask(query("select 1; select 'a' where false; set application_name = 'x'; show TimeZone"))
    assert letters(found) == "TDCTCCTDCSZ"
    assert tags(found) == ["SELECT 1", "SELECT 0", "SET", "SHOW"]
    assert rows(found) == [[b"1"], [b"UTC"]]


def test_nothing_is_answered_as_nothing(client: Raw) -> None:
    assert letters(client.ask(query(""))) == "IZ"
    assert letters(client.ask(query(" ; "))) == "IZ"


def test_an_error_ends_the_message_and_not_the_connection(client: Raw) -> None:
    found = client.ask(query("select 1; select * from missing; select 2"))
    assert letters(found) == "TDCEZ"
    assert sqlstates(found) == ["42P01"]
    assert rows(client.ask(query("select 3"))) == [[b"3"]]


def test_text_that_is_no_utf8_is_an_error(client: Raw) -> None:
    assert sqlstates(client.ask(raw.message(b"Q", b"select '\xff\xfe'\0"))) == ["22021"]
    assert letters(client.ask(query("select 1"))) == "TDCZ"


def test_statements_of_one_message_see_one_commit(client: Raw, backend: PlainBackend) -> None:
    session = backend.sessions[-1]
    client.ask(query("select 1; select 2"))
    assert session.pins == 1
    client.ask(query("select 1"))
    assert session.pins == 2
    assert not session.pinned


def test_listen_and_writes_are_refused(client: Raw) -> None:
    assert sqlstates(client.ask(query("listen x"))) == ["0A000"]
    assert sqlstates(client.ask(query("insert into t values (1)"))) == ["25006"]
    assert sqlstates(client.ask(raw.message(b"F", b"\0\0\0\1\0\0\0\0\0\0"))) == ["0A000"]


# Transactions


def test_a_failed_transaction_refuses_all_up_to_its_end(client: Raw) -> None:
    assert client.ask(query("begin"))[-1] == (b"Z", b"T")
    assert client.ask(query("select * from missing"))[-1] == (b"Z", b"E")
    assert sqlstates(client.ask(query("select 1"))) == ["25P02"]
    assert sqlstates(client.ask(raw.parse("select 1"), raw.SYNC)) == ["25P02"]
    found = client.ask(query("commit"))
    assert tags(found) == ["ROLLBACK"]
    assert found[-1] == (b"Z", b"I")


def test_a_transaction_sees_one_commit(client: Raw, backend: PlainBackend) -> None:
    session = backend.sessions[-1]
    for each in ("begin", "select 1", "select 2"):
        client.ask(query(each))
    client.ask(raw.parse("select 3"), raw.bind(), raw.execute(), raw.SYNC)
    assert (session.pins, session.pinned) == (1, True)
    client.ask(query("commit"))
    assert not session.pinned


def test_what_follows_a_commit_in_the_same_message_sees_one_commit_too(client: Raw, backend: PlainBackend) -> None:
    session = backend.sessions[-1]
    assert client.ask(query("select 1; begin; commit; begin; select 2"))[-1] == (b"Z", b"T")
    assert (session.pins, session.pinned) == (2, True)
    client.ask(query("commit; select 1; select 2"))
    assert (session.pins, session.pinned) == (3, False)


def test_savepoints_bring_a_failed_transaction_back(client: Raw) -> None:
    client.ask(query("begin; savepoint a; savepoint b"))
    client.ask(query("select * from missing"))
    found = client.ask(query("rollback to savepoint a"))
    assert (tags(found), found[-1]) == (["ROLLBACK"], (b"Z", b"T"))
    assert sqlstates(client.ask(query("rollback to savepoint b"))) == ["3B001"]
    client.ask(query("rollback to a"))
    assert tags(client.ask(query("release a; commit"))) == ["RELEASE", "COMMIT"]


def test_what_needs_a_transaction_says_so(client: Raw) -> None:
    assert sqlstates(client.ask(query("savepoint a"))) == ["25P01"]
    assert sqlstates(client.ask(query("rollback to a"))) == ["25P01"]
    assert sqlstates(client.ask(query("declare c cursor for select 1"))) == ["25P01"]
    assert raw.notices(client.ask(query("commit"))) == ["25P01"]
    assert raw.notices(client.ask(query("begin; begin"))) == ["25001"]


def test_settings_of_a_transaction_that_is_rolled_back_are_undone(client: Raw, backend: PlainBackend) -> None:
    found = client.ask(query("begin; set TimeZone = 'Asia/Tokyo'"))
    assert (b"S", b"TimeZone\0Asia/Tokyo\0") in found
    found = client.ask(query("rollback"))
    assert (b"S", b"TimeZone\0UTC\0") in found
    client.ask(query("begin; set TimeZone = 'Asia/Tokyo'; commit"))
    assert backend.sessions[-1].settings["TimeZone"] == "Asia/Tokyo"
    assert rows(client.ask(query("select timestamptz '2024-01-01 00:00:00+00'"))) == [[b"2024-01-01 09:00:00+09"]]


# The extended protocol


def test_parse_bind_describe_execute(client: Raw) -> None:
    found = client.ask(
        raw.parse("select $1 + 1 as x, $2 as y", "s", (types.INT4, 0)), raw.describe(b"S", "s"),
        raw.bind("p", "s", (b"41", b"a'b"), (), (1, 0)), raw.describe(b"P", "p"), raw.execute("p"),
        raw.close(b"P", "p"), raw.close(b"S", "s"), raw.SYNC,
    )  # fmt: skip
    assert letters(found) == "1tT2TDC33Z"
    assert found[1][1] == struct.pack("!hII", 2, types.INT4, types.TEXT)
    assert rows(found) == [[struct.pack("!i", 42), b"a'b"]]


def test_parameters_in_binary_and_null(client: Raw) -> None:
    found = client.ask(
        raw.parse("select $1, $2, $3", "", (types.INT8, types.FLOAT8, types.TEXT)),
        raw.bind("", "", (struct.pack("!q", -7), None, b"x"), (1, 1, 0)), raw.execute(), raw.SYNC,
    )  # fmt: skip
    assert rows(found) == [[b"-7", None, b"x"]]


@pytest.mark.parametrize(
    "text", ["'; drop table x; --", "\\", "$1", "$$a$$", "é😀", 'a"b', "\\'", "%s", "\x7f", "E'\\n'"]
)
def test_a_value_is_never_read_as_sql(client: Raw, text: str) -> None:
    found = client.ask(raw.parse("select $1"), raw.bind("", "", (text.encode(),)), raw.execute(), raw.SYNC)
    assert rows(found) == [[text.encode()]]


def test_after_an_error_all_is_skipped_up_to_sync(client: Raw) -> None:
    found = client.ask(
        raw.parse("select 1"), raw.bind(), raw.execute(), raw.parse("select * from missing"), raw.bind(), raw.execute(),
        raw.parse("select 2"), raw.bind(), raw.execute(), raw.SYNC,
    )  # fmt: skip
    assert letters(found) == "12DCEZ"
    assert letters(client.ask(raw.SYNC)) == "Z"
    assert rows(client.ask(raw.parse("select 2"), raw.bind(), raw.execute(), raw.SYNC)) == [[b"2"]]


def test_many_pipelines_in_one_go(client: Raw) -> None:
    client.send(*[raw.parse(f"select {n}") + raw.bind() + raw.execute() + raw.SYNC for n in range(200)])
    for number in range(200):
        assert rows(client.until_ready()) == [[str(number).encode()]]


def test_rows_come_in_portions_and_the_portal_waits(client: Raw) -> None:
    text = "select i from range(250) t(i) order by i"
    client.ask(query("begin"))
    found = client.ask(raw.parse(text), raw.bind("p"), raw.execute("p", 120), raw.SYNC)
    assert (len(rows(found)), letters(found)[-2:]) == (120, "sZ")
    found += client.ask(raw.execute("p", 130), raw.SYNC)
    assert (len(rows(found)), letters(found)[-2:]) == (250, "sZ")
    last = client.ask(raw.execute("p", 1), raw.SYNC)
    assert (rows(last), tags(last)) == ([], ["SELECT 0"])
    again = client.ask(raw.execute("p"), raw.SYNC)
    assert tags(again) == ["SELECT 0"]
    assert [int(row[0] or 0) for row in rows(found)] == list(range(250))
    client.ask(query("commit"))
    assert sqlstates(client.ask(raw.execute("p"), raw.SYNC)) == ["34000"]


def test_a_portal_does_not_outlive_its_sync_outside_of_a_transaction(client: Raw) -> None:
    client.ask(raw.parse("select 1"), raw.bind("p"), raw.SYNC)
    assert sqlstates(client.ask(raw.execute("p"), raw.SYNC)) == ["34000"]


def test_flush_sends_what_there_is(client: Raw) -> None:
    client.send(raw.parse("select 1"), raw.describe(b"S"), raw.FLUSH)
    assert [client.message()[0] for _ in range(3)] == [b"1", b"t", b"T"]
    client.ask(raw.SYNC)


@pytest.mark.parametrize(
    ("messages", "sqlstate"),
    [
        ((raw.bind("", "missing"),), "26000"),
        ((raw.execute("missing"),), "34000"),
        ((raw.describe(b"S", "missing"),), "26000"),
        ((raw.describe(b"P", "missing"),), "34000"),
        ((raw.describe(b"Q"),), "08P01"),
        ((raw.close(b"Q"),), "08P01"),
        ((raw.parse("select 1", "twice"), raw.parse("select 1", "twice")), "42P05"),
        ((raw.parse("select 1; select 2"),), "42601"),
        ((raw.parse("select $1"), raw.bind()), "08P01"),
        ((raw.parse("select $1"), raw.bind(values=(b"1",), formats=(7,))), "22023"),
        ((raw.parse("select $1"), raw.bind(values=(b"1",), formats=(0, 0))), "08P01"),
        ((raw.parse("select 1"), raw.bind(results=(0, 0))), "08P01"),
        ((raw.parse("select $1", "", (types.INT4,)), raw.bind(values=(b"x",))), "22P02"),
        ((raw.parse("select $1", "", (types.INT4,)), raw.bind(values=(b"x",), formats=(1,))), "22P03"),
        ((raw.parse("select 1"), raw.bind("p"), raw.bind("p")), "42P03"),
        ((raw.message(b"P", b"no zero"),), "08P01"),
        ((raw.message(b"B", b"\0\0\0"),), "08P01"),
        ((raw.message(b"E", b"\0"),), "08P01"),
        ((raw.message(b"P", b"\0select 1\0\0\0too much"),), "08P01"),
    ],
)
def test_what_does_not_fit_is_an_error_and_the_connection_goes_on(
    client: Raw, messages: tuple[bytes, ...], sqlstate: str
) -> None:
    assert sqlstates(client.ask(*messages, raw.SYNC)) == [sqlstate]
    assert rows(client.ask(query("select 1"))) == [[b"1"]]


def test_closing_what_is_not_there_is_no_error(client: Raw) -> None:
    assert letters(client.ask(raw.close(b"S", "x"), raw.close(b"P", "y"), raw.SYNC)) == "33Z"


def test_statements_without_rows_have_no_description(client: Raw) -> None:
    found = client.ask(raw.parse("set application_name = 'x'"), raw.describe(b"S"), raw.bind(), raw.execute(), raw.SYNC)
    assert letters(found) == "1tn2CSZ"
    found = client.ask(raw.parse(""), raw.describe(b"S"), raw.bind(), raw.execute(), raw.SYNC)
    assert letters(found) == "1tn2IZ"


def test_a_table_that_changed_since_it_was_described_is_told(
    server: Served, backend: PlainBackend, client: Raw
) -> None:
    backend.database.execute("create or replace table moving as select 1::int as x")
    client.ask(raw.parse("select * from moving", "s"), raw.SYNC)
    assert rows(client.ask(raw.bind("", "s"), raw.execute(), raw.SYNC)) == [[b"1"]]
    backend.database.execute("create or replace table moving as select 1::int as x, 'a' as y")
    assert sqlstates(client.ask(raw.bind("", "s"), raw.execute(), raw.SYNC)) == ["0A000"]


def test_a_message_of_an_unknown_kind_ends_the_connection(server: Served) -> None:
    with Raw(server.port) as client:
        client.send(raw.message(b"y", b"?"))
        found = client.rest()
    assert sqlstates(found) == ["08P01"]
    assert raw.errors(found)[0]["S"] == "FATAL"


def test_terminate_ends_the_connection(server: Served, backend: PlainBackend) -> None:
    with Raw(server.port) as client:
        session = backend.sessions[-1]
        client.send(raw.TERMINATE)
        assert client.rest() == []
    eventually(lambda: session.closed)


# Cursors, prepared statements, COPY


def test_a_cursor_is_read_forward(client: Raw) -> None:
    client.ask(query("begin; declare c cursor for select i from range(10) t(i) order by i"))
    assert [row[0] for row in rows(client.ask(query("fetch 3 from c")))] == [b"0", b"1", b"2"]
    assert tags(client.ask(query("move 2 from c"))) == ["MOVE 2"]
    assert rows(client.ask(query("fetch absolute 8 from c"))) == [[b"7"]]
    found = client.ask(query("fetch all from c"))
    assert (rows(found), tags(found)) == ([[b"8"], [b"9"]], ["FETCH 2"])
    assert tags(client.ask(query("fetch c"))) == ["FETCH 0"]
    assert tags(client.ask(query("close c"))) == ["CLOSE CURSOR"]
    assert sqlstates(client.ask(query("fetch c"))) == ["34000"]


def test_a_cursor_cannot_go_back(client: Raw) -> None:
    client.ask(query("begin; declare c cursor for select 1"))
    assert sqlstates(client.ask(query("fetch backward 1 from c"))) == ["55000"]


def test_a_cursor_that_is_held_outlives_its_transaction(client: Raw) -> None:
    client.ask(query("begin; declare c cursor with hold for select 7; declare d cursor for select 8; commit"))
    assert rows(client.ask(query("fetch c"))) == [[b"7"]]
    assert sqlstates(client.ask(query("fetch d"))) == ["34000"]
    assert tags(client.ask(query("close all"))) == ["CLOSE CURSOR"]
    assert sqlstates(client.ask(query("close c"))) == ["34000"]


def test_a_binary_cursor_is_binary(client: Raw) -> None:
    client.ask(query("begin; declare c binary cursor for select 258::int"))
    found = client.ask(query("fetch c"))
    assert rows(found) == [[struct.pack("!i", 258)]]
    assert found[0][1].endswith(b"\0\1")


def test_prepare_and_execute_in_sql(client: Raw) -> None:
    assert tags(client.ask(query("prepare p (int4, text) as select $1 + 1, $2"))) == ["PREPARE"]
    found = client.ask(query("execute p (41, 'x')"))
    assert (rows(found), tags(found)) == ([[b"42", b"x"]], ["SELECT 1"])
    assert sqlstates(client.ask(query("execute p (41)"))) == ["42601"]
    assert sqlstates(client.ask(query("execute p (x, 'y')"))) == ["22P02"]
    assert sqlstates(client.ask(query("prepare p as select 1"))) == ["42P05"]
    assert rows(client.ask(raw.bind("", "p", (b"1", b"z")), raw.execute(), raw.SYNC)) == [[b"2", b"z"]]
    assert tags(client.ask(query("deallocate p"))) == ["DEALLOCATE"]
    assert sqlstates(client.ask(query("execute p (1, 'x')"))) == ["26000"]


def test_discard_all_forgets_all(client: Raw, backend: PlainBackend) -> None:
    client.ask(query("prepare p as select 1; set TimeZone = 'Asia/Tokyo'"))
    assert tags(client.ask(query("discard all"))) == ["DISCARD ALL"]
    assert sqlstates(client.ask(query("execute p"))) == ["26000"]
    assert backend.sessions[-1].settings["TimeZone"] == "UTC"
    assert sqlstates(client.ask(query("begin; discard all"))) == ["25001"]


COPIES = [
    ("select i, 'a\tb\\c' from range(2) t(i)", "", b"0\ta\\tb\\\\c\n1\ta\\tb\\\\c\n"),
    ("select null, ''", "", b"\\N\t\n"),
    ("select 1, null, ''", "(format csv)", b'1,,""\n'),
    ("select 'a,b', 'q\"q', 'x' || chr(10)", "(format csv)", b'"a,b","q""q","x\n"\n'),
    ("select 1 as one, 'x' as two", "(format csv, header, force_quote *)", b'one,two\n"1","x"\n'),
    ("select 1, 'a;b'", "(format csv, delimiter ';')", b'1;"a;b"\n'),
    ("select 'a|b', null", "(delimiter '|', null 'nil')", b"a\\|b|nil\n"),
    ("select '\\.'", "(format csv)", b'"\\."\n'),
    ("select 1 where false", "(format csv, header)", b"1\n"),
]


@pytest.mark.parametrize(("text", "options", "wanted"), COPIES)
def test_copy_as_text_and_csv(client: Raw, text: str, options: str, wanted: bytes) -> None:
    found = client.ask(query(f"copy ({text}) to stdout {options}"))
    assert b"".join(content for letter, content in found if letter == b"d") == wanted
    assert letters(found)[0] == "H"
    assert letters(found)[-3:] == "cCZ"


def test_copy_has_a_message_for_each_row(client: Raw) -> None:
    found = client.ask(query("copy (select i from range(500) t(i)) to stdout"))
    assert letters(found) == "H" + "d" * 500 + "cCZ"
    assert tags(found) == ["COPY 500"]


def test_copy_in_binary(client: Raw) -> None:
    head = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    found = client.ask(query("copy (select i::int, null from range(2) t(i)) to stdout (format binary)"))
    parts = [content for letter, content in found if letter == b"d"]
    row = struct.pack("!hii", 2, 4, 0) + b"\xff\xff\xff\xff"
    assert parts == [head + row, struct.pack("!hii", 2, 4, 1) + b"\xff\xff\xff\xff", b"\xff\xff"]
    found = client.ask(query("copy (select 1 where false) to stdout (format binary)"))
    assert [content for letter, content in found if letter == b"d"] == [head + b"\xff\xff"]


@pytest.mark.parametrize(
    ("options", "sqlstate"),
    [("format xml", "22023"), ("quote 'x'", "0A000"), ("delimiter 'ab'", "0A000"), ("format binary, header", "0A000")],
)
def test_options_of_copy_that_do_not_fit(client: Raw, options: str, sqlstate: str) -> None:
    assert sqlstates(client.ask(query(f"copy (select 1) to stdout ({options})"))) == [sqlstate]


# Cancelling


SLOW = "select count(*) from range(100000000000) t(i) where i % 7 = 3"
ENDLESS = "select i, repeat('x', 200) from range(100000000000) t(i)"


def cancel(server: Served, key: tuple[int, int]) -> None:
    with Raw(server.port, log_in=False) as other:
        other.send(struct.pack("!iiiI", 16, 80877102, *key))
        assert other.rest() == []


def test_a_running_query_is_cancelled_by_its_key_alone(server: Served, client: Raw) -> None:
    client.send(query(SLOW))
    cancel(server, (client.key[0], client.key[1] ^ 1))
    cancel(server, (client.key[0] + 1, client.key[1]))
    client.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        client.message()
    client.socket.settimeout(30)
    cancel(server, client.key)
    assert sqlstates(client.until_ready()) == ["57014"]
    assert rows(client.ask(query("select 1"))) == [[b"1"]]


def test_a_result_is_cancelled_while_it_is_sent(server: Served, client: Raw) -> None:
    client.send(query(ENDLESS))
    client.read(1000)
    cancel(server, client.key)
    client._buffer = b""
    tail = b""
    while b"C57014" not in tail:
        tail = tail[-20:] + client.socket.recv(1 << 20)
    client.socket.settimeout(5)
    while not tail.endswith(b"Z\0\0\0\5I"):
        tail += client.socket.recv(1 << 20)
    assert rows(client.ask(query("select 1"))) == [[b"1"]]


def test_cancelling_nothing_does_nothing(server: Served, client: Raw) -> None:
    cancel(server, client.key)
    assert rows(client.ask(query("select 1"))) == [[b"1"]]


def test_psycopg_cancels(server: Served) -> None:
    with psycopg.connect(server.dsn()) as connection:
        timer = threading.Timer(0.2, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(SLOW)
        timer.join()
        connection.rollback()
        assert connection.execute("select 1").fetchone() == (1,)
