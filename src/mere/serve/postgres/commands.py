"""One statement carried out, by its kind: what it changes in the connection, and what the client is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mere.serve.postgres import wire
from mere.serve.postgres.copy import Copy
from mere.serve.postgres.link import Link
from mere.serve.postgres.portals import Encode, Portal, Portals, Prepared, Rows
from mere.serve.postgres.transaction import Transaction
from mere.serve.protocol.port import Field, Kind, PgError, Session, Statement
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
_WITH_QUERY = (Kind.DECLARE, Kind.COPY_OUT)
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
        self._before: dict[str, str] = {}  # the settings at BEGIN

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
        kind = statement.kind
        if kind is Kind.FETCH:
            portal = self.portals.cursor(statement.about["name"])
            return Prepared(statement, (), None if statement.tag == "MOVE" else portal.fields)
        if kind is Kind.EXECUTE:
            return Prepared(statement, (), self.portals.statement(statement.about["name"]).fields)
        if kind is not Kind.QUERY and kind not in _WITH_QUERY:
            return Prepared(statement)
        query = statement if kind is Kind.QUERY else statement.about["statement"]
        described = await self.work(lambda: self.session.describe(query, declared))
        return Prepared(statement, described.parameters, described.fields if kind is Kind.QUERY else None)

    async def decoded(self, size: int, values: Callable[[], list[Any]]) -> list[Any]:
        """The values of parameters: large ones in a thread, since an array of a megabyte takes seconds."""
        return values() if size <= _SMALL else await self.work(values)

    # Carrying out

    async def simple(self, statement: Statement) -> None:
        """A statement of a simple query: its rows are described first, and all of them are sent, as text."""
        self.pin()  # again, after a COMMIT in the same message
        self.transaction.check(statement)
        if statement.kind is Kind.QUERY:
            answer = await self.work(lambda: self.session.run(statement, (), ()))
            fields = answer.fields
            self.link.say(wire.row_description(fields, (0,) * len(fields)))
            await self._all(statement.tag, Rows(answer), self._encoder(fields, (0,) * len(fields)))
            return
        prepared = await self.prepare(statement, ()) if statement.kind not in _WITH_QUERY else Prepared(statement)
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
            if statement.kind is not Kind.QUERY:
                raise PgError("55000", f'portal "{statement.tag}" cannot be run')
            self.link.say(wire.command_complete(f"{portal.finished} 0"))
            return
        if statement.kind is Kind.QUERY:
            ended = await self._send(lambda: self._started(portal), self._encoder(portal.fields, portal.formats), limit)
            if not ended:
                self.link.say(wire.PORTAL_SUSPENDED)
                return
            portal.finished = statement.tag
            self._done(statement.tag)
            return
        await _KINDS[statement.kind](self, portal)
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

    async def _nothing(self, portal: Portal) -> None:
        tag = portal.prepared.statement.tag
        self.link.say(wire.command_complete(tag) if tag else wire.EMPTY_QUERY)

    async def _begin(self, portal: Portal) -> None:
        if self.transaction.open:
            self._warn("25001", "there is already a transaction in progress")
        else:
            self._open()
        await self._nothing(portal)

    def _open(self) -> None:
        self.pin()
        self._before = dict(self.session.settings)
        self.transaction.begin()

    async def _end(self, portal: Portal) -> None:
        statement, back = portal.prepared.statement, portal.prepared.statement.kind is Kind.ROLLBACK
        if "savepoint" in statement.about:
            self.transaction.back_to(statement.about["savepoint"])
            return await self._nothing(portal)
        failed = self.transaction.failed
        if not self.transaction.open:
            self._warn("25P01", "there is no transaction in progress")
        else:
            self.transaction.end()
            self.unpin()
            if back or failed:
                self._restore()
        if statement.about.get("chain"):
            self._open()
        self.link.say(wire.command_complete("ROLLBACK" if failed else statement.tag))
        return None

    def _restore(self) -> None:
        """What was SET in a transaction goes with it."""
        now, before = self.session.settings, self._before
        for name in now.keys() - before.keys():
            self.session.set(name, None, False)
        # Those that become shorter come first: on the way, too, all of them together may not be too long.
        for name in sorted(before, key=lambda name: len(before[name]) - len(now.get(name, ""))):
            if now.get(name) != before[name]:
                self.session.set(name, before[name], False)

    async def _savepoint(self, portal: Portal) -> None:
        name = portal.prepared.statement.about["name"]
        release = portal.prepared.statement.kind is Kind.RELEASE
        (self.transaction.release if release else self.transaction.save)(name)
        await self._nothing(portal)

    async def _set(self, portal: Portal) -> None:
        about = portal.prepared.statement.about
        name, value, local = about["name"], about["value"], about.get("local", False)
        if local and not self.transaction.open:
            self._warn("25P01", "SET LOCAL can only be used in transaction blocks")
        self.session.set(name, value, local)
        await self._nothing(portal)

    async def _declare(self, portal: Portal) -> None:
        about = portal.prepared.statement.about
        if not self.transaction.open and not about.get("hold"):
            raise PgError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
        if about["name"] in self.portals.portals:
            raise PgError("42P03", f'cursor "{about["name"]}" already exists')
        query, values, oids = about["statement"], portal.values, portal.prepared.parameters
        answer = await self.work(lambda: self.session.run(query, values, oids))
        binary = (int(bool(about.get("binary"))),) * len(answer.fields)
        cursor = Portal(Prepared(query, (), answer.fields), formats=binary, hold=bool(about.get("hold")), cursor=True)
        cursor.start(answer)
        self.portals.open(about["name"], cursor)
        await self._nothing(portal)

    async def _fetch(self, portal: Portal) -> None:
        statement = portal.prepared.statement
        cursor = self.portals.cursor(statement.about["name"])
        rows: Rows = await self.work(lambda: self._started(cursor)) if cursor.rows is None else cursor.rows
        count = await self._ahead(rows, statement.about)
        if statement.tag == "MOVE":
            self.rows = await self._skip(rows, count)
        elif count != 0 and not rows.ended:
            encoder = self._encoder(cursor.fields, self._formats(portal.prepared, portal.formats))
            await self._send(lambda: rows, encoder, count)
        self._done(statement.tag)

    async def _ahead(self, rows: Rows, about: dict[str, Any]) -> int | None:
        """How many rows are meant, after those before them were passed over."""
        count: int | None = about.get("count", 1)
        backward = PgError(
            "55000", "cursor can only scan forward", hint="Read the rows that are needed again with a new cursor."
        )
        if not about.get("absolute"):
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
        if prepared.statement.kind is Kind.FETCH:
            declared = self.portals.cursor(prepared.statement.about["name"])
            if declared.cursor and any(declared.formats):
                return declared.formats
        return asked

    async def _close(self, portal: Portal) -> None:
        name = portal.prepared.statement.about["name"]
        if name is None:
            self.portals.close_all(held=True)
        else:
            self.portals.cursor(name)
            self.portals.close(name)
        await self._nothing(portal)

    async def _copy(self, portal: Portal) -> None:
        statement = portal.prepared.statement
        query, values, oids = statement.about["statement"], portal.values, portal.prepared.parameters
        answer = await self.work(lambda: self.session.run(query, values, oids))
        rows = Rows(answer)
        try:
            copy = Copy(statement.about["options"], answer.fields, self.zone)
            self.link.say(wire.copy_out(copy.formats))
            self.link.say(copy.begin())
            await self._send(lambda: rows, copy.rows, None)
        finally:
            rows.close()
        self.link.say(copy.end() + wire.COPY_DONE)
        self._done("COPY")

    async def _deallocate(self, portal: Portal) -> None:
        name = portal.prepared.statement.about["name"]
        if name is None:
            self.portals.statements.clear()
        else:
            self.portals.statement(name)
            del self.portals.statements[name]
        await self._nothing(portal)

    async def _discard(self, portal: Portal) -> None:
        if portal.prepared.statement.about.get("what", "ALL") == "ALL":
            if self.transaction.open:
                raise PgError("25001", "DISCARD ALL cannot run inside a transaction block")
            self.portals.close_all(held=True)
            self.portals.statements.clear()
            self.session.set(None, None, False)
        await self._nothing(portal)

    async def _prepare(self, portal: Portal) -> None:
        about = portal.prepared.statement.about
        self.portals.prepare(about["name"], await self.prepare(about["statement"], about.get("types", ())))
        await self._nothing(portal)

    async def _execute(self, portal: Portal) -> None:
        about = portal.prepared.statement.about
        prepared = self.portals.statement(about["name"])
        given, wanted = about.get("values", ()), prepared.parameters
        if len(given) != len(wanted):
            raise PgError(
                "42601",
                f'wrong number of parameters for prepared statement "{about["name"]}"',
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

    async def _other(self, portal: Portal) -> None:
        raise PgError("0A000", f"{portal.prepared.statement.tag} is not supported")

    def _warn(self, sqlstate: str, message: str) -> None:
        self.link.say(wire.notice(PgError(sqlstate, message)))


async def _both(sending: Awaitable[None], coming: Awaitable[Result]) -> Result:
    """Both to their end, so that nothing works on unseen; what failed first is told."""
    sent, found = await asyncio.gather(sending, coming, return_exceptions=True)
    for each in (sent, found):
        if isinstance(each, BaseException):
            raise each
    return found  # type: ignore[return-value]


_KINDS: dict[Kind, Callable[[Commands, Portal], Awaitable[None]]] = {
    Kind.BEGIN: Commands._begin,
    Kind.COMMIT: Commands._end,
    Kind.ROLLBACK: Commands._end,
    Kind.SAVEPOINT: Commands._savepoint,
    Kind.RELEASE: Commands._savepoint,
    Kind.SET: Commands._set,
    Kind.DECLARE: Commands._declare,
    Kind.FETCH: Commands._fetch,
    Kind.CLOSE: Commands._close,
    Kind.COPY_OUT: Commands._copy,
    Kind.DEALLOCATE: Commands._deallocate,
    Kind.DISCARD: Commands._discard,
    Kind.PREPARE: Commands._prepare,
    Kind.EXECUTE: Commands._execute,
    Kind.NOTHING: Commands._nothing,
    Kind.OTHER: Commands._other,
}
