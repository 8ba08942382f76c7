"""A server in a thread of this process, for clients that are tried on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mere.serve.postgres.server import Server, Settings
from mere.serve.postgres.startup import Policy
from mere.serve.protocol.port import Backend
from mere.serve.session.endpoint import Endpoint
from mere.serve.session.log import Log


class Served:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = 0
        self.monitor: int | None = None
        self.loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="served")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.port, self.monitor = self.loop.run_until_complete(self.server.start())
        self._started.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(20)

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def stop(self) -> None:
        self.call(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def dsn(self, database: str = "main", **more: object) -> str:
        rest = "".join(f" {name}={value}" for name, value in more.items())
        return f"host=127.0.0.1 port={self.port} dbname={database} user=ann" + rest


@contextmanager
def served(
    backend: Backend,
    policy: Policy | None = None,
    log: Log | None = None,
    beside: Sequence[Endpoint] = (),
    **settings: Any,
) -> Iterator[Served]:
    found = Served(Server(backend, policy or Policy(), Settings(**settings), log or Log(None), beside=beside))
    found.start()
    try:
        yield found
    finally:
        found.stop()


def eventually(met: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
