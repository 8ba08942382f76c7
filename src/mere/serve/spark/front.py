"""A front: a Spark Connect server for other clients, in a thread of its own. Implements `engine.front.Front`."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import grpc

from mere.config import default_author
from mere.engine.front import Backend, Terms
from mere.errors import ConfigError
from mere.serve.access import tls
from mere.serve.access.tokens import Tokens
from mere.serve.session.monitor import Monitor
from mere.serve.spark.admission import Admission
from mere.serve.spark.catalogs import Catalogs
from mere.serve.spark.passing import Passing
from mere.serve.spark.sessions import Sessions
from mere.sparkconfig import RestSettings

# Spark's own server says how long a message may be.
_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))
_QUIET = 1.0  # seconds in which nothing runs: a client may be about to ask for the rest of its rows
_POLL = 0.05
_LAST_WORDS = 2.0


class SparkFront:
    def __init__(self, backend: Backend, terms: Terms, catalogs: Catalogs) -> None:
        self._backend = backend
        self._terms = terms
        self._catalogs = catalogs
        self._sessions = Sessions()
        tokens = Tokens(Path(terms.tokens)) if terms.tokens else None
        self._admission = Admission(tokens, terms.secret)
        self._credentials = _credentials(terms)
        self.url = ""
        self.monitor: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._passing: Passing | None = None
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="mere-front", daemon=True)

    def start(self) -> SparkFront:
        _require_free(self._terms.host, self._terms.port)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    @property
    def used(self) -> float:
        return time.monotonic() if self.running else self._sessions.used

    @property
    def sessions(self) -> list[tuple[str, str]]:
        return self._sessions.open()

    @property
    def running(self) -> int:
        return self._sessions.running

    def drain(self, over: Callable[[], bool]) -> None:
        if self._passing is not None:
            self._passing.ending = True
        quiet = time.monotonic()
        while not over() and time.monotonic() - quiet < _QUIET:
            if self.running:
                quiet = time.monotonic()
            time.sleep(_POLL)

    def close(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it may have ended
                self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(2 * _LAST_WORDS)
        self._catalogs.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 raised in the thread that waits
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        local = grpc.local_channel_credentials()
        own = grpc.composite_channel_credentials(local, grpc.access_token_call_credentials(self._backend.token))
        async with grpc.aio.secure_channel(self._backend.address, own, options=_OPTIONS) as channel:
            self._passing = Passing(channel, self._admission, self._catalogs, self._sessions)
            server = grpc.aio.server(options=_OPTIONS)
            server.add_generic_rpc_handlers((self._passing,))
            port = self._listen(server)
            await server.start()
            self.url = _url(self._terms, port)
            monitor = await self._monitored()
            self._ready.set()
            await self._over.wait()
            if monitor is not None:
                monitor.stop()
            await server.stop(_LAST_WORDS)

    def _listen(self, server: Any) -> int:
        host = f"[{self._terms.host}]" if ":" in self._terms.host else self._terms.host
        address = f"{host}:{self._terms.port}"
        if self._credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, self._credentials))

    async def _monitored(self) -> Monitor | None:
        if self._terms.monitor_port is None:
            return None
        monitor = Monitor({"/health": self._health, "/metrics": self._metrics})
        try:
            port = await monitor.start(self._terms.host, self._terms.monitor_port)
        except OSError as error:
            raise _taken(self._terms.host, self._terms.monitor_port, error, "--monitor-port 0") from error
        self.monitor = f"http://{_shown(self._terms.host)}:{port}/metrics"
        return monitor

    def _health(self) -> tuple[int, str]:
        ending = self._passing is not None and self._passing.ending
        return (503, "ending\n") if ending else (200, "ok\n")

    def _metrics(self) -> tuple[int, str]:
        return 200, self._sessions.page(self._backend.gauges())


def opened(backend: Backend, terms: Terms) -> SparkFront:
    """On the lake that the terms name, or that of this folder's project."""
    from mere import config
    from mere.api.place import lake_address

    file = None if terms.lake else config.find_project(Path.cwd())
    settings = config.load(file, terms.profile).spark.rest if file else None
    catalogs = Catalogs(lake_address(terms.profile, terms.lake).open(), settings or RestSettings(), default_author())
    try:
        return SparkFront(backend, terms, catalogs).start()
    except BaseException:
        catalogs.close()
        raise


def _credentials(terms: Terms) -> Any:
    if terms.certificate is None or terms.key is None:
        return None
    certificate, key = Path(terms.certificate), Path(terms.key)
    tls.context(certificate, key)  # which says in words what is wrong with them
    return grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])


def _require_free(host: str, port: int) -> None:
    """gRPC would only say that no address could be used."""
    if port == 0:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family)) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise _taken(host, port, error, "--port 0") from error


def _taken(host: str, port: int, error: OSError, other: str) -> ConfigError:
    return ConfigError(
        f"Cannot listen on {host}:{port}: {error.strerror or error}.",
        remedy=f"Choose another port: mere engine start --shared {other}",
    )


def _shown(host: str) -> str:
    """As a client on this machine writes it."""
    host = {"0.0.0.0": "localhost", "::": "localhost", "127.0.0.1": "localhost", "::1": "localhost"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _url(terms: Terms, port: int) -> str:
    """pyspark speaks no TLS to `localhost`, and plain text to nobody else."""
    if terms.certificate is None:
        return f"sc://{_shown(terms.host)}:{port}"
    host = socket.getfqdn() if terms.host in ("0.0.0.0", "::") else terms.host
    return f"sc://{f'[{host}]' if ':' in host else host}:{port}/;use_ssl=true"
