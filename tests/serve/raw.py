"""A client that says exactly what it is told to, byte by byte."""

from __future__ import annotations

import socket
import struct
from typing import Self


def message(letter: bytes, content: bytes = b"") -> bytes:
    return letter + struct.pack("!i", len(content) + 4) + content


def query(text: str) -> bytes:
    return message(b"Q", text.encode() + b"\0")


def parse(text: str, name: str = "", oids: tuple[int, ...] = ()) -> bytes:
    return message(
        b"P", name.encode() + b"\0" + text.encode() + b"\0" + struct.pack(f"!h{len(oids)}I", len(oids), *oids)
    )


def bind(
    portal: str = "", name: str = "", values: tuple[bytes | None, ...] = (), formats: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
) -> bytes:  # fmt: skip
    body = portal.encode() + b"\0" + name.encode() + b"\0" + struct.pack(f"!h{len(formats)}h", len(formats), *formats)
    body += struct.pack("!h", len(values))
    for each in values:
        body += struct.pack("!i", -1) if each is None else struct.pack("!i", len(each)) + each
    return message(b"B", body + struct.pack(f"!h{len(results)}h", len(results), *results))


def describe(kind: bytes, name: str = "") -> bytes:
    return message(b"D", kind + name.encode() + b"\0")


def execute(portal: str = "", limit: int = 0) -> bytes:
    return message(b"E", portal.encode() + b"\0" + struct.pack("!i", limit))


def close(kind: bytes, name: str = "") -> bytes:
    return message(b"C", kind + name.encode() + b"\0")


SYNC = message(b"S")
FLUSH = message(b"H")
TERMINATE = message(b"X")

Message = tuple[bytes, bytes]


def startup(version: int = 3 << 16, **parameters: str) -> bytes:
    pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items())
    body = struct.pack("!i", version) + pairs + b"\0"
    return struct.pack("!i", len(body) + 4) + body


class Raw:
    def __init__(self, port: int, *, log_in: bool = True, **parameters: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._buffer = b""
        self.key = (0, 0)
        self.greeting: list[Message] = []
        if log_in:
            self.send(startup(3 << 16, **({"user": "ann", "database": "main"} | parameters)))
            self.greeting = self.until_ready()
            for letter, content in self.greeting:
                if letter == b"K":
                    self.key = struct.unpack("!iI", content)

    def send(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the server has hung up")
            self._buffer += more
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def message(self) -> Message:
        letter = self.read(1)
        (length,) = struct.unpack("!i", self.read(4))
        return letter, self.read(length - 4)

    def until_ready(self) -> list[Message]:
        found: list[Message] = []
        while not found or found[-1][0] != b"Z":
            found.append(self.message())
        return found

    def ask(self, *data: bytes) -> list[Message]:
        self.send(*data)
        return self.until_ready()

    def rest(self) -> list[Message]:
        """All up to the end of the connection."""
        found = []
        while True:
            try:
                found.append(self.message())
            except (ConnectionError, TimeoutError):
                return found

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def letters(found: list[Message]) -> str:
    return b"".join(letter for letter, _ in found).decode()


def rows(found: list[Message]) -> list[list[bytes | None]]:
    listed = []
    for letter, content in found:
        if letter != b"D":
            continue
        (count,), at, row = struct.unpack_from("!h", content), 2, []
        for _ in range(count):
            (size,) = struct.unpack_from("!i", content, at)
            row.append(None if size == -1 else content[at + 4 : at + 4 + size])
            at += 4 + max(size, 0)
        listed.append(row)
    return listed


def tags(found: list[Message]) -> list[str]:
    return [content[:-1].decode() for letter, content in found if letter == b"C"]


def errors(found: list[Message]) -> list[dict[str, str]]:
    return [
        {part[:1]: part[1:] for part in content.decode().split("\0") if part}
        for letter, content in found
        if letter == b"E"
    ]


def sqlstates(found: list[Message]) -> list[str]:
    return [each["C"] for each in errors(found)]


def notices(found: list[Message]) -> list[str]:
    return [
        next(part[1:] for part in content.decode().split("\0") if part.startswith("C"))
        for letter, content in found
        if letter == b"N"
    ]
