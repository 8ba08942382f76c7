"""Clients that keep the server waiting, that are too many, or that speak no HTTP."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from mere.lake.lake import Lake
from mere.serve.http import connection
from tests.serve.iceberg.conftest import lake  # noqa: F401 a fixture
from tests.serve.iceberg.rest import Rest, serving

LARGE = "GET /iceberg/v1/main/namespaces/gold/tables/orders HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def rest(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rest]:  # noqa: F811
    monkeypatch.setattr(connection, "HEAD", 0.4)
    monkeypatch.setattr(connection, "STALLED", 0.4)
    monkeypatch.setattr(connection, "MOST", 20)
    with serving(lake) as running:
        yield running


def connected(rest: Rest) -> socket.socket:
    return socket.create_connection(("127.0.0.1", rest.port), timeout=10)


def answer(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_a_request_that_does_not_come_is_not_waited_for(rest: Rest) -> None:
    with connected(rest) as silent, connected(rest) as slow:
        began = time.monotonic()
        with pytest.raises(OSError):  # noqa: PT012 it is closed at one of these
            for each in b"GET /iceberg/v1/config HTTP/1.1\r\nX-Long: " + b"x" * 100:
                slow.sendall(bytes([each]))
                time.sleep(0.05)
        assert answer(silent) == b""
        assert time.monotonic() - began < 5
    assert rest.get("config").status_code == 200


def test_who_asks_again_has_time_again(rest: Rest) -> None:
    with closing(HTTPConnection("127.0.0.1", rest.port)) as client:
        for _ in range(3):
            client.request("GET", "/iceberg/v1/config")
            assert client.getresponse().read().endswith(b"}")
            time.sleep(0.5)  # no longer than connections are kept


def test_an_answer_that_nobody_takes_is_thrown_away(rest: Rest, lake: Lake) -> None:  # noqa: F811
    table = lake.pyiceberg("dev").load_table("gold.orders")
    table.transaction().set_properties({"long": "x" * 7_000_000}).commit_transaction()
    with connected(rest) as client:
        client.sendall(LARGE.replace("main", "dev").encode())
        until = time.monotonic() + 10
        with pytest.raises(OSError):  # noqa: PT012 the server has hung up
            while time.monotonic() < until:
                time.sleep(0.1)
                client.sendall(b"\r\n")
    assert rest.get("config").status_code == 200


def test_there_is_room_for_so_many_and_others_are_told(rest: Rest) -> None:
    rest.session.close()
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(rest)) for _ in range(20)]
        with connected(rest) as one_more:
            told = answer(one_more)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b'"type":"ServiceUnavailableException"' in told
        clients[0].sendall(b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer(clients[0]).startswith(b"HTTP/1.1 200 ")
    time.sleep(0.2)
    assert rest.get("config").status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /iceberg/v1/main/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST /iceberg/v1/main/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /iceberg/v1/main/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /iceberg/v1/config HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_in_the_form_of_the_catalog(rest: Rest, sent: bytes) -> None:
    with connected(rest) as client:
        client.sendall(sent)
        told = answer(client)
    assert told.startswith(b"HTTP/1.1 4")
    assert b'{"error":{"message":' in told
    assert rest.get("config").status_code == 200


def test_a_request_that_hides_in_another_is_none(rest: Rest) -> None:
    """With two lengths, what one reader takes for the rest of a body is another request for the next."""
    hidden = b"DELETE /iceberg/v1/dev/namespaces/gold/tables/orders HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /iceberg/v1/main/namespaces/gold/tables/orders/metrics HTTP/1.1\r\nHost: localhost\r\n"
    with connected(rest) as client:
        client.sendall(head + f"Content-Length: {len(hidden) + 5}\r\n".encode())
        client.sendall(b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden)
        client.shutdown(socket.SHUT_WR)
        answer(client)
    found = [each for each in rest.told() if each["method"] == "DELETE"]
    assert found == [] or found[0]["status"] != 204
