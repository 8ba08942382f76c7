"""Clients that do not know the protocol, do not read, vanish, or come in crowds: the server stays up and small."""

from __future__ import annotations

import contextlib
import gc
import random
import socket
import struct
import time
from collections.abc import Iterator

import psutil
import psycopg
import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mere.serve.postgres import wire
from mere.serve.postgres.startup import Policy
from mere.serve.protocol.port import PgError
from tests.serve import raw
from tests.serve.plain import PlainBackend
from tests.serve.raw import Raw, query, rows
from tests.serve.served import Served, eventually, served

WIDE = "select i, repeat('x', 500) as x from range(100000000000) t(i)"


@pytest.fixture(scope="module")
def backend() -> PlainBackend:
    return PlainBackend()


@pytest.fixture(scope="module")
def server(backend: PlainBackend) -> Iterator[Served]:
    with served(backend, max_connections=600, login_seconds=60) as found:
        yield found
        assert found.server.metrics.connections == 0


@pytest.fixture(autouse=True)
def still_there(server: Served) -> Iterator[None]:
    """After every test the server answers, nobody is left, and nothing works on."""
    yield
    with Raw(server.port) as client:
        assert rows(client.ask(query("select 42"))) == [[b"42"]]
    eventually(lambda: server.server.metrics.connections == 0)
    eventually(lambda: server.server._pool.at_work == 0)


def memory() -> int:
    """Megabytes of this process, in which the server is."""
    gc.collect()
    return int(psutil.Process().memory_info().rss) >> 20


GOOD = [
    query("select 1"), raw.parse("select $1"), raw.bind("", "", (b"1",)), raw.describe(b"S"), raw.describe(b"P"),
    raw.execute(), raw.execute("", 1), raw.close(b"S"), raw.SYNC, raw.FLUSH, query("begin"), query("rollback"),
    raw.message(b"d", b"x"), raw.message(b"c"), raw.message(b"f", b"x\0"), raw.message(b"p", b"x"),
    raw.message(b"F", b"x"),
]  # fmt: skip


