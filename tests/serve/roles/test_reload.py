"""Users and roles are those of their files as they are now: a server that runs is not started again for them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import psycopg
import pytest

from mere.errors import ConfigError
from mere.lake.lake import Lake
from mere.serve.access import scram
from mere.serve.access.roles import Declared
from mere.serve.access.scram import Verifier
from mere.serve.access.users import Users
from mere.serve.flight.login import Login
from mere.serve.flight.seals import Seals
from mere.serve.flight.server import FlightEndpoint
from mere.serve.postgres.server import Server, Settings
from mere.serve.postgres.startup import Policy
from mere.serve.protocol.port import PgError
from mere.serve.roles import check as rolecheck
from mere.serve.roles.file import RoleFile
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import failure, rows
from tests.serve.flight.test_flight import login
from tests.serve.served import Served

ALL = "roles: {seller: {tables: '*'}}\nusers: {ann: seller, bob: seller}\n"
SOME = "roles: {seller: {tables: gold.*, rows: {gold.orders: id > 2}}}\nusers: {ann: seller, bob: seller}\n"
NOBODY = "roles: {seller: {tables: '*'}}\nusers: {bob: seller}\n"
ELSEWHERE = "roles: {seller: {tables: '*', refs: dev}}\nusers: {ann: seller, bob: seller}\n"
BAD = {
    "not YAML": "roles: {seller: {tables: [}}",
    "no table": "roles: {seller: {tables: gold.ordrs}}\nusers: {ann: seller}",
    "no role": "roles: {seller: {tables: '*'}}\nusers: {ann: buyer}",
    "no condition": "roles: {seller: {tables: '*', rows: {gold.orders: '1'}}}\nusers: {ann: seller}",
    "empty": "",
}
COUNT = "select count(*) from gold.orders"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("reload") / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "silver.raw", orders.CUSTOMERS)
        lake.branch("dev")
        yield lake


@dataclass
class Place:
    backend: LakeBackend
    roles: Path
    users: Users
    served: Served
    flight: int

    def connect(self, user: str = "ann", password: str = "one") -> psycopg.Connection[tuple[object, ...]]:
        dsn = f"host=127.0.0.1 port={self.served.port} dbname=main user={user} password={password}"
        return psycopg.connect(dsn, autocommit=True)

    def connect_to_flight(self, password: str = "one") -> adbc.Connection:
        options = {"username": "ann", "password": password}
        return adbc.connect(f"grpc://127.0.0.1:{self.flight}", db_kwargs=options, autocommit=True)


@pytest.fixture
def here(lake: Lake, tmp_path: Path) -> Iterator[Place]:
    file, users = tmp_path / "roles.yaml", Users(tmp_path / "users.json")
    file.write_text(ALL)
    users.add("ann", "one")
    users.add("bob", "two")

    def check(declared: Declared) -> None:
        rolecheck.check(declared, lake).raise_problems()

    backend = LakeBackend(lake, RoleFile(file, check))
    endpoint = FlightEndpoint(backend, users)
    served = Served(Server(backend, Policy(users), Settings(), beside=[endpoint]))
    served.start()
    yield Place(backend, file, users, served, endpoint.port)
    served.stop()
    backend.close()


def test_a_changed_role_applies_from_the_next_statement(here: Place) -> None:
    session = here.backend.connect("ann", "main", {})
    session.begin()
    for _ in range(3):
        here.roles.write_text(ALL)
        assert rows(session, COUNT) == [("3",)]
        here.roles.write_text(SOME)
        assert rows(session, COUNT) == [("1",)]
        assert failure(session, "select * from silver.raw").sqlstate == "42P01"
    here.roles.write_text(ELSEWHERE)
    assert failure(session, COUNT).sqlstate == "3D000"
    here.roles.write_text(NOBODY)
    assert failure(session, COUNT).sqlstate == "28000"
    here.roles.write_text(ALL)
    assert rows(session, COUNT) == [("3",)]


def test_what_is_being_read_ends_with_the_role_that_read_it(here: Place) -> None:
    sql = "select a.id, repeat('x', 1000) from gold.orders a, generate_series(1, 100000) g(i)"
    with here.connect() as connection, here.connect_to_flight() as other, other.cursor() as stream:
        connection.execute(f"begin; declare slow cursor for {sql}")
        assert len(connection.execute("fetch 10 from slow").fetchall()) == 10
        stream.execute(sql)
        reader = stream.fetch_record_batch()
        reader.read_next_batch()
        here.roles.write_text(SOME)
        with pytest.raises(psycopg.Error, match="what this user may read has changed"):
            connection.execute("fetch 50000 from slow")
        with pytest.raises(Exception, match="what this user may read has changed"):
            reader.read_all()


@pytest.mark.parametrize("kind", BAD)
def test_roles_that_went_bad_let_nobody_in_and_change_nobodys(
    here: Place, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    with here.connect() as connection, here.connect_to_flight() as other, other.cursor() as cursor:
        cursor.execute(COUNT)
        here.roles.write_text(BAD[kind])
        assert connection.execute(COUNT).fetchone() == (3,)
        cursor.execute(COUNT)
        assert cursor.fetchone() == (3,)
        with pytest.raises(psycopg.OperationalError, match="logins are refused at the moment") as refused:
            here.connect("bob", "two")
        assert str(here.roles) not in str(refused.value)
        with pytest.raises(adbc.Error, match="57P03"), here.connect_to_flight() as third, third.cursor() as late:
            late.execute(COUNT)
        logged = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert len(logged) == 1
        assert "roles.yaml:" in logged[0].getMessage()
        here.roles.write_text(SOME)
        assert connection.execute(COUNT).fetchone() == (1,)
        here.connect("bob", "two").close()


def test_a_file_of_roles_that_is_gone_is_a_bad_one(here: Place) -> None:
    session = here.backend.connect("ann", "main", {})
    here.roles.unlink()
    assert rows(session, COUNT) == [("3",)]
    with pytest.raises(PgError, match="logins are refused"):
        here.backend.admit()
    here.roles.write_text(SOME)
    here.backend.admit()
    assert rows(session, COUNT) == [("1",)]


@pytest.mark.parametrize("how", ["removed", "another password"])
def test_who_is_no_user_any_more_is_cut_off(here: Place, how: str) -> None:
    with here.connect() as ann, here.connect("bob", "two") as bob:
        ann.execute("select 1")
        started = time.monotonic()
        if how == "removed":
            here.users.remove("ann")
        else:
            here.users.add("ann", "three")
        with suppress(psycopg.Error):
            while time.monotonic() - started < 20:
                ann.execute("select 1")
                time.sleep(0.05)
        assert ann.closed
        assert bob.execute("select 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            here.connect()


def test_a_call_of_flight_ends_with_its_user(tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json")
    users.add("ann", "one")
    door = Login(users, Seals(), lambda: None)
    by_password = door.caller({"authorization": [login("ann", "one")[1].decode()]})
    by_token = door.caller({"authorization": [by_password.sending_headers()["authorization"]]})
    callers = [by_password, by_token, by_token.at("dev")]
    assert all(door.stays(each) for each in callers)
    users.add("ann", "two")
    assert not any(door.stays(each) for each in callers)


@pytest.mark.parametrize("content", ["{", '{"ann": "x"}', "[]", "open"])
def test_users_that_went_bad_let_nobody_in_and_cut_nobody_off(here: Place, content: str) -> None:
    file, good = here.users.path, here.users.path.read_text()
    with here.connect() as ann, here.connect_to_flight() as other, other.cursor() as cursor:
        cursor.execute("select 1")
        if content == "open":
            file.chmod(0o644)
        else:
            file.write_text(content)
        for user in ("ann", "bob", "nobody"):
            with pytest.raises(psycopg.OperationalError, match="logins are refused at the moment") as refused:
                here.connect(user, "two")
            assert str(file) not in str(refused.value)
        time.sleep(1.2)
        assert ann.execute("select 1").fetchone() == (1,)
        cursor.execute("select 1")
        file.chmod(0o600)
        file.write_text(good)
        here.connect("bob", "two").close()


# What unknown users are shown


def test_what_an_unknown_user_is_shown_stays_when_the_server_is_started_again(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    Users(path).add("ann", "secret")
    salts = {name: [Users(path).presented(name).salt for _ in range(2)] for name in ("ann", "bob", "eve")}
    assert all(first == second for first, second in salts.values())
    assert len({first for first, _ in salts.values()}) == 3
    kept = path.with_suffix(".secret")
    assert oct(kept.stat().st_mode & 0o777) == "0o600"
    Users(path).add("eve", "secret")
    assert Users(path).presented("bob").salt == salts["bob"][0]
    kept.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        Users(path).presented("bob")


def test_an_unknown_user_looks_like_most_others(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    users = Users(path)
    users.add("ann", "secret")
    known = [Verifier.of("x", salt=os.urandom(20), iterations=15_000) for _ in range(3)]
    shown = scram.nobody("bob", b"secret", known)
    assert (shown.iterations, len(shown.salt)) == (15_000, 20)
    assert scram.nobody("bob", b"secret").iterations == users.presented("bob").iterations == scram.ITERATIONS
    assert len(scram.nobody("bob", b"secret", [Verifier.of("x", salt=bytes(100))]).salt) == 100
    assert not users.presented("bob").fits("secret")
