"""One client among many: what it can take of the places, of the workers and of the time of a login."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mere.serve.access.admission import Arrivals, Guesses, Places, machine
from mere.serve.access.users import Users
from mere.serve.postgres.startup import Policy
from mere.serve.protocol.port import PgError
from mere.serve.session.log import Log
from mere.serve.session.pool import Pool
from tests.serve import raw
from tests.serve.plain import PlainBackend
from tests.serve.raw import Raw, query
from tests.serve.served import Served, eventually, served


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


# Places


def test_a_user_leaves_places_to_the_others() -> None:
    places = Places(20)
    for _ in range(18):
        places.take("ann")
    with pytest.raises(PgError, match='too many connections for role "ann"'):
        places.take("ann")
    places.take("bob")
    places.take("bob")
    with pytest.raises(PgError, match="too many clients"):
        places.take("eve")
    places.give_back("ann")
    places.take("eve")
    assert places.taken == 20


def test_a_single_place_is_anybodys() -> None:
    places = Places(1)
    places.take("ann")
    places.give_back("ann")
    places.take("bob")


def test_who_is_refused_over_the_wire_takes_no_place() -> None:
    with served(PlainBackend(), max_connections=4, user_connections=2) as found:
        first, second = Raw(found.port), Raw(found.port)
        for _ in range(5):
            with Raw(found.port, log_in=False) as third:
                third.send(raw.startup(user="ann"))
                assert raw.sqlstates(third.rest()) == ["53300"]
        with Raw(found.port, user="bob") as other:
            assert raw.rows(other.ask(query("select 1"))) == [[b"1"]]
        first.close()
        second.close()
        eventually(lambda: found.server._places.taken == 0)


# Clients that are logging in


def test_of_a_crowd_those_that_take_long_make_room_first_of_the_most_crowded_address(clock: Clock) -> None:
    arrivals, cut = Arrivals(10, 8, 40, clock), list[str]()
    for number in range(12):
        arrivals.enter(f"10.0.0.1:{number}", lambda number=number: cut.append(f"eve {number}"))  # type: ignore[misc]
    arrivals.enter("10.0.0.2:1", lambda: cut.append("ann"))
    assert arrivals.thin_out()
    assert not cut, "each has its time"
    clock.now += 3
    assert not arrivals.thin_out()
    assert cut == [f"eve {number}" for number in range(4)]
    assert arrivals.present == 9


def test_an_address_cannot_take_all_of_a_crowd(clock: Clock) -> None:
    arrivals = Arrivals(10, 8, 40, clock)
    entered = [arrivals.enter(f"10.0.0.1:{number}", lambda: None) for number in range(30)]
    assert [each is not None for each in entered] == [True] * 20 + [False] * 10
    other = arrivals.enter("10.0.0.2:1", lambda: None)
    assert other is not None
    for each in (*entered, other, other):
        if each is not None:
            arrivals.leave(each)
    assert (arrivals.present, arrivals._of) == (0, {})


def test_silent_sockets_lock_nobody_out() -> None:
    log = io.StringIO()
    with served(PlainBackend(), log=Log(log), max_connections=200, max_logins=10, address_logins=5) as found:
        silent = [socket.create_connection(("127.0.0.1", found.port)) for _ in range(250)]
        start = time.monotonic()
        # From this address no more fit for the moment; from another one it goes at once.
        with socket.create_connection(("127.0.0.1", found.port), source_address=("127.0.0.2", 0)) as other:
            other.sendall(raw.startup(user="ann", database="main"))
            assert other.recv(1) == b"R"
        assert time.monotonic() - start < 2
        eventually(lambda: found.server._arrivals.present <= 5)
        with Raw(found.port) as client:
            assert raw.rows(client.ask(query("select 1"))) == [[b"1"]]
        for each in silent:
            each.close()
        eventually(lambda: not found.server._links)
    refused = [line for line in map(json.loads, log.getvalue().splitlines()) if line["event"] == "refused"]
    assert len(refused) >= 245
    assert {line["error"] for line in refused} == {"53300"}


# Workers


def run_jobs(pool: Pool, jobs: Callable[[asyncio.AbstractEventLoop], Any]) -> Any:
    async def main() -> Any:
        return await jobs(asyncio.get_running_loop())

    try:
        return asyncio.run(main())
    finally:
        pool.close()


def test_users_have_their_turns_however_many_jobs_one_of_them_has() -> None:
    pool, order = Pool(1), list[str]()

    async def jobs(_: object) -> None:
        await asyncio.gather(
            *(pool.run(lambda: order.append("ann"), "ann") for _ in range(50)),
            *(pool.run(lambda: order.append("bob"), "bob") for _ in range(2)),
        )

    run_jobs(pool, jobs)
    assert len(order) == 52
    assert [number for number, name in enumerate(order) if name == "bob"] == [2, 4]
    assert (pool.at_work, pool.waiting, pool._queues, pool._running) == (0, 0, {}, {})


def test_one_worker_is_left_to_the_others() -> None:
    pool, gate = Pool(3), threading.Event()

    async def jobs(loop: asyncio.AbstractEventLoop) -> float:
        slow = [asyncio.ensure_future(pool.run(gate.wait, "ann")) for _ in range(10)]
        await asyncio.sleep(0.05)
        assert (pool.at_work, pool.waiting) == (10, 8)
        start = loop.time()
        await pool.run(lambda: None, "bob")
        took = loop.time() - start
        gate.set()
        await asyncio.gather(*slow)
        return took

    assert run_jobs(pool, jobs) < 1


def test_who_gives_up_waiting_leaves_nothing_behind() -> None:
    pool, gate, ran = Pool(1), threading.Event(), list[int]()

    async def jobs(_: object) -> None:
        first = asyncio.ensure_future(pool.run(gate.wait, "ann"))
        waiting = [asyncio.ensure_future(pool.run(lambda n=n: ran.append(n), "ann")) for n in range(3)]  # type: ignore[misc]
        await asyncio.sleep(0.05)
        waiting[0].cancel()
        gate.set()
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(first, *waiting, return_exceptions=True)
        await pool.run(lambda: ran.append(9), "ann")

    run_jobs(pool, jobs)
    assert ran[-2:] == [2, 9]
    assert (pool.at_work, pool.waiting, pool._queues) == (0, 0, {})


# Passwords


def test_each_wrong_password_makes_the_next_wait_longer_and_a_right_one_ends_that(clock: Clock) -> None:
    guesses, waits = Guesses(clock), list[float]()
    for _ in range(10):
        waits.append(guesses.wait("ann", "10.0.0.1:5000"))
        clock.now += waits[-1]
        guesses.failed("ann", "10.0.0.1:5001")
    assert waits == [0, 0.25, 0.5, 1, 2, 4, 8, 8, 8, 8]
    assert guesses.wait("ann", "10.0.0.2:5000") == 0, "from elsewhere she is not kept out"
    assert guesses.wait("bob", "10.0.0.1:5000") == 0
    clock.now += guesses.wait("ann", "10.0.0.1:5000")
    guesses.succeeded("ann", "10.0.0.1:5000")
    assert guesses.wait("ann", "10.0.0.1:5000") == 0


def test_attempts_at_the_same_time_wait_one_after_another_and_not_for_ever(clock: Clock) -> None:
    guesses = Guesses(clock)
    for _ in range(4):
        guesses.failed("ann", "10.0.0.1:1")
    found: list[float] = []
    with pytest.raises(PgError, match="too many failed logins"):
        found.extend(guesses.wait("ann", "10.0.0.1:1") for _ in range(100))
    assert found == [2, 4, 6, 8, 10, 12, 14, 16]
    clock.now += 60
    assert guesses.wait("ann", "10.0.0.1:1") == 0


def test_who_tries_many_users_waits_too_and_is_forgotten_in_the_end(clock: Clock) -> None:
    guesses = Guesses(clock)
    for number in range(25):
        guesses.failed(f"user{number}", "10.0.0.1:1")
    assert guesses.wait("another", "10.0.0.1:1") > 0
    clock.now += 3600
    assert guesses.wait("another", "10.0.0.1:1") == 0
    for number in range(30_000):
        guesses.failed(f"user{number}", f"10.{number // 65536}.{number // 256 % 256}.{number % 256}:1")
    assert len(guesses._of_user) == len(guesses._of_address) == 10_000


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("10.0.0.1:52708", "10.0.0.1"),
        ("::1:52708", "::/64"),
        ("[2001:db8:1:2:3:4:5:6]:52708", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1:52708", "10.0.0.1"),
        ("fe80::1%eth0:52708", "fe80::/64"),
        ("?", ""),
        ("", ""),
    ],
)
def test_the_machine_of_a_client(client: str, expected: str) -> None:
    assert machine(client) == expected


@pytest.fixture
def users(tmp_path: Path) -> Users:
    found = Users(tmp_path / "users.json")
    found.add("ann", "secret")
    return found


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def door(users: Users, log: io.StringIO) -> Iterator[Served]:
    with served(PlainBackend(), Policy(users), Log(log)) as found:
        yield found


def attempt(door: Served, password: str) -> str | None:
    try:
        psycopg.connect(door.dsn(password=password)).close()
    except psycopg.OperationalError as error:
        return str(error).strip()
    return None


def test_passwords_cannot_be_tried_quickly_not_even_at_once(door: Served, log: io.StringIO) -> None:
    end, tried = time.monotonic() + 1, list[str | None]()

    def guess(_: int) -> None:
        while time.monotonic() < end:
            tried.append(attempt(door, "guess"))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(guess, range(3)))
    assert 1 < len(tried) <= 10
    assert all("password authentication failed" in (each or "") for each in tried)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {(line["event"], line["user"], line["error"]) for line in lines} == {("refused", "ann", "28P01")}


def test_who_comes_goes_and_is_refused_stands_in_the_log(door: Served, log: io.StringIO) -> None:
    assert attempt(door, "secret") is None
    assert "password authentication failed" in (attempt(door, "wrong") or "")
    eventually(lambda: not door.server._links)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["event"], line["user"], line.get("error")) for line in lines] == [
        ("login", "ann", None),
        ("disconnect", "ann", None),
        ("refused", "ann", "28P01"),
    ]
    assert all(line["client"].startswith("127.0.0.1:") for line in lines)
    assert attempt(door, "secret") is None, "a right password after a wrong one"


def test_what_a_client_says_it_is_called_does_nothing_to_the_log() -> None:
    log = io.StringIO()
    name = 'ann\r\n{"event": "login", "user": "root"}\x1b]0;mine\x07\x9b2J'
    with served(PlainBackend(), log=Log(log)) as found:
        with Raw(found.port, log_in=False) as client:
            client.send(raw.startup(user=name, database="no\nsuch\x1b[2J", application_name="\x1b[31m"))
            client.until_ready()
        with Raw(found.port, user=name) as client:
            client.ask(query("select '\x1b[2J' as \"\x1b]0;\r\n\""))
        eventually(lambda: not found.server._links)
    lines = log.getvalue().splitlines()
    assert [json.loads(line)["user"] for line in lines] == [name] * len(lines)
    assert all(" " <= each <= "~" for line in lines for each in line)
