"""The content of a message, or of a value in it, read from start to end."""

from __future__ import annotations

import struct

from mere.serve.protocol.port import PgError

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")


class Body:
    """The content, read from its begin to its end. What does not fit is 08P01."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def int16(self) -> int:
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.take(4))[0])

    def count(self) -> int:
        """A number of things that follow: as many as two bytes can say, without a sign."""
        return self.int16() & 0xFFFF

    def take(self, length: int) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._content):
            raise violation("insufficient data left in message")
        taken = self._content[self._at : end]
        self._at = end
        return taken

    def text(self) -> str:
        """Up to a zero byte."""
        end = self._content.find(b"\0", self._at)
        if end < 0:
            raise violation("invalid string in message")
        raw = self._content[self._at : end]
        self._at = end + 1
        return utf8(raw)

    def value(self) -> bytes | None:
        """What a length stands before; -1 is NULL."""
        length = self.int32()
        return None if length == -1 else self.take(length)

    def rest(self) -> bytes:
        return self.take(len(self._content) - self._at)

    def end(self) -> None:
        if self._at != len(self._content):
            raise violation("invalid message format")

    @property
    def left(self) -> int:
        return len(self._content) - self._at


def utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        shown = " ".join(f"0x{byte:02x}" for byte in raw[error.start : error.start + 4])
        raise PgError("22021", f'invalid byte sequence for encoding "UTF8": {shown}') from error


def violation(message: str) -> PgError:
    return PgError("08P01", message)
