"""SCRAM-SHA-256 by the numbers of its RFC, the file of users, and logins over the wire."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import trustme

from mere.errors import ConfigError, UsageError
from mere.serve.access import scram, tls
from mere.serve.access.scram import BOUND, PLAIN, Exchange, Refused, Verifier
from mere.serve.access.users import Users
from mere.serve.postgres.startup import Policy
from tests.serve.plain import PlainBackend
from tests.serve.served import Served, served

# RFC 7677, section 3
RFC_PASSWORD = "pencil"
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(mechanism: str = PLAIN, binding: bytes | None = None) -> Exchange:
    return Exchange(Verifier.of(RFC_PASSWORD, salt=RFC_SALT), mechanism, binding, RFC_NONCE)


def test_the_example_of_the_rfc() -> None:
    server = exchange()
    assert server.first(RFC_FIRST) == RFC_SERVER_FIRST
    assert server.final(RFC_FINAL) == RFC_SERVER_FINAL


@pytest.mark.parametrize(
    "final",
    [
        RFC_FINAL.replace(b"p=d", b"p=e"),
        RFC_FINAL.replace(b"c=biws", b"c=eSws"),
        RFC_FINAL.replace(b"r=rOpr", b"r=rOpx"),
        RFC_FINAL.replace(b"p=dHzb", b"p=HzbZ"),
        RFC_FINAL.partition(b",p=")[0],
        RFC_FINAL[:-8],
        b"",
        b"\xff\xfe",
        b"c=biws,r=x,p=" + b"A" * 900,
    ],
)
def test_any_other_final_message_is_refused(final: bytes) -> None:
    server = exchange()
    server.first(RFC_FIRST)
    with pytest.raises(Refused):
        server.final(final)


def test_what_was_heard_of_another_login_does_not_let_in() -> None:
    """Its proof is right for the nonce of that login."""
    said = b",".join([RFC_FIRST[3:], RFC_SERVER_FIRST, RFC_FINAL.partition(b",p=")[0]])
    server = exchange()
    server.first(RFC_FIRST)
    replayed = said.rpartition(b",r=")[0] + b",r=rOprNGfwEbeRWgbNEkqOold"
    salted = hashlib.pbkdf2_hmac("sha256", RFC_PASSWORD.encode(), RFC_SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), replayed, "sha256")
    proof = base64.b64encode(bytes(left ^ right for left, right in zip(key, signature, strict=True)))
    with pytest.raises(Refused, match="nonce"):
        server.final(b"c=biws,r=rOprNGfwEbeRWgbNEkqOold,p=" + proof)


@pytest.mark.parametrize(
    ("mechanism", "binding", "first"),
    [
        (PLAIN, None, b"p=tls-server-end-point,,n=,r=abc"),
        (PLAIN, b"hash", b"y,,n=,r=abc"),  # somebody took the offer of a binding away
        (BOUND, b"hash", b"n,,n=,r=abc"),
        (BOUND, b"hash", b"p=tls-unique,,n=,r=abc"),
        (PLAIN, None, b"n,,n=,r="),
        (PLAIN, None, b"n,,m=ext,n=,r=abc"),
        (PLAIN, None, b""),
        (PLAIN, None, b"\xff"),
    ],
)
def test_a_first_message_that_does_not_fit_is_refused(mechanism: str, binding: bytes | None, first: bytes) -> None:
    with pytest.raises(Refused):
        exchange(mechanism, binding).first(first)


def test_a_final_message_without_a_first_is_refused() -> None:
    with pytest.raises(Refused):
        exchange().final(RFC_FINAL)


def test_a_verifier_is_spelled_as_postgres_does(postgres_server: object) -> None:
    from tests.services.postgres import Postgres

    assert isinstance(postgres_server, Postgres)
    with psycopg.connect(postgres_server.url()) as connection:
        connection.execute("CREATE ROLE scram_ann LOGIN PASSWORD 'pässword'")
        row = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'scram_ann'").fetchone()
        connection.rollback()
    assert row
    theirs = Verifier.read(row[0])
    assert Verifier.of("pässword", salt=theirs.salt, iterations=theirs.iterations) == theirs
    assert str(theirs) == row[0]


@pytest.mark.parametrize(
    ("password", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("\u0007", "\u0007"),  # forbidden, so as it is
        ("\u0627\u0031", "\u0627\u0031"),  # as this
    ],
)
def test_passwords_are_prepared_as_rfc_4013_says(password: str, prepared: str) -> None:
    assert scram.prepared(password) == prepared


# Users


@pytest.fixture
def users(tmp_path: Path) -> Users:
    found = Users(tmp_path / "users.json")
    found.add("ann", "s3cret")
    return found


def test_the_file_is_its_owners_alone_and_has_no_password(users: Users) -> None:
    assert users.path.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in users.path.read_text()
    users.path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        Users(users.path).verifier("ann")


def test_a_change_is_seen_by_who_has_read_before(users: Users) -> None:
    other = Users(users.path)
    assert users.names() == ["ann"]
    assert other.add("bob", "x")
    assert not other.add("ann", "another")
    assert users.names() == ["ann", "bob"]
    assert other.remove("bob")
    assert not other.remove("bob")
    assert users.names() == ["ann"]


def test_users_that_are_added_at_once_are_all_there(users: Users) -> None:
    threads = [threading.Thread(target=Users(users.path).add, args=(f"u{each}", "x")) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(users.names()) == 9


@pytest.mark.parametrize("name", ["", "-ann", "a\nb", "x" * 64])
def test_a_name_that_cannot_be_one_is_refused(users: Users, name: str) -> None:
    with pytest.raises(UsageError):
        users.add(name, "x")


def test_an_empty_password_is_refused(users: Users) -> None:
    with pytest.raises(UsageError):
        users.add("bob", "")


@pytest.mark.parametrize("content", ["{", "[]", '{"ann": 1}', '{"ann": "SCRAM-SHA-256$0:x$y:z"}'])
def test_a_broken_file_is_an_error_with_a_remedy(users: Users, content: str) -> None:
    users.path.write_text(content)
    with pytest.raises(ConfigError, match="mere user add"):
        Users(users.path).names()


# Logins


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> tuple[Path, Path, Path]:
    """The authority's certificate, the server's, and its key."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    root, certificate, key = tmp_path / "root.pem", tmp_path / "server.pem", tmp_path / "server.key"
    authority.cert_pem.write_to_path(str(root))
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    issued.private_key_pem.write_to_path(str(key))
    key.chmod(0o600)
    return root, certificate, key


