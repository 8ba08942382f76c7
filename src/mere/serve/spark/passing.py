"""Passes calls of Spark Connect on, whatever they ask. What it has to know of a call is in three of its fields."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
from pyspark.sql.connect.proto import base_pb2

from mere.serve.spark.admission import Admission, Refused
from mere.serve.spark.catalogs import Catalogs
from mere.serve.spark.sessions import Key, Session, Sessions

_SERVICE = base_pb2.DESCRIPTOR.services_by_name["SparkConnectService"]
_METHODS = {each.name: each for each in _SERVICE.methods}
_PREFIX = f"/{_SERVICE.full_name}/"
# Of which the answer may depend on a session's catalogs.
_PREPARED = ("ExecutePlan", "AnalyzePlan", "Config")
_RUNS = ("ExecutePlan", "ReattachExecute")
_BEGINS = ("ExecutePlan",)
_CATALOG = "spark.sql.catalog."
ENDING = "This server is about to end: it takes no new queries."


class Passing(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, channel: grpc.aio.Channel, admission: Admission, catalogs: Catalogs, sessions: Sessions) -> None:
        self._channel = channel
        self._admission = admission
        self._catalogs = catalogs
        self._sessions = sessions
        self.ending = False

    def service(self, details: Any) -> Any:
        """Messages come and go as bytes."""
        name = str(details.method).removeprefix(_PREFIX)
        method = _METHODS.get(name)
        if method is None or details.method != _PREFIX + name:
            return None
        if method.client_streaming:
            return grpc.stream_unary_rpc_method_handler(partial(self._sent, name))
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(partial(self._streamed, name))
        return grpc.unary_unary_rpc_method_handler(partial(self._answered, name))

    async def _answered(self, name: str, asked: bytes, context: Any) -> bytes:
        async with self._call(name, context):
            request, key, _ = await self._admitted(name, asked, context)
            answer: bytes = await self._channel.unary_unary(_PREFIX + name)(request, timeout=_left(context))
            if name == "ReleaseSession":
                self._sessions.ended(key)
            return answer

    async def _streamed(self, name: str, asked: bytes, context: Any) -> AsyncIterator[bytes]:
        async with self._call(name, context):
            request, _, session = await self._admitted(name, asked, context)
            call = self._channel.unary_stream(_PREFIX + name)(request, timeout=_left(context))
            session.running += name in _RUNS
            try:
                async for part in call:
                    yield part
            finally:
                session.running -= name in _RUNS
                call.cancel()  # if nobody waits for the rest

    async def _sent(self, name: str, sent: AsyncIterator[bytes], context: Any) -> bytes:
        async def admitted() -> AsyncIterator[bytes]:
            async for part in sent:
                request, _, _ = await self._admitted(name, part, context)
                yield request

        async with self._call(name, context):
            answer: bytes = await self._channel.stream_unary(_PREFIX + name)(admitted(), timeout=_left(context))
            return answer

    @asynccontextmanager
    async def _call(self, name: str, context: Any) -> AsyncIterator[None]:
        """The server's errors are passed on as they are, with the details that its client reads."""
        status = "CANCELLED"
        try:
            yield
            status = "OK"
        except Refused as refused:
            status = "UNAUTHENTICATED"
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(refused))
        except _Ending:
            status = "FAILED_PRECONDITION"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, ENDING)
        except grpc.aio.AioRpcError as error:
            status = error.code().name
            await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))
        finally:
            self._sessions.answers[name, status] += 1

    async def _admitted(self, name: str, asked: bytes, context: Any) -> tuple[bytes, Key, Session]:
        """The request, in the caller's own name."""
        headers = {str(key): value for key, value in context.invocation_metadata() or ()}
        request = getattr(base_pb2, _METHODS[name].input_type.name).FromString(asked)
        claimed = request.user_context.user_id
        # A file may have to be read, and a stalled disk would stall everybody.
        user = await asyncio.to_thread(self._admission.user, str(headers.get("authorization", "")), claimed)
        if user != claimed:
            request.user_context.user_id = user
            asked = request.SerializeToString()
        key = user, str(request.session_id)
        if self.ending and name in _BEGINS:
            raise _Ending
        session = self._sessions.touch(key)
        if name in _PREPARED:
            await self._prepare(request, key, session)
        return asked, key, session

    async def _prepare(self, request: Any, key: Key, session: Session) -> None:
        """Give the session the catalogs that it lacks, before what it asks is passed on."""
        async with session.preparing:
            lacking = await asyncio.to_thread(self._lacking, key[0], session)
            if lacking:
                first = base_pb2.ConfigRequest(session_id=key[1], user_context=request.user_context)
                pairs = [base_pb2.KeyValue(key=name, value=value) for name, value in lacking.items()]
                first.operation.set.pairs.extend(pairs)
                await self._channel.unary_unary(f"{_PREFIX}Config")(first.SerializeToString())
        if isinstance(request, base_pb2.ConfigRequest):  # one that the client makes itself is left to it
            made = (each.key.removeprefix(_CATALOG) for each in request.operation.set.pairs)
            session.has.update(name for name in made if "." not in name)

    def _lacking(self, user: str, session: Session) -> dict[str, str]:
        found = {} if session.begun else self._catalogs.session(user)
        session.begun = True
        for ref in self._catalogs.names():
            if ref not in session.has:
                found.update(self._catalogs.of(ref, user))
                session.has.add(ref)
        return found


class _Ending(Exception):
    pass


def _left(context: Any) -> float | None:
    seconds: float | None = context.time_remaining()
    return seconds
