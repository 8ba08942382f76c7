"""One client after the start-up: simple queries, and the extended protocol."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mere.serve.language import errors
from mere.serve.postgres import wire
from mere.serve.postgres.commands import Commands
from mere.serve.postgres.link import Gone, Link
from mere.serve.postgres.portals import Portal
from mere.serve.postgres.startup import Client
from mere.serve.protocol.activity import Seat
from mere.serve.protocol.body import Body, violation
from mere.serve.protocol.port import SHUT_DOWN, PgError, Session
from mere.serve.protocol.statement import Nothing, Statement
from mere.serve.session.log import Entry, Log
from mere.serve.session.metrics import Metrics
from mere.serve.session.pool import Pool
from mere.serve.values import decode

Result = TypeVar("Result")

_LONGEST = 16 << 20  # bytes of a message
_AGAIN = 0.05  # seconds after which a cancellation is repeated: it may have come before there was anything to cancel
_TURN = 0.002  # seconds that a connection may answer before it is the others' turn
_EMPTY = Nothing("", "")

CANCELLED = PgError("57014", "canceling statement due to user request")


class Connection:
    def __init__(
        self, link: Link, client: Client, session: Session, pool: Pool, log: Log, metrics: Metrics, idle: float | None
    ) -> None:
        self._link = link
        self._client = client
        self._session = session
        self._pool = pool
        self._log = log
        self._metrics = metrics
        self._idle = idle
        self._commands = Commands(link, session, self._work)
        self.seat = Seat(
            client.process,
            client.user,
            client.database,
            client.address,
            partial(_from_a_thread, asyncio.get_running_loop(), self.cancel),
            partial(_from_a_thread, asyncio.get_running_loop(), self.end),
        )
        self._skipping = False  # up to the next Sync, after an error
        self._working = self._busy = self._cancelled = self._ending = self._ended = False
        self._turn = 0.0  # when it began
        self._reading = False
        link.on_loss = self.cancel

    # From outside

    def cancel(self) -> None:
        """What the client waits for. Where it waits for nothing, nothing happens."""
        if self._busy:
            self._cancelled = True
            self._interrupt()

    def _interrupt(self) -> None:
        if self._cancelled and self._working:
            self._session.cancel()
            asyncio.get_running_loop().call_later(_AGAIN, self._interrupt)

    def shut_down(self) -> None:
        """As soon as the client waits for nothing."""
        self._ending = True
        if self._reading:
            self._link.break_off(SHUT_DOWN)

    def end(self) -> None:
        """At once."""
        self._ended = True
        self.cancel()
        self.shut_down()

    async def _work(self, job: Callable[[], Result]) -> Result:
        """In a thread of the pool, unless the client has cancelled meanwhile."""
        if self._cancelled:
            raise CANCELLED

        def unless_cancelled() -> Result:
            if self._cancelled:
                raise CANCELLED
            return job()

        self._working = True
        try:
            return await self._pool.run(unless_cancelled, self._client.user)
        finally:
            self._working = False

    # The conversation

    async def serve(self) -> None:
        """Up to its end. It raises Gone when the client has left."""
        self._commands.report()
        self._link.say(wire.backend_key(self._client.process, self._client.secret))
        self._ready()
        try:
            while True:
                letter, content = await self._next()
                if letter == b"X":
                    return
                if self._link.gone:
                    raise Gone  # from here on its leaving is noticed, but nobody is there to be answered any more
                self._busy = True
                try:
                    await self._answer(letter, content)
                finally:
                    self._busy = self._cancelled = False
                await self._pause()
        except PgError as error:  # the conversation itself went wrong: there is no way back into it
            self._link.say(wire.error(error, "FATAL"))
        finally:
            self._commands.portals.close_all(held=True)

    async def _pause(self) -> None:
        """After an answer: the client has to take it before it gets more, and the other clients have their turn."""
        await self._link.drained()
        if time.monotonic() - self._turn > _TURN:
            await asyncio.sleep(0)
            self._turn = time.monotonic()

    async def _next(self) -> tuple[bytes, bytes]:
        if self._ending:
            raise SHUT_DOWN
        idle = None
        if self._idle is not None:
            idle = asyncio.get_running_loop().call_later(self._idle, self._link.break_off, self._idled())
        self._reading = True
        try:
            return await self._link.message(_LONGEST)
        finally:
            self._reading = False
            if idle is not None:
                idle.cancel()

    def _idled(self) -> PgError:
        if self._commands.transaction.open:
            return PgError("25P03", "terminating connection due to idle-in-transaction timeout")
        return PgError("57P05", "terminating connection due to idle-session timeout")

    async def _answer(self, letter: bytes, content: bytes) -> None:
        if letter == b"Q":
            self._skipping = False
            await self._caught(lambda: self._query(content))
            self._commands.unpin()
            self._ready()
        elif letter == b"S":
            self._skipping = False
            self._commands.unpin()
            self._ready()
        elif letter == b"H":
            self._link.flush()
        elif letter in b"dcf":
            pass  # what is left of a COPY that there was none of
        elif letter in _EXTENDED:
            if not self._skipping:
                self._skipping = not await self._caught(lambda: _EXTENDED[letter](self, content))
        elif letter == b"F":
            await self._caught(lambda: self._refuse("0A000", "function calls are not supported"))
            self._ready()
        else:
            raise violation(f"invalid frontend message type {letter[0]}")

    def _ready(self) -> None:
        self._commands.report()
        status = self._commands.transaction.status
        self.seat.rest(status, self._session.settings.get("application_name", ""))
        self._link.say(wire.ready(status))
        self._link.flush()

    async def _caught(self, step: Callable[[], Awaitable[None]]) -> bool:
        """False if it failed, and the client was told."""
        try:
            await step()
        except Gone:
            raise
        except Exception as error:
            if self._ended:
                raise SHUT_DOWN from error
            self._link.say(wire.error(errors.of_any(error)))
            self._commands.transaction.fail()
            if self._commands.transaction.failed:
                self._commands.portals.close_all(held=False)
            return False
        return True

    async def _refuse(self, sqlstate: str, message: str) -> None:
        raise PgError(sqlstate, message)

    # A simple query

    async def _query(self, content: bytes) -> None:
        body = Body(content)
        text = body.text()
        body.end()
        self._commands.portals.close("")
        self._commands.portals.statements.pop("", None)
        self._commands.pin()
        statements = await self._logged(text, lambda: self._work(lambda: self._session.read(text)), only_errors=True)
        if not statements:
            self._link.say(wire.EMPTY_QUERY)
        for statement in statements:
            await self._logged(statement.text, lambda statement=statement: self._commands.simple(statement))  # type: ignore[misc]
            await self._pause()

    async def _logged(self, text: str, step: Callable[[], Awaitable[Result]], only_errors: bool = False) -> Result:
        """With a line in the audit log."""
        start, failed = time.perf_counter(), None
        self.seat.ask(text)
        self._commands.rows = 0
        try:
            return await step()
        except Gone:
            failed = "08006"
            raise
        except Exception as error:
            failed = errors.of_any(error, quiet=True).sqlstate
            raise
        finally:
            if failed or not only_errors:
                self._record(text, time.perf_counter() - start, failed)

    def _record(self, text: str, seconds: float, failed: str | None) -> None:
        client, rows = self._client, self._commands.rows
        self._metrics.statement(seconds, rows, failed)
        commit = self._session.commit
        self._log.write(Entry(client.user, client.address, client.database, commit, text, rows, seconds, failed))

    # The extended protocol

    async def _parse(self, content: bytes) -> None:
        asked = wire.Parse.read(content)
        self._commands.pin()
        if asked.name and asked.name in self._commands.portals.statements:
            raise PgError("42P05", f'prepared statement "{asked.name}" already exists')
        statements = await self._logged(asked.text, lambda: self._read(asked.text), only_errors=True)
        if len(statements) > 1:
            raise PgError("42601", "cannot insert multiple commands into a prepared statement")
        statement = statements[0] if statements else _EMPTY
        self._commands.transaction.check(statement)
        prepared = await self._logged(
            asked.text, lambda: self._commands.prepare(statement, asked.oids), only_errors=True
        )
        self._commands.portals.prepare(asked.name, prepared)
        self._link.say(wire.PARSE_COMPLETE)

    async def _read(self, text: str) -> list[Statement]:
        return await self._work(lambda: self._session.read(text))

    async def _bind(self, content: bytes) -> None:
        asked = wire.Bind.read(content)
        self._commands.pin()
        prepared = self._commands.portals.statement(asked.statement)
        self._commands.transaction.check(prepared.statement)
        wanted = prepared.parameters
        if len(asked.values) != len(wanted):
            raise violation(
                f"bind message supplies {len(asked.values)} parameters, but prepared statement "
                f'"{asked.statement}" requires {len(wanted)}'
            )
        formats = wire.spread(asked.formats, len(asked.values), "parameter")
        size = sum(len(each or b"") for each in asked.values)
        each_of = list(zip(asked.values, wanted, formats, strict=True))
        values = await self._commands.decoded(size, lambda: [decode.value(*each) for each in each_of])
        columns = wire.spread(asked.results, len(prepared.fields or ()), "result column")
        self._commands.portals.open(asked.portal, Portal(prepared, values, size, columns))
        self._link.say(wire.BIND_COMPLETE)

    async def _describe(self, content: bytes) -> None:
        what, name = _named(content)
        if what == b"S":
            prepared = self._commands.portals.statement(name)
            self._link.say(wire.parameter_description(prepared.parameters))
            formats: tuple[int, ...] = (0,) * len(prepared.fields or ())
        else:
            portal = self._commands.portals.portal(name)
            prepared, formats = portal.prepared, portal.formats
        told = wire.NO_DATA if prepared.fields is None else wire.row_description(prepared.fields, formats)
        self._link.say(told)

    async def _execute(self, content: bytes) -> None:
        body = Body(content)
        name, limit = body.text(), body.int32()
        body.end()
        self._commands.pin()
        portal = self._commands.portals.portal(name)
        text = portal.prepared.statement.text
        await self._logged(text, lambda: self._commands.execute(portal, limit if limit > 0 else None))

    async def _close(self, content: bytes) -> None:
        what, name = _named(content)
        if what == b"S":
            self._commands.portals.statements.pop(name, None)
        else:
            self._commands.portals.close(name)
        self._link.say(wire.CLOSE_COMPLETE)


_EXTENDED: dict[bytes, Callable[[Connection, bytes], Awaitable[None]]] = {
    b"P": Connection._parse,
    b"B": Connection._bind,
    b"D": Connection._describe,
    b"E": Connection._execute,
    b"C": Connection._close,
}


def _from_a_thread(loop: asyncio.AbstractEventLoop, step: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended, and the connection with it
        loop.call_soon_threadsafe(step)


def _named(content: bytes) -> tuple[bytes, str]:
    """What Describe and Close are about: a statement (S) or a portal (P)."""
    body = Body(content)
    what, name = body.take(1), body.text()
    body.end()
    if what not in (b"S", b"P"):
        raise violation(f"invalid message subtype {what[0]}")
    return what, name
