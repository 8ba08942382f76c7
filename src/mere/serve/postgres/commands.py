"""Carries out one statement, by its kind: what it changes in the connection, and what it sends to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any, TypeVar

from mere.serve.postgres import wire
from mere.serve.postgres.copy import Copy
from mere.serve.postgres.link import Link
from mere.serve.postgres.portals import Encode, Portal, Portals, Prepared, Rows
from mere.serve.postgres.transaction import Transaction
from mere.serve.protocol.port import Field, PgError, Session
from mere.serve.protocol.statement import (
    Begin,
    Close,
    CopyOut,
    CreateView,
    Deallocate,
    Declare,
    Discard,
    DropView,
    End,
    Execute,
    Fetch,
    Move,
    Nothing,
    OfSavepoint,
    Prepare,
    Query,
    Release,
    Rollback,
    Savepoint,
    Set,
    Statement,
)
from mere.serve.values import decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")

# Those that a client is told of when they change.
REPORTED = (
    "application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
    "integer_datetimes", "IntervalStyle", "is_superuser", "scram_iterations", "search_path", "server_encoding",
    "server_version", "session_authorization", "standard_conforming_strings", "TimeZone",
)  # fmt: skip

_COUNTED = ("SELECT", "FETCH", "MOVE", "COPY", "VALUES", "TABLE")
_SMALL = 4096  # bytes of values that are decoded without a thread


class Commands:
    """`work` carries out in a thread what may take long."""

    def __init__(self, link: Link, session: Session, work: Callable[..., Awaitable[Any]]) -> None:
        self.link = link
        self.session = session
        self.work = work
        self.transaction = Transaction()
        self.portals = Portals()
        self.rows = 0  # that the present statement has sent
        self._pinned = False
        self._settings: dict[str, str] = {}  # as they were at the last report
        self._reported: dict[str, str] = {}
        self._before: tuple[dict[str, str], Any] = {}, None  # the settings and temporary views at BEGIN

    # Settings and the pin

    def report(self) -> None:
        """Tell the client of the settings that it has to know and does not yet."""
        settings = self.session.settings
        if settings is self._settings:  # never changed in place
            return
        self._settings = settings
        for name in REPORTED:
            if name in settings and settings[name] != self._reported.get(name):
                self._reported[name] = settings[name]
                self.link.say(wire.parameter_status(name, settings[name]))

    @property
    def zone(self) -> str:
        return self.session.settings.get("TimeZone", "UTC")

    def pin(self) -> None:
        """What comes up to `unpin` sees one commit: a message of several statements, a pipeline, a transaction."""
        if not self._pinned:
            self._pinned = True
            self.session.begin()

    def unpin(self) -> None:
        """At the end of a message or a pipeline. A transaction goes on."""
        if self._pinned and not self.transaction.open:
            self._pinned = False
            self.portals.close_all(held=False)
            self.session.end()

    # Reading

    async def prepare(self, statement: Statement, declared: Sequence[int]) -> Prepared:
        if isinstance(statement, Fetch):
            portal = self.portals.cursor(statement.name)
            return Prepared(statement, (), None if isinstance(statement, Move) else portal.fields)
        if isinstance(statement, Execute):
            return Prepared(statement, (), self.portals.statement(statement.name).fields)
        if not isinstance(statement, Query | Declare | CopyOut):
            return Prepared(statement)
        query = statement if isinstance(statement, Query) else statement.query
        described = await self.work(lambda: self.session.describe(query, declared))
        return Prepared(statement, described.parameters, described.fields if query is statement else None)

    async def decoded(self, size: int, values: Callable[[], list[Any]]) -> list[Any]:
        """The values of parameters: large ones in a thread, since an array of a megabyte takes seconds."""
        return values() if size <= _SMALL else await self.work(values)

    # Carrying out

    async def simple(self, statement: Statement) -> None:
        """A statement of a simple query: its rows are described first, and all of them are sent, as text."""
        self.pin()  # again, after a COMMIT in the same message
        self.transaction.check(statement)
        if isinstance(statement, Query):
            answer = await self.work(lambda: self.session.run(statement, (), ()))
            fields = answer.fields
            self.link.say(wire.row_description(fields, (0,) * len(fields)))
            await self._all(statement.tag, Rows(answer), self._encoder(fields, (0,) * len(fields)))
            return
        is_known = isinstance(statement, Declare | CopyOut)  # what runs tells of the query in it
        prepared = Prepared(statement) if is_known else await self.prepare(statement, ())
        if prepared.fields is not None:
            formats = self._formats(prepared, (0,) * len(prepared.fields))
            self.link.say(wire.row_description(prepared.fields, formats))
            await self.execute(Portal(prepared, formats=formats), None)
        else:
            await self.execute(Portal(prepared), None)

    async def execute(self, portal: Portal, limit: int | None) -> None:
        """A portal from where it stands; at most so many rows of it."""
        statement = portal.prepared.statement
        self.transaction.check(statement)
        if portal.finished is not None:
            if not isinstance(statement, Query):
                raise PgError("55000", f'portal "{statement.tag}" cannot be run')
            self.link.say(wire.command_complete(f"{portal.finished} 0"))
            return
        if isinstance(statement, Query):
            ended = await self._send(lambda: self._started(portal), self._encoder(portal.fields, portal.formats), limit)
            if not ended:
                self.link.say(wire.PORTAL_SUSPENDED)
                return
            portal.finished = statement.tag
            self._done(statement.tag)
            return
        await self._carry_out(statement, portal)
        portal.finished = statement.tag

    def _started(self, portal: Portal) -> Rows:
        """The rows of a portal, which begins to run if it does not yet."""
        if portal.rows is None:
            portal.start(self.session.run(portal.prepared.statement, portal.values, portal.prepared.parameters))
        assert portal.rows is not None
        return portal.rows

    async def _all(self, tag: str, rows: Rows, encoder: Encode) -> None:
        try:
            await self._send(lambda: rows, encoder, None)
        finally:
            rows.close()
        self._done(tag)

    def _done(self, tag: str) -> None:
        self.link.say(wire.command_complete(f"{tag} {self.rows}" if tag in _COUNTED else tag))

    def _encoder(self, fields: Sequence[Field], formats: Sequence[int]) -> Encode:
        zone = self.zone
        return lambda batch: encode.data_rows(batch, fields, formats, zone)

    async def _send(self, rows: Callable[[], Rows], encoder: Encode, limit: int | None) -> bool:
        """True if there are no more. The next piece is computed while the one before it is sent, never more."""

        def piece(most: int | None) -> tuple[int, memoryview, bool] | None:
            source = rows()
            batch: pa.RecordBatch | None = source.take(most)
            return None if batch is None else (batch.num_rows, encoder(batch), source.ended)

        left = limit
        found = await self.work(lambda: piece(left))
        while found is not None:
            count, data, ended = found
            self.rows += count
            left = None if left is None else left - count
            if left == 0 or ended:
                await self.link.send(data)
                return left != 0
            sending = self.link.send(data)
            coming = self.work(lambda most=left: piece(most))
            found = await _both(sending, coming)
        return True

    # The kinds

    @singledispatchmethod
    async def _carry_out(self, statement: Statement, portal: Portal) -> None:
        """What a statement does that is no query: a method for each class."""
        raise NotImplementedError(type(statement))

    @_carry_out.register
    async def _nothing(self, statement: Nothing, _: Portal) -> None:
        self._understood(statement)

    def _understood(self, statement: Statement) -> None:
        self.link.say(wire.command_complete(statement.tag) if statement.tag else wire.EMPTY_QUERY)

    @_carry_out.register
    async def _begin(self, statement: Begin, _: Portal) -> None:
        if self.transaction.open:
            self._warn("25001", "there is already a transaction in progress")
        else:
            self._open()
        self._understood(statement)

    def _open(self) -> None:
        self.pin()
        self._before = dict(self.session.settings), self.session.views
        self.transaction.begin()

    @_carry_out.register
    async def _end(self, statement: End, _: Portal) -> None:
        failed = self.transaction.failed
        if not self.transaction.open:
            self._warn("25P01", "there is no transaction in progress")
        else:
            self.transaction.end()
            self.unpin()
            if failed or isinstance(statement, Rollback):
                self._restore()
        if statement.chain:
            self._open()
        self.link.say(wire.command_complete("ROLLBACK" if failed else statement.tag))

    def _restore(self) -> None:
        """What was SET in a transaction goes with it, and so do the views that it made."""
        now, (before, self.session.views) = self.session.settings, self._before
        for name in now.keys() - before.keys():
            self.session.set(name, None, False)
        # Those that become shorter come first: on the way, too, all of them together may not be too long.
        for name in sorted(before, key=lambda name: len(before[name]) - len(now.get(name, ""))):
            if now.get(name) != before[name]:
                self.session.set(name, before[name], False)

    @_carry_out.register
    async def _savepoint(self, statement: OfSavepoint, _: Portal) -> None:
        if isinstance(statement, Savepoint):
            self.transaction.save(statement.name)
        elif isinstance(statement, Release):
            self.transaction.release(statement.name)
        else:
            self.transaction.back_to(statement.name)
        self._understood(statement)

    @_carry_out.register
    async def _set(self, statement: Set, _: Portal) -> None:
        if statement.local and not self.transaction.open:
            self._warn("25P01", "SET LOCAL can only be used in transaction blocks")
        self.session.set(statement.name, statement.value, statement.local)
        self._understood(statement)

    @_carry_out.register
    async def _declare(self, statement: Declare, portal: Portal) -> None:
        if not self.transaction.open and not statement.hold:
            raise PgError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        if statement.name in self.portals.portals:
            raise PgError("42P03", f'cursor "{statement.name}" already exists')
        query, values, oids = statement.query, portal.values, portal.prepared.parameters
        answer = await self.work(lambda: self.session.run(query, values, oids))
        binary = (int(statement.binary),) * len(answer.fields)
        cursor = Portal(Prepared(query, (), answer.fields), formats=binary, hold=statement.hold, cursor=True)
        cursor.start(answer)
        self.portals.open(statement.name, cursor)
        self._understood(statement)

    @_carry_out.register
    async def _fetch(self, statement: Fetch, portal: Portal) -> None:
        cursor = self.portals.cursor(statement.name)
        rows: Rows = await self.work(lambda: self._started(cursor)) if cursor.rows is None else cursor.rows
        count = await self._ahead(rows, statement)
        if isinstance(statement, Move):
            self.rows = await self._skip(rows, count)
        elif count != 0 and not rows.ended:
            encoder = self._encoder(cursor.fields, self._formats(portal.prepared, portal.formats))
            await self._send(lambda: rows, encoder, count)
        self._done(statement.tag)

    async def _ahead(self, rows: Rows, statement: Fetch) -> int | None:
        """How many rows are meant, after those before them were passed over."""
        count = statement.count
        backward = PgError(
            "55000", "cursor can only scan forward", hint="Read the rows that are needed again with a new cursor."
        )
        if not statement.absolute:
            if count is not None and count < 0:
                raise backward
            return count
        if count is None or count <= rows.taken:
            raise backward
        await self._skip(rows, count - rows.taken - 1)
        return 1

    async def _skip(self, rows: Rows, count: int | None) -> int:
        passed = 0
        while (count is None or passed < count) and not rows.ended:
            left = None if count is None else count - passed
            batch = await self.work(lambda left=left: rows.take(left))
            passed += 0 if batch is None else batch.num_rows
        return passed

    def _formats(self, prepared: Prepared, asked: tuple[int, ...]) -> tuple[int, ...]:
        """A cursor that was declared BINARY is, whatever is asked for."""
        if isinstance(prepared.statement, Fetch):
            declared = self.portals.cursor(prepared.statement.name)
            if declared.cursor and any(declared.formats):
                return declared.formats
        return asked

    @_carry_out.register
    async def _close(self, statement: Close, _: Portal) -> None:
        if statement.name is None:
            self.portals.close_all(held=True)
        else:
            self.portals.cursor(statement.name)
            self.portals.close(statement.name)
        self._understood(statement)

    @_carry_out.register
    async def _copy(self, statement: CopyOut, portal: Portal) -> None:
        query, values, oids = statement.query, portal.values, portal.prepared.parameters
        answer = await self.work(lambda: self.session.run(query, values, oids))
        rows = Rows(answer)
        try:
            copy = Copy(statement.options, answer.fields, self.zone)
            self.link.say(wire.copy_out(copy.formats))
            self.link.say(copy.begin())
            await self._send(lambda: rows, copy.rows, None)
        finally:
            rows.close()
        self.link.say(copy.end() + wire.COPY_DONE)
        self._done("COPY")

    @_carry_out.register
    async def _deallocate(self, statement: Deallocate, _: Portal) -> None:
        if statement.name is None:
            self.portals.statements.clear()
        else:
            self.portals.statement(statement.name)
            del self.portals.statements[statement.name]
        self._understood(statement)

    @_carry_out.register
    async def _discard(self, statement: Discard, _: Portal) -> None:
        if statement.what == "ALL":
            if self.transaction.open:
                raise PgError("25001", "DISCARD ALL cannot run inside a transaction block")
            self.portals.close_all(held=True)
            self.portals.statements.clear()
            self.session.set(None, None, False)
        if statement.what in ("ALL", "TEMP"):
            self.session.drop_all_views()
        self._understood(statement)

    @_carry_out.register
    async def _create_view(self, statement: CreateView, _: Portal) -> None:
        await self.work(lambda: self.session.create_view(statement))
        self._understood(statement)

    @_carry_out.register
    async def _drop_views(self, statement: DropView, _: Portal) -> None:
        for notice in await self.work(lambda: self.session.drop_views(statement)):
            self.link.say(wire.notice(notice))
        self._understood(statement)

    @_carry_out.register
    async def _prepare(self, statement: Prepare, _: Portal) -> None:
        self.portals.prepare(statement.name, await self.prepare(statement.query, statement.types))
        self._understood(statement)

    @_carry_out.register
    async def _execute(self, statement: Execute, portal: Portal) -> None:
        prepared = self.portals.statement(statement.name)
        given, wanted = statement.values, prepared.parameters
        if len(given) != len(wanted):
            raise PgError(
                "42601",
                f'wrong number of parameters for prepared statement "{statement.name}"',
                detail=f"Expected {len(wanted)} parameters but got {len(given)}.",
            )
        pairs = list(zip(given, wanted, strict=True))
        values = await self.decoded(
            sum(len(each or "") for each in given),
            lambda: [None if each is None else decode.of_text(each, oid) for each, oid in pairs],
        )
        inner = Portal(prepared, values, formats=portal.formats)
        try:
            await self.execute(inner, None)
        finally:
            inner.close()

    def _warn(self, sqlstate: str, message: str) -> None:
        self.link.say(wire.notice(PgError(sqlstate, message)))


async def _both(sending: Awaitable[None], coming: Awaitable[Result]) -> Result:
    """Both to their end, so that nothing works on unseen; what failed first is told."""
    sent, found = await asyncio.gather(sending, coming, return_exceptions=True)
    for each in (sent, found):
        if isinstance(each, BaseException):
            raise each
    return found  # type: ignore[return-value]
