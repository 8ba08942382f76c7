"""A TCP proxy that can cut a connection at a chosen moment, keep it waiting or answer itself, as a network does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from tests.services.postgres import free_port


class Proxy:
    """Forwards to a port. `cut(sent)` is asked for every piece the client sends: None lets it pass, "before" drops
    the connection and the piece, "after" lets the piece through and drops the connection and the reply, "never" keeps
    the client waiting. Bytes are an answer that is given in the server's place."""

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self.cut: Callable[[bytes], str | bytes | None] = lambda _: None
        self.cuts = 0
        self._to = port
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._backward, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(65536):
                when = self.cut(piece)
                if when is None:
                    server.sendall(piece)
                    continue
                self.cuts += 1
                self._cut(when, piece, client, server)
                break
        for side in (client, server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def _cut(self, when: str | bytes, piece: bytes, client: socket.socket, server: socket.socket) -> None:
        if isinstance(when, bytes):
            client.sendall(when)
        elif when == "never":
            self._closed.wait(30)
        elif when == "after":
            # The reply must not overtake the cut.
            client.shutdown(socket.SHUT_RDWR)
            server.sendall(piece)
            time.sleep(0.3)  # the server does what it was told before it is cut off

    @staticmethod
    def _backward(server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := server.recv(65536):
                client.sendall(piece)
        with contextlib.suppress(OSError):
            client.close()
