"""A small HTTP port beside the server, for monitoring: /health and /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

_LONGEST = 8192  # bytes of a request
_PATIENCE = 5.0  # seconds

Page = Callable[[], tuple[int, str]]  # the status and the text


class Monitor:
    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """The port, which the machine chooses for 0."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_LONGEST)
        return int(self._server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(request))
                await writer.drain()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    def _answer(self, request: bytes) -> bytes:
        verb, _, rest = request.partition(b" ")
        page = self._pages.get(rest.split(b" ", 1)[0].split(b"?", 1)[0].decode(errors="replace"))
        if verb not in (b"GET", b"HEAD"):
            status, text = 405, "only GET\n"
        else:
            status, text = page() if page is not None else (404, f"{' '.join(self._pages)}\n")
        content = text.encode()
        head = (
            f"HTTP/1.1 {status} {'OK' if status == 200 else 'NO'}\r\nContent-Type: text/plain; version=0.0.4\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (content if verb == b"GET" else b"")
