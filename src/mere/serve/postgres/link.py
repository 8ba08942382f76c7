"""One client's connection as bytes: messages in, buffers out, with back-pressure in both directions."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from mere.serve.protocol.body import violation

_ENOUGH = 256 * 1024  # bytes that wait to be read before the client has to wait
_UNSENT = 64 * 1024  # bytes that wait to be sent before `drained` waits
SMALL = 8192  # answers that are collected up to here leave together


class Gone(Exception):
    """The client has hung up, or was hung up on."""


class Link(asyncio.Protocol):
    """`serve` is called with it in a task of its own for every connection."""

    def __init__(self, serve: Callable[[Link], None]) -> None:
        self._serve = serve
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._wanted = 0
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._out = bytearray()
        self._paused = self._full = False
        self.gone = False
        self.user = ""  # who the client says it is
        self.on_loss: Callable[[], None] | None = None

    # What asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        again = self._transport is not None  # now through TLS
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_UNSENT)
        if not again:
            self._serve(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._arrival is not None and len(self._received) >= self._wanted:
            self._wake()
        if not self._paused and len(self._received) > max(_ENOUGH, self._wanted) and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._lost()
        return False

    def connection_lost(self, _: Exception | None) -> None:
        self._lost()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _lost(self) -> None:
        if self.gone:
            return
        self.gone = True
        self._wake()
        self.resume_writing()
        if self.on_loss is not None:
            self.on_loss()

    # Reading

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes. Gone if they do not come."""
        while len(self._received) < count:
            if self.gone:
                raise Gone
            self._wanted = count
            self._resume()
            self._arrival = asyncio.get_running_loop().create_future()
            try:
                await self._arrival
            finally:
                self._arrival, self._wanted = None, 0
        taken = bytes(memoryview(self._received)[:count])
        del self._received[:count]
        return taken

    def break_off(self, error: Exception) -> None:
        """Whoever waits for bytes that have not come gets this instead."""
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_exception(error)

    async def message(self, longest: int) -> tuple[bytes, bytes]:
        """The next message: its letter and its content."""
        head = await self.read(5)
        return head[:1], await self.read(_length(head[1:], longest))

    async def first(self, longest: int) -> bytes:
        """The content of the message that a connection begins with, which has no letter."""
        return await self.read(_length(await self.read(4), longest))

    @property
    def waiting(self) -> int:
        """Bytes that have come and were not read yet."""
        return len(self._received)

    def _resume(self) -> None:
        if self._paused and self._transport is not None and not self.gone:
            self._paused = False
            self._transport.resume_reading()

    # Writing

    def say(self, data: bytes | memoryview) -> None:
        """A small answer: it is sent with those after it."""
        self._out += data
        if len(self._out) > SMALL:
            self.flush()

    def flush(self) -> None:
        if self._out and self._transport is not None and not self.gone:
            self._transport.write(bytes(self._out))
        self._out.clear()

    async def send(self, data: bytes | memoryview) -> None:
        """Rows. It comes back when most of them were taken by the client's machine; a few leave with what follows."""
        if len(data) < SMALL:
            self.say(data)
        else:
            self.flush()
            if self._transport is not None and not self.gone:
                self._transport.write(data)
        await self.drained()

    async def drained(self) -> None:
        while self._full and not self.gone:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        if self.gone:
            raise Gone

    async def start_tls(self, context: ssl.SSLContext, timeout: float) -> None:
        """From here on everything is encrypted."""
        assert self._transport is not None
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self._transport, self, context, server_side=True, ssl_handshake_timeout=timeout
            )
        except (OSError, ssl.SSLError) as error:
            raise Gone from error
        if secured is None:
            raise Gone
        self._transport = secured
        self._transport.set_write_buffer_limits(high=_UNSENT)

    def keep_alive(self) -> None:
        """A client whose machine has vanished is found out about by the system."""
        found = self._transport.get_extra_info("socket") if self._transport is not None else None
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    @property
    def secured(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("ssl_object") is not None

    @property
    def peer(self) -> str:
        """The address of the client, as logs show it."""
        name = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{name[0]}:{name[1]}" if name else "?"

    def close(self) -> None:
        """What was said is still sent."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Nothing more is sent."""
        if self._transport is not None:
            self._transport.abort()
        self._lost()


def _length(raw: bytes, longest: int) -> int:
    length = int.from_bytes(raw, "big", signed=True) - 4
    if not 0 <= length <= longest:
        raise violation("invalid message length")
    return length
