"""The server: listens, lets clients in, and shuts down in good order."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count

from mere.serve.access.admission import Arrivals, Guesses, Places
from mere.serve.language import errors
from mere.serve.postgres import startup, wire
from mere.serve.postgres.connection import Connection
from mere.serve.postgres.link import Gone, Link
from mere.serve.postgres.startup import Cancel, Client, Policy
from mere.serve.protocol.port import SHUT_DOWN, Backend, PgError, Session
from mere.serve.session.endpoint import Endpoint, Shared
from mere.serve.session.log import Log
from mere.serve.session.metrics import Metrics, Used
from mere.serve.session.monitor import Monitor
from mere.serve.session.pool import Pool
from mere.serve.values import encode

_LOG = logging.getLogger(__name__)
_BACKLOG = 1024
_BETWEEN = 0.2  # seconds between two looks at those who are logging in, where they are too many
_LOOK = 0.5  # seconds between two looks at who may stay
_LAST_WORDS = 10.0  # seconds for a client to take the last that it is sent


@dataclass(frozen=True)
class Settings:
    host: str = "127.0.0.1"
    port: int = 0
    workers: int = 4
    user_workers: int | None = None  # None: all but one
    max_connections: int = 1000
    user_connections: int | None = None  # None: nine tenths
    max_logins: int = 100  # clients that are logging in
    address_logins: int = 50
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
        settings = self.settings
        self._pool = Pool(settings.workers, settings.user_workers)
        self._places = Places(settings.max_connections, settings.user_connections)
        self._arrivals = Arrivals(settings.max_logins, settings.address_logins, settings.max_connections)
        self._guesses = Guesses()
        self._thinning: asyncio.TimerHandle | None = None
        self._monitor = Monitor({"/health": self._health, "/metrics": self._metrics_page})
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[Link] = set()
        self._connections: dict[int, tuple[Client, Connection]] = {}  # by process
        self._expelling: asyncio.Task[None] | None = None
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
        shared = Shared(loop, self._pool, self.log, self.metrics, self._places, self._guesses)
        for each in self.beside:
            each.start(shared)
        self._expelling = asyncio.ensure_future(self._expel())
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
        if self._expelling is not None:
            self._expelling.cancel()
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
        try:
            await self._talk(link)
        except Gone:
            pass
        except Exception as error:  # noqa: BLE001 one client's trouble is nobody else's
            caught = errors.of_any(error)
            self._refused(link, caught.sqlstate)
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
        self._places.take(client.user)
        try:
            session = await self._pool.run(lambda: self._connect(client), client.user)
            await self._logged(link, replace(client, database=session.database), session)
        finally:
            self._places.give_back(client.user)

    async def _logged(self, link: Link, client: Client, session: Session) -> None:
        start = time.monotonic()
        self.log.event("login", client.user, client.address, ref=client.database)
        try:
            await self._converse(link, client, session)
        finally:
            session.close()
            seconds = round(time.monotonic() - start, 3)
            self.log.event("disconnect", client.user, client.address, ref=client.database, seconds=seconds)

    def _connect(self, client: Client) -> Session:
        self.backend.admit()
        return self.backend.connect(client.user, client.database, client.settings, client.process)

    async def _let_in(self, link: Link) -> Client | None:
        arrival = self._arrivals.enter(link.peer, lambda: self._crowd_out(link))
        if arrival is None:
            raise PgError("53300", "sorry, too many clients already")
        self._thin_out()
        try:
            async with asyncio.timeout(self.settings.login_seconds):
                asked = await startup.begin(link, self.policy, self.settings.login_seconds, self._guesses)
        except TimeoutError:
            raise PgError("08006", "canceling authentication due to timeout") from None
        finally:
            self._arrivals.leave(arrival)
        if isinstance(asked, Cancel):
            self._cancel(asked)
            return None
        if self._stopping:
            raise PgError("57P03", "the database system is shutting down")
        return replace(asked, process=next(self._processes) & 0x7FFFFFFF, secret=secrets.randbits(32))

    def _crowd_out(self, link: Link) -> None:
        self._refused(link, "53300")
        link.abort()

    def _refused(self, link: Link, sqlstate: str) -> None:
        self.metrics.refused[sqlstate] += 1
        self.log.event("refused", link.user, link.peer, error=sqlstate)

    def _thin_out(self) -> None:
        """Again and again, as long as too many are logging in."""
        if self._thinning is not None:
            return

        def again() -> None:
            self._thinning = None
            self._thin_out()

        if self._arrivals.thin_out():
            self._thinning = asyncio.get_running_loop().call_later(_BETWEEN, again)

    async def _converse(self, link: Link, client: Client, session: Session) -> None:
        connection = Connection(link, client, session, self._pool, self.log, self.metrics, self.settings.idle_seconds)
        self._connections[client.process] = (client, connection)
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
        client, connection = self._connections.get(asked.process, (None, None))
        if client and connection and hmac.compare_digest(client.secret.to_bytes(4), asked.secret.to_bytes(4)):
            connection.cancel()

    async def _expel(self) -> None:
        """Those who are not users any more, or have another password than they came in with."""
        while self.policy.users is not None:
            await asyncio.sleep(_LOOK)
            try:
                for client, connection in list(self._connections.values()):
                    if self.policy.users.held(client.user) != client.verifier:
                        connection.end()
                for each in self.beside:
                    each.expel()
            except Exception:  # noqa: BLE001 the next look is worth as much
                _LOG.exception("it is not known who has to go")

    # For those who watch

    def _health(self) -> tuple[int, str]:
        """Saturated is not ill: whoever watches would start it again, and all would lose their connections."""
        used = self._used()
        full = self._pool.waiting or any(each.now >= each.most for each in used if each.name != "workers")
        state = "stopping" if self._stopping else "saturated" if full else "ok"
        lines = [state, *(f"{each.name.replace('_', ' ')} {each.now}/{each.most}" for each in used)]
        return 503 if self._stopping else 200, "\n".join([*lines, f"waiting {self._pool.waiting}", ""])

    def _metrics_page(self) -> tuple[int, str]:
        return 200, self.metrics.text(self._pool.at_work, self._pool.waiting, self._used())

    def _used(self) -> list[Used]:
        busy = self._pool.at_work - self._pool.waiting
        return [
            Used("clients", self._places.taken, self._places.most, "Clients that are logged in."),
            Used("logins", self._arrivals.present, self._arrivals.most, "Clients that are logging in."),
            Used("workers", busy, self._pool.workers, "Workers that have a job."),
        ]


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