def garbled(dice: random.Random) -> bytes:
    """Messages of which some bytes are others, or which are cut, or no messages at all."""
    kind = dice.random()
    if kind < 0.2:
        return dice.randbytes(dice.randint(1, 200))
    data = bytearray(b"".join(dice.choices(GOOD, k=dice.randint(1, 8))))
    if kind < 0.4:
        return bytes(data[: dice.randrange(len(data))])
    for _ in range(dice.randint(1, 5)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("times", [150, pytest.param(5000, marks=pytest.mark.long)])
def test_garbled_messages(server: Served, times: int) -> None:
    dice = random.Random(times)
    for _ in range(times):
        with Raw(server.port) as client:
            client.socket.settimeout(0.03)
            try:
                client.send(garbled(dice))
                client.rest()
            except OSError:
                pass


def test_garbled_starts(server: Served) -> None:
    dice = random.Random(77)
    for _ in range(150):
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            data = bytearray(raw.startup(user="ann", database="main"))
            for _ in range(dice.randint(0, 4)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            client.sendall(bytes(data[: dice.randint(1, len(data))]))


@pytest.mark.parametrize("length", [2**31 - 1, -1, 0, 3, -(2**31), (64 << 20) + 5])
def test_a_length_that_cannot_be_ends_the_connection_at_once(server: Served, length: int) -> None:
    with Raw(server.port) as client:
        client.send(b"Q" + struct.pack("!i", length))
        found = client.rest()
    assert raw.sqlstates(found) == ["08P01"]


def test_a_length_that_is_promised_and_not_kept_takes_no_memory(server: Served) -> None:
    before = memory()
    clients = [Raw(server.port) for _ in range(20)]
    for client in clients:
        client.send(b"Q" + struct.pack("!i", 60 << 20) + b"select")
    time.sleep(0.2)
    assert memory() - before < 60
    for client in clients:
        client.close()


def test_a_client_that_sends_and_never_reads_has_to_wait(server: Served) -> None:
    """The server stops to take its queries, and so holds only what the system's buffers do not."""
    before = memory()
    with Raw(server.port) as client:
        client.socket.settimeout(1)
        many = query("select repeat('x', 10000)") * 1_000_000
        with pytest.raises(TimeoutError):
            client.send(many)
        assert memory() - before < 100


def test_slow_readers_of_endless_results_take_little_memory_and_no_worker(server: Served) -> None:
    before = memory()
    clients = [Raw(server.port) for _ in range(8)]  # twice as many as there are workers
    for client in clients:
        client.send(query(WIDE))
        client.read(10_000)
    with Raw(server.port) as other:
        assert rows(other.ask(query("select 1"))) == [[b"1"]]
    eventually(lambda: server.server._pool.at_work == 0)
    assert memory() - before < 250
    for client in clients:
        client.read(5_000_000)
        client.close()


def test_clients_that_vanish_in_the_middle_of_a_result(server: Served, backend: PlainBackend) -> None:
    for each in range(30):
        client = Raw(server.port)
        client.send(query(WIDE))
        client.read(1000 * (each + 1))
        if each % 2:
            # As a machine that is gone: a reset instead of a goodbye.
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    eventually(lambda: all(session.closed for session in backend.sessions))


def test_clients_that_vanish_while_their_query_works(server: Served, backend: PlainBackend) -> None:
    for _ in range(6):  # more than there are workers
        client = Raw(server.port)
        client.send(query("select count(*) from range(100000000000) t(i) where i % 7 = 3"))
        client.close()
    with Raw(server.port) as client:
        assert rows(client.ask(query("select 1"))) == [[b"1"]]


def test_memory_returns_after_large_results(server: Served) -> None:
    def read() -> None:
        with psycopg.connect(server.dsn()) as connection:
            for _ in connection.cursor().stream("select i, repeat('x', 1000) from range(100000) t(i)"):
                pass

    read()
    before = memory()
    for _ in range(3):
        read()
    assert memory() - before < 100


def test_five_hundred_connections_at_once(server: Served) -> None:
    clients: list[Raw] = []
    with contextlib.ExitStack() as stack:
        for _ in range(10):  # those that log in at the same time are fewer, by their own limit
            newest = [stack.enter_context(Raw(server.port, log_in=False)) for _ in range(50)]
            for client in newest:
                client.send(raw.startup(user="ann", database="main"))
            for client in newest:
                assert client.until_ready()[-1] == (b"Z", b"I")
            clients += newest
        check_five_hundred(server, clients)


def check_five_hundred(server: Served, clients: list[Raw]) -> None:
    for number, client in enumerate(clients):
        client.send(query(f"select {number}"))
    for number, client in enumerate(clients):
        assert rows(client.until_ready()) == [[str(number).encode()]]
    assert server.server.metrics.connections == 500


def test_one_too_many_is_told(backend: PlainBackend) -> None:
    with served(backend, max_connections=2) as small:
        first, second = Raw(small.port), Raw(small.port)
        with Raw(small.port, log_in=False) as third:
            third.send(raw.startup(user="ann"))
            assert "53300" in raw.sqlstates(third.rest())
        first.close()
        eventually(lambda: small.server.metrics.connections == 1)
        with Raw(small.port) as third:
            assert rows(third.ask(query("select 1"))) == [[b"1"]]
        second.close()


def test_who_never_logs_in_and_who_is_idle_are_hung_up_on(backend: PlainBackend) -> None:
    with served(backend, login_seconds=0.3, idle_seconds=0.3) as hasty:
        with Raw(hasty.port, log_in=False) as silent:
            assert raw.sqlstates(silent.rest()) == ["08006"]
        with Raw(hasty.port) as idle:
            assert raw.sqlstates(idle.rest()) == ["57P05"]
        with Raw(hasty.port) as idle:
            idle.ask(query("begin"))
            assert raw.sqlstates(idle.rest()) == ["25P03"]


def test_garbage_in_place_of_a_handshake(backend: PlainBackend) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    dice = random.Random(5)
    with served(backend, Policy(tls=context), login_seconds=5) as secure:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", secure.port)) as client:
                client.sendall(struct.pack("!ii", 8, 80877103))
                assert client.recv(1) == b"S"
                client.sendall(dice.randbytes(300))
        with psycopg.connect(secure.dsn(sslmode="require")) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
        eventually(lambda: secure.server.metrics.connections == 0)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60))
def test_no_content_of_a_message_is_more_than_an_error(content: bytes) -> None:
    for read in (wire.Parse.read, wire.Bind.read):
        try:
            read(content)
        except PgError as error:
            assert error.sqlstate in ("08P01", "22021")
