"""Who is let in over HTTP, what of a request is taken, and what the log says of it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from mere.lake.lake import Lake
from mere.serve.access.users import Users
from mere.serve.http import body
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, serving

METRICS = "main/namespaces/gold/tables/orders/metrics"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


@pytest.fixture
def rest(lake: Lake) -> Iterator[Rest]:
    with serving(lake) as running:
        yield running


def test_users_are_let_in_by_their_passwords(lake: Lake, tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json")
    users.add("ann", "secret")
    with serving(lake, users) as rest:
        without = rest.get("config")
        assert error(without)[:2] == (401, "NotAuthorizedException")
        assert without.headers["WWW-Authenticate"] == 'Bearer realm="mere", Basic realm="mere"'
        assert rest.get("config", auth=("ann", "secret")).status_code == 200
        assert error(rest.get("config", auth=("ann", "wrong")))[0] == 401
        again = rest.get("config", auth=("ann", "secret"))
        assert (error(again)[0], again.headers["Retry-After"]) == (429, "1")  # whoever guesses waits
        time.sleep(1.1)
        assert rest.get("config", auth=("ann", "secret")).status_code == 200
        users.remove("ann")
        time.sleep(0.2)
        assert error(rest.get("config", auth=("ann", "secret")))[0] == 401
        assert error(rest.get("config", headers={"Authorization": "Bearer x"}))[0] in (401, 429)


def test_nobody_is_let_in_while_the_users_are_not_known(lake: Lake, tmp_path: Path) -> None:
    users = Users(tmp_path / "users.json")
    users.add("ann", "secret")
    with serving(lake, users) as rest:
        (tmp_path / "users.json").write_text("{")
        time.sleep(0.2)
        answer = rest.get("config", auth=("ann", "secret"))
        assert (error(answer)[0], answer.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}, {"Host": "evil:8181"}]
)
def test_a_page_of_the_web_is_nobody_on_this_machine(rest: Rest, headers: dict[str, str]) -> None:
    assert error(rest.get("config", headers=headers))[:2] == (403, "ForbiddenException")


def test_a_page_of_this_server_may_ask(rest: Rest) -> None:
    assert rest.get("config", headers={"Origin": f"http://127.0.0.1:{rest.port}"}).status_code == 200


def test_every_request_is_in_the_log_under_its_id(rest: Rest) -> None:
    made = rest.get("dev/namespaces").headers["X-Request-Id"]
    given = rest.get("main/namespaces/gold/tables/orders", headers={"X-Request-Id": "mine-1"}, auth=("ann", ""))
    assert given.headers["X-Request-Id"] == "mine-1"
    rest.get("config", headers={"X-Request-Id": "a b\tc"})
    told = rest.told()
    assert [(each["request"], each["status"]) for each in told[:2]] == [(made, 404), ("mine-1", 200)]
    assert told[1]["user"] == "ann"
    assert (told[1]["ref"], told[1]["table"]) == ("main", "gold.orders")
    assert " " not in told[2]["request"]


@pytest.mark.parametrize("sent", [b"", b"[1]", b"{", b'"x"', b"\xff\xfe", b"{" * 100_000, b'{"a":' * 5000])
def test_a_body_that_is_no_object_is_refused(rest: Rest, sent: bytes) -> None:
    assert error(rest.ask("POST", METRICS, data=sent))[0] == 400
    assert rest.get("config").status_code == 200


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "nested more than"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested more than"),
        (b'{"a":[' + b"[]," * 500_001 + b"[]]}", "more than a million values"),
        (b'{"a":[' + b"1," * 1_000_001 + b"1]}", "more than a million values"),
    ],
)
def test_a_body_that_would_become_too_much_is_refused(rest: Rest, sent: bytes, said: str) -> None:
    status, _, message = error(rest.ask("POST", METRICS, data=sent))
    assert (status, said in message) == (400, True)


def test_bodies_have_so_much_room_together(rest: Rest, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "TOGETHER", 3 << 20)
    large = {"report-type": "x" * (2 << 20)}
    with serving(lake) as running, socket.create_connection(("127.0.0.1", running.port)) as client:
        assert running.post(METRICS, large).status_code == 204
        client.sendall(_head({"Content-Length": str(3 << 20)}) + b" " * (2 << 20))
        time.sleep(0.5)
        busy = running.post(METRICS, large)
        assert (error(busy)[0], busy.headers["Retry-After"]) == (503, "1")
        client.close()
        time.sleep(0.5)
        for _ in range(3):
            assert running.post(METRICS, large).status_code == 204


def test_what_a_client_sends_does_not_come_back_at_length(rest: Rest, lake: Lake) -> None:
    lake.branch("dev")
    name = "x" * 1_000_000
    schema = {"type": "struct", "fields": []}
    for path, asked in (
        ("dev/namespaces/gold/tables", {"name": name, "schema": schema}),
        ("dev/namespaces/gold/tables", {"name": "x" * 250, "schema": schema}),
        ("dev/namespaces", {"namespace": [name]}),
        ("dev/namespaces", {"namespace": ["ä" * 150]}),
        ("dev/namespaces", {"namespace": ["new"], "properties": {name: "x"}}),
        ("dev/namespaces/gold/register", {"name": "r", "metadata-location": name}),
        ("dev/tables/rename", {"source": _named("orders"), "destination": _named(name)}),
        ("dev/tables/rename", {"source": _named(name), "destination": _named("x")}),
        ("dev/namespaces/gold/tables/orders", {"updates": [{"action": name}]}),
        ("dev/namespaces/gold/tables/orders", {"updates": [{"action": "set-location", "location": name}]}),
        ("dev/namespaces/gold/tables/orders", {"updates": [], "requirements": [{"type": name}]}),
    ):
        answer = rest.post(path, asked)
        assert 400 <= answer.status_code < 500, path
        assert len(answer.content) < 10_000, path
    assert rest.get("main~" + "9" * 10_000 + "/namespaces").status_code == 404
    assert all(len(str(each)) < 10_000 for each in rest.told())


def _named(name: str) -> dict[str, object]:
    return {"namespace": ["gold"], "name": name}


def test_a_body_that_is_too_large_is_not_taken(rest: Rest) -> None:
    large = {"Content-Length": str(body.LARGEST + 1)}
    with socket.create_connection(("127.0.0.1", rest.port)) as client:
        client.sendall(_head(large))
        assert client.recv(1000).startswith(b"HTTP/1.1 413 ")

    def parts() -> Iterator[bytes]:
        for _ in range((body.LARGEST >> 20) + 2):
            yield b" " * (1 << 20)

    try:
        status = rest.ask("POST", METRICS, data=parts()).status_code
    except requests.ConnectionError:  # the server hung up while it was sent
        status = 413
    assert status == 413
    assert rest.get("config").status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", rest.port)) as client:
        client.sendall(_head({"Content-Length": "100"}) + b"{")
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")
    with socket.create_connection(("127.0.0.1", rest.port)) as client:
        client.sendall(_head({"Content-Length": "100"}) + b"{")
    assert rest.get("config").status_code == 200


def _head(headers: dict[str, str]) -> bytes:
    lines = [f"POST /iceberg/v1/{METRICS} HTTP/1.1", "Host: localhost", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()
