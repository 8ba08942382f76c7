"""Proxies, certificates, and who is told a secret: what `test_rest` and `test_listing` do not meet."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from mere.sources.web.http import Client, Failure

AUTHORITY = trustme.CA()


@dataclass
class Seen:
    """A server that answers `ok`, is a proxy to itself, and remembers what it was asked."""

    port: int = 0
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    moves: dict[str, tuple[int, str]] = field(default_factory=dict)
    tls: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    @property
    def paths(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.asked]


@pytest.fixture
def server() -> Iterator[Seen]:
    seen = Seen()
    AUTHORITY.issue_cert("shop.test", "127.0.0.1").configure_cert(seen.tls)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            seen.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer()

        def do_CONNECT(self) -> None:
            seen.asked.append((self.command, self.path, dict(self.headers)))
            self.send_response(200)
            self.end_headers()
            inside = seen.tls.wrap_socket(self.connection, server_side=True)
            self.connection, self.rfile, self.wfile = inside, inside.makefile("rb"), inside.makefile("wb")
            self.handle_one_request()
            inside.close()

        def _answer(self) -> None:
            seen.asked.append((self.command, self.path, dict(self.headers)))
            status, target = seen.moves.get(self.path, (200, ""))
            self.send_response(status)
            if target:
                self.send_header("Location", target)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    seen.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield seen
    listening.shutdown()
    listening.server_close()
    thread.join()


@pytest.fixture
def client() -> Iterator[Client]:
    with closing(Client(5.0)) as client:
        yield client


def read(client: Client, url: str, **headers: str) -> bytes:
    with client.ask("GET", url, {}, headers) as answer:
        return answer.read()


@pytest.fixture
def proxied(server: Seen, monkeypatch: pytest.MonkeyPatch) -> Seen:
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", f"http://me:pa%20ss@127.0.0.1:{server.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    return server


ME = f"Basic {base64.b64encode(b'me:pa ss').decode()}"


def test_a_proxy_is_asked_for_the_whole_address_and_told_who_asks(proxied: Seen, client: Client) -> None:
    assert read(client, "http://shop.test/a b?key=1#part") == b"ok"
    ((method, path, headers),) = proxied.asked
    assert (method, path) == ("GET", "http://shop.test/a%20b?key=1")
    assert (headers["Host"], headers["Proxy-Authorization"]) == ("shop.test", ME)


def test_what_is_near_is_asked_without_the_proxy(
    proxied: Seen, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert read(client, f"http://127.0.0.1:{proxied.port}/x") == b"ok"
    ((_, path, headers),) = proxied.asked
    assert path == "/x"
    assert "Proxy-Authorization" not in headers


def test_a_proxy_sees_nothing_of_what_goes_by_tls(
    proxied: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert read(client, "https://shop.test/x", Authorization="secret") == b"ok"
    (tunnel, inside) = proxied.asked
    assert tunnel[:2] == ("CONNECT", "shop.test:443")
    assert tunnel[2]["Proxy-Authorization"] == ME
    assert "Authorization" not in tunnel[2]
    assert inside[:2] == ("GET", "/x")
    assert inside[2]["Authorization"] == "secret"
    assert "Proxy-Authorization" not in inside[2]


def test_a_certificate_that_nobody_vouches_for_is_no_reason_to_ask_again(proxied: Seen, client: Client) -> None:
    with pytest.raises(Failure, match="its certificate is not trusted") as raised:
        read(client, "https://shop.test/x?secret")
    assert raised.value.untrusted
    assert not raised.value.passing
    assert raised.value.__cause__ is None
    assert [method for method, _, _ in proxied.asked] == ["CONNECT"]


def test_a_server_without_tls_is_said_so(server: Seen, client: Client) -> None:
    with pytest.raises(Failure, match="it does not offer TLS"):
        read(client, f"https://127.0.0.1:{server.port}/x")


def test_a_proxy_where_nobody_listens_is_said_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{port}")
    with pytest.raises(Failure, match="nobody listens there"):
        read(client, "http://shop.test/x")


def test_a_user_in_an_address_is_not_sent_by_itself(server: Seen, client: Client) -> None:
    assert read(client, f"http://me:secret@127.0.0.1:{server.port}/x") == b"ok"
    ((_, path, headers),) = server.asked
    assert (path, headers["Host"]) == ("/x", f"127.0.0.1:{server.port}")
    assert "Authorization" not in headers


@pytest.mark.parametrize(("status", "answers", "then"), [(303, 200, ["GET /there"]), (307, 307, [])])
def test_what_is_posted_is_posted_to_one_address(
    server: Seen, client: Client, status: int, answers: int, then: list[str]
) -> None:
    server.moves["/here"] = (status, "/there")
    with client.ask("POST", f"http://127.0.0.1:{server.port}/here", {}, body=b"{}") as answer:
        assert answer.status == answers
    assert server.paths == ["POST /here", *then]
    assert server.bodies == [b"{}"]