@pytest.fixture
def with_tls(users: Users, files: tuple[Path, Path, Path]) -> Iterator[Served]:
    context, binding = tls.context(files[1], files[2])
    with served(PlainBackend(), Policy(users, context, binding)) as found:
        yield found


def test_the_right_password_is_let_in(users: Users) -> None:
    with served(PlainBackend(), Policy(users)) as found:
        with psycopg.connect(found.dsn(password="s3cret")) as connection:
            assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("more", [{"password": "wrong"}, {"user": "nobody", "password": "s3cret"}])
def test_a_wrong_password_and_an_unknown_user_look_alike(users: Users, more: dict[str, str]) -> None:
    with served(PlainBackend(), Policy(users)) as found:
        with pytest.raises(psycopg.OperationalError, match=r'password authentication failed for user "\w+"'):
            psycopg.connect(found.dsn(**more))
        assert found.server.metrics.refused == {"28P01": 1}


def test_tls_with_a_bound_channel(with_tls: Served, files: tuple[Path, Path, Path]) -> None:
    dsn = with_tls.dsn(password="s3cret", sslmode="verify-full", sslrootcert=files[0], channel_binding="require")
    with psycopg.connect(dsn) as connection:
        assert connection.pgconn.ssl_in_use
        rows = connection.execute("select i, repeat('x', 1000) from range(20000) t(i)").fetchall()
    assert len(rows) == 20000
    assert rows[-1] == (19999, "x" * 1000)


def test_plain_connections_are_possible_beside_tls_from_this_machine(with_tls: Served) -> None:
    with psycopg.connect(with_tls.dsn(password="s3cret", sslmode="disable")) as connection:
        assert not connection.pgconn.ssl_in_use


def test_who_asks_for_tls_where_there_is_none_is_told(users: Users) -> None:
    with served(PlainBackend(), Policy(users)) as found:
        with pytest.raises(psycopg.OperationalError, match="server does not support SSL"):
            psycopg.connect(found.dsn(password="s3cret", sslmode="require"))


def test_bytes_before_the_encryption_are_not_taken_for_what_comes_after(with_tls: Served) -> None:
    import socket
    import struct

    with socket.create_connection(("127.0.0.1", with_tls.port)) as client:
        client.sendall(struct.pack("!ii", 8, 80877103) + b"\x16injected")
        answer = client.recv(1000)
        while more := client.recv(1000):
            answer += more
    assert b"unencrypted data" in answer
    assert not answer.startswith(b"S")


def test_the_hash_of_a_certificate_is_that_of_its_signature(files: tuple[Path, Path, Path]) -> None:
    der = ssl.PEM_cert_to_DER_cert(files[1].read_text())
    assert scram.certificate_hash(der) == hashlib.sha256(der).digest()


def test_a_key_that_anybody_can_read_and_one_that_does_not_fit_are_refused(
    files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.key"
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(str(other))
    other.chmod(0o600)
    with pytest.raises(ConfigError, match="belong together"):
        tls.context(files[1], other)
    files[2].chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        tls.context(files[1], files[2])
