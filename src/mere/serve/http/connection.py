"""Limits the connections to the HTTP port: how many there are, and how long a client may keep the server waiting.

uvicorn itself waits without limit for the rest of a request, and for a client to read its answer.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from mere.serve.http.errors import HttpError, bad_request

MOST = 500  # connections
HEAD = 30.0  # seconds for all of a request before its body
STALLED = 60.0  # seconds in which a client reads nothing of its answer


class Connection(H11Protocol):
    _head: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST:
            busy = f"{MOST} clients are connected already."
            self._refuse(HttpError(503, "ServiceUnavailableException", busy, {"Retry-After": "1"}))
            return
        self._head = self.loop.call_later(HEAD, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_sending()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering:
            self._stop_waiting()
        elif self._head is None and not self.transport.is_closing():
            self._head = self.loop.call_later(HEAD, self._close)

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _close(self) -> None:
        self._head = None
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._sending = self.loop.call_later(STALLED, self._look, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._stop_sending()
        super().resume_writing()

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    def _look(self, left: int) -> None:
        """Waits for a client that is slow, and not for one that reads nothing."""
        now = self.transport.get_write_buffer_size()
        if now >= left:
            self.transport.abort()
        else:
            self._sending = self.loop.call_later(STALLED, self._look, now)

    def send_400_response(self, msg: str) -> None:
        """For what is not HTTP. An answer that has begun is cut off."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(bad_request(msg))
        else:
            self.transport.close()

    def _refuse(self, error: HttpError) -> None:
        content = error.body()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), "Connection": "close"}
        start = h11.Response(status_code=error.status, headers=list({**headers, **error.headers}.items()))
        for event in (start, h11.Data(data=content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
