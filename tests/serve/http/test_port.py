"""The port itself, under whatever application."""

from __future__ import annotations

import time
from http.client import HTTPConnection

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp

from mere.errors import ConfigError
from mere.serve.http.port import Port

APP: ASGIApp = Response(b"x" * 10)


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_head() -> None:
    """Which each would do for 40 ms."""
    port = Port(APP)
    port.start()
    seconds = []
    try:
        connection = HTTPConnection("127.0.0.1", port.number)
        for _ in range(30):
            begun = time.perf_counter()
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"x" * 10
            seconds.append(time.perf_counter() - begun)
        connection.close()
    finally:
        port.stop(1)
    assert min(seconds[10:]) < 0.03, "the first few are confirmed at once anyway"


def test_a_port_that_is_taken_is_told() -> None:
    one = Port(APP)
    one.start()
    try:
        with pytest.raises(ConfigError, match=f"Cannot listen on 127.0.0.1:{one.number}"):
            Port(APP, number=one.number).start()
    finally:
        one.stop(1)
