"""The server: it listens, lets clients in, and ends in good order."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from mere.serve.gateway import encode, startup, wire
from mere.serve.gateway.audit import Log
from mere.serve.gateway.beside import Endpoint, Shared
from mere.serve.gateway.connection import SHUT_DOWN, Connection, told
from mere.serve.gateway.link import Gone, Link
from mere.serve.gateway.metrics import Metrics
from mere.serve.gateway.monitor import Monitor
from mere.serve.gateway.pool import Pool
from mere.serve.gateway.port import Backend, PgError, Session
from mere.serve.gateway.startup import Cancel, Client, Policy

_LOG = logging.getLogger(__name__)
_BACKLOG = 1024
_LAST_WORDS = 10.0  # seconds for a client to take the last that it is sent


@dataclass(frozen=True)
class Settings:
    host: str = "127.0.0.1"
    port: int = 0
    workers: int = 4
    max_connections: int = 1000
    login_seconds: float = 30.0  # for the start-up and the password
    idle_seconds: float | None = None
    grace_seconds: float = 10.0  # for what runs when the server is told to end
    monitor_port: int | None = None


@dataclass
class Server:
    """`start`, then `stop`; or `run`, which waits for a signal in between."""

    backend: Backend
    policy: Policy
    settings: Settings = field(default_factory=Settings)
    log: Log = field(default_factory=lambda: Log(None))
    metrics: Metrics = field(default_factory=Metrics)
    beside: Sequence[Endpoint] = ()  # other ways in

    def __post_init__(self) -> None:
        self._pool = Pool(self.settings.workers)
        self._monitor = Monitor({"/health": self._health, "/metrics": self._told})
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[Link] = set()
        self._connections: dict[int, tuple[int, Connection]] = {}  # by process: its secret
        self._processes = count(secrets.randbelow(1 << 20) + 1000)
        self._stopping = False

    # From start to stop

    async def start(self) -> tuple[int, int | None]:
        """The ports: of the server, and of the monitor if there is one."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Link(self._accept), self.settings.host, self.settings.port, backlog=_BACKLOG, reuse_address=True
        )
        port = int(self._listener.sockets[0].getsockname()[1])
        self._pool.start(encode.warm_up)
        shared = Shared(loop, self._pool, self.log, self.metrics, self.settings.max_connections)
        for each in self.beside:
            each.start(shared)
        if self.settings.monitor_port is None:
            return port, None
        return port, await self._monitor.start(self.settings.host, self.settings.monitor_port)

    async def run(self, started: Callable[[int, int | None], None]) -> None:
        """Up to SIGTERM or SIGINT. What runs then has some seconds to end; a second signal ends it at once."""
        told_to = asyncio.Queue[int]()
        with _signals(told_to.put_nowait):
            started(*await self.start())
            await told_to.get()
            stopping = asyncio.ensure_future(self.stop())
            impatient = asyncio.ensure_future(told_to.get())
            await asyncio.wait([stopping, impatient], return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                self._cut()
            impatient.cancel()
            await stopping

    async def stop(self) -> None:
        """Nobody new; idle clients are told and hung up on; what runs may end."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        for _, connection in list(self._connections.values()):
            connection.shut_down()
        others = [asyncio.ensure_future(each.stop(self.settings.grace_seconds)) for each in self.beside]
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.settings.grace_seconds)
        self._cut_clients()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.gather(*others)
        self._monitor.stop()
        self._pool.close()

    def _cut(self) -> None:
        self._cut_clients()
        for each in self.beside:
            each.cut()

    def _cut_clients(self) -> None:
        cuts = [link.abort for link in self._links]
        cuts += [connection.cancel for _, connection in self._connections.values()]
        for cut in cuts:
            try:
                cut()
            except Exception:  # noqa: BLE001 the others are still to be cut
                _LOG.exception("a client could not be cut off")

    # A client

    def _accept(self, link: Link) -> None:
        task = asyncio.ensure_future(self._serve(link))
        self._tasks.add(task)
        self._links.add(link)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: Link) -> None:
        self.metrics.accepted += 1
        self.metrics.connections += 1
        if self.metrics.connections > 2 * self.settings.max_connections:
            link.abort()  # more than can be told that they are too many
        try:
            await self._talk(link)
        except Gone:
            pass
        except Exception as error:  # noqa: BLE001 one client's trouble is nobody else's
            caught = told(error)
            self.metrics.refused[caught.sqlstate] += 1
            link.say(wire.error(caught, "FATAL"))
        finally:
            self.metrics.connections -= 1
            self._links.discard(link)
            link.close()
            # One that takes nothing any more is not waited for.
            asyncio.get_running_loop().call_later(_LAST_WORDS, link.abort)

    async def _talk(self, link: Link) -> None:
        link.keep_alive()
        client = await self._let_in(link)
        if client is None:
            return
        session = await self._pool.run(
            lambda: self.backend.connect(client.user, client.database, client.settings, client.process)
        )
        try:
            await self._converse(link, replace(client, database=session.database), session)
        finally:
            session.close()

    async def _let_in(self, link: Link) -> Client | None:
        try:
            async with asyncio.timeout(self.settings.login_seconds):
                asked = await startup.begin(link, self.policy, self.settings.login_seconds)
        except TimeoutError:
            raise PgError("08006", "canceling authentication due to timeout") from None
        if isinstance(asked, Cancel):
            self._cancel(asked)
            return None
        if self._stopping:
            raise PgError("57P03", "the database system is shutting down")
        if self.metrics.connections > self.settings.max_connections:
            raise PgError("53300", "sorry, too many clients already")
        return replace(asked, process=next(self._processes) & 0x7FFFFFFF, secret=secrets.randbits(32))

    async def _converse(self, link: Link, client: Client, session: Session) -> None:
        connection = Connection(link, client, session, self._pool, self.log, self.metrics, self.settings.idle_seconds)
        self._connections[client.process] = (client.secret, connection)
        self.backend.activity.enter(connection.seat)
        try:
            if self._stopping:
                raise SHUT_DOWN
            await connection.serve()
        finally:
            self.backend.activity.leave(connection.seat)
            del self._connections[client.process]

    def _cancel(self, asked: Cancel) -> None:
        """Nobody is told whether there was anything to cancel."""
        secret, connection = self._connections.get(asked.process, (None, None))
        if connection is not None and hmac.compare_digest((secret or 0).to_bytes(4), asked.secret.to_bytes(4)):
            connection.cancel()

    # For those who watch

    def _health(self) -> tuple[int, str]:
        return (503, "stopping\n") if self._stopping else (200, "ok\n")

    def _told(self) -> tuple[int, str]:
        return 200, self.metrics.text(self._pool.at_work, self._pool.waiting)


@contextmanager
def _signals(tell: Callable[[int], None]) -> Iterator[None]:
    """SIGTERM and SIGINT are told. Afterwards they mean what they meant before, which asyncio does not see to."""
    loop = asyncio.get_running_loop()
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    for each in before:
        loop.add_signal_handler(each, tell, int(each))
    try:
        yield
    finally:
        for each, handler in before.items():
            loop.remove_signal_handler(each)
            if handler is not None:  # one that Python does not know, it cannot put back
                signal.signal(each, handler)


def loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return False
    return bool(found) and all(str(each[4][0]).startswith(("127.", "::1")) for each in found)
