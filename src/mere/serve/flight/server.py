"""Flight's methods, and the server that answers to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyarrow import flight

from mere.errors import ConfigError
from mere.serve.access.users import Users
from mere.serve.flight import catalog, messages, parameters, statements
from mere.serve.flight.calls import Call
from mere.serve.flight.errors import flight_error
from mere.serve.flight.login import KEY, Caller, Handshake, Login, LoginFactory
from mere.serve.flight.seals import Handle, Seals
from mere.serve.flight.transactions import Transactions
from mere.serve.language.errors import of_any
from mere.serve.protocol.port import SHUT_DOWN, Backend, PgError
from mere.serve.session.endpoint import Shared

_POLL = 0.05  # seconds between two looks at whether the last call has ended
_LAST_WORDS = 2.0  # seconds for clients to take what they were sent
_ACTIONS = {
    "CreatePreparedStatement": "Read a statement that is run later.",
    "ClosePreparedStatement": "It is no longer needed.",
    "BeginTransaction": "All statements of it see one commit.",
    "EndTransaction": "It is over.",
}


@dataclass
class FlightEndpoint:
    """Implements `session.endpoint.Endpoint`. `certificate`: PEM, and its key; without it nothing is encrypted."""

    backend: Backend
    users: Users | None
    host: str = "127.0.0.1"
    port: int = 0
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)
    held: bool = False

    def start(self, shared: Shared) -> None:
        """`port` is then the one that it listens on."""
        try:
            self._server = _Server(self, shared)
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(
                f"Cannot listen on {self.host}:{self.port} for Flight.",
                remedy="Choose another port: mere serve --flight-port PORT",
            ) from error
        self.port = int(self._server.port)

    async def stop(self, seconds: float) -> None:
        self._server.ending = True
        await self._ended(seconds)
        self.cut()
        # It waits for clients for ever, also for those that take nothing of what they were sent.
        closing = threading.Thread(target=self._server.shutdown, name="flight-shutdown", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, _LAST_WORDS)
        self.held = closing.is_alive()

    async def _ended(self, seconds: float) -> None:
        """Or cut, or out of time."""
        for _ in range(int(seconds / _POLL)):
            if all(call.cancelled for call in list(self._server.calls)):
                return
            await asyncio.sleep(_POLL)

    def expel(self) -> None:
        for call in list(self._server.calls):
            if not self._server.login.stays(call.caller):
                call.cancel()

    def cut(self) -> None:
        for call in list(self._server.calls):
            call.cancel()


class _Server(flight.FlightServerBase):  # type: ignore[misc]
    """It answers in threads of its own, and lets the workers of the gateway work."""

    def __init__(self, about: FlightEndpoint, shared: Shared) -> None:
        self.calls: set[Call] = set()
        self.ending = False
        self._backend = about.backend
        self._shared = shared
        self._seals = Seals()
        self._transactions = Transactions()
        self.login = Login(about.users, self._seals, about.backend.admit, shared.guesses)
        host = f"[{about.host}]" if ":" in about.host else about.host
        super().__init__(
            (host, about.port),
            auth_handler=Handshake(),
            tls_certificates=[about.certificate] if about.certificate else None,
            middleware={KEY: LoginFactory(self.login, shared)},
        )

    # Reading

    def get_flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> flight.FlightInfo:
        with _flight_errors():
            schema, ticket = self._flight_info(context, descriptor)
            return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(ticket, [])], -1, -1)

    def get_schema(self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        with _flight_errors():
            return flight.SchemaResult(self._flight_info(context, descriptor)[0])

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Nothing is held before the first rows are asked for: whoever hangs up before leaves nothing behind."""
        with _flight_errors():
            command, caller = messages.unpack(ticket.ticket), _caller(context)
            if isinstance(command, messages.TicketStatementQuery):
                handle = Handle.opened(command.statement_handle, self._seals, caller.user)
                # It is for the ref of whoever asked for it, whatever this call names.
                caller = caller.at(handle.database)
                return flight.GeneratorStream(statements.schema(handle), self._rows(context, caller, handle))
            schema = catalog.schema(command)
            if schema is None:
                raise _not_here(command)
            return flight.GeneratorStream(schema, self._facts(context, caller, command))

    def _flight_info(
        self, context: flight.ServerCallContext, descriptor: flight.FlightDescriptor
    ) -> tuple[pa.Schema, bytes]:
        """The schema of the answer, and the ticket for it."""
        command = messages.unpack(descriptor.command or b"")
        if (known := catalog.schema(command)) is not None:
            return known, descriptor.command
        handle = self._handle(_caller(context), command)
        # The ref is that of whoever prepared it, whatever this call names.
        with self._call(context, _caller(context).at(handle.database), handle.text, only_errors=True) as call:
            ticket = call.work(lambda session: statements.settle(session, handle, self._transactions))
        message = messages.TicketStatementQuery(ticket.sealed(self._seals))
        return statements.schema(ticket), messages.pack(message)

    def _handle(self, caller: Caller, command: messages.Message) -> Handle:
        if isinstance(command, messages.CommandPreparedStatementQuery):
            return Handle.opened(command.prepared_statement_handle, self._seals, caller.user)
        if isinstance(command, messages.CommandStatementQuery):
            self._transactions.check(caller.user, caller.database, command.transaction_id)
            return Handle(caller.user, caller.database, command.query, command.transaction_id)
        raise _not_here(command)

    def _rows(self, context: flight.ServerCallContext, caller: Caller, handle: Handle) -> Iterator[pa.RecordBatch]:
        with _flight_errors(), self._call(context, caller, handle.text) as call:
            yield from statements.rows(call, handle)

    def _facts(
        self, context: flight.ServerCallContext, caller: Caller, command: messages.Message
    ) -> Iterator[pa.RecordBatch]:
        with _flight_errors(), self._call(context, caller, type(command).__name__) as call:
            found = call.work(lambda session: catalog.answer(session, caller, command))
            call.rows = found.num_rows
            yield from found.to_batches()

    # Preparing

    def list_actions(self, _: flight.ServerCallContext) -> list[flight.ActionType]:
        return [flight.ActionType(name, about) for name, about in _ACTIONS.items()]

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> list[flight.Result]:
        with _flight_errors():
            if action.type not in _ACTIONS:
                raise PgError("0A000", f"{action.type[:100]} is not supported")
            answer = self._done(context, _caller(context), messages.unpack(action.body.to_pybytes()))
            return [] if answer is None else [flight.Result(messages.pack(answer))]

    def _done(
        self, context: flight.ServerCallContext, caller: Caller, asked: messages.Message
    ) -> messages.Message | None:
        who = (caller.user, caller.database)
        if isinstance(asked, messages.ActionBeginTransactionRequest):
            return messages.ActionBeginTransactionResult(self._transactions.begin(*who))
        if isinstance(asked, messages.ActionEndTransactionRequest):
            self._transactions.check(*who, asked.transaction_id)
            self._transactions.end(*who, asked.transaction_id)
            return None
        if isinstance(asked, messages.ActionClosePreparedStatementRequest):
            return None  # there is nothing of it here
        if not isinstance(asked, messages.ActionCreatePreparedStatementRequest):
            raise _not_here(asked)
        self._transactions.check(*who, asked.transaction_id)
        handle = Handle(*who, asked.query, asked.transaction_id)
        with self._call(context, caller, asked.query, only_errors=True) as call:
            described = call.work(lambda session: statements.describe(session, handle))
        return messages.ActionCreatePreparedStatementResult(
            handle.sealed(self._seals), _bytes(described.schema), _bytes(parameters.schema(described.parameters))
        )

    def do_put(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """The values of a prepared statement. They come back to the client, in another handle."""
        with _flight_errors():
            command = messages.unpack(descriptor.command or b"")
            if not isinstance(command, messages.CommandPreparedStatementQuery):
                raise _not_here(command)
            handle = Handle.opened(command.prepared_statement_handle, self._seals, _caller(context).user)
            bound = replace(handle, values=parameters.checked(_sent(reader)))
            answer = messages.DoPutPreparedStatementResult(bound.sealed(self._seals))
            writer.write(messages.encode(answer))

    # Calls

    @contextmanager
    def _call(
        self, context: flight.ServerCallContext, caller: Caller, text: str, only_errors: bool = False
    ) -> Iterator[Call]:
        if self.ending:
            raise SHUT_DOWN
        self._shared.places.take(caller.user)
        call = Call(self._backend, self._shared, context, caller, text, only_errors)
        self.calls.add(call)
        failed: BaseException | None = None
        try:
            yield call
        except BaseException as error:
            failed = error
            raise
        finally:
            self.calls.discard(call)
            call.close(failed)
            self._shared.places.give_back(caller.user)


@contextmanager
def _flight_errors() -> Iterator[None]:
    """Errors as clients of Flight see them."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 one client's trouble is nobody else's
        raise flight_error(of_any(error)) from None


def _caller(context: flight.ServerCallContext) -> Caller:
    found: Any = context.get_middleware(KEY)
    assert isinstance(found, Caller)
    return found


def _sent(reader: flight.MetadataRecordBatchReader) -> list[pa.RecordBatch]:
    """The first batches: whoever sends more than one row is told so without the rest being read."""
    found: list[pa.RecordBatch] = []
    for chunk in reader:
        if chunk.data is not None and chunk.data.num_rows:
            found.append(chunk.data)
        if sum(batch.num_rows for batch in found) > 1:
            break
    return found


def _bytes(schema: pa.Schema | None) -> bytes:
    return bytes(schema.serialize().to_pybytes()) if schema is not None else b""


def _not_here(command: messages.Message) -> PgError:
    return PgError("0A000", f"{type(command).__name__} is not supported here")
