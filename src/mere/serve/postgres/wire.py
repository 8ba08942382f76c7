"""The messages of the PostgreSQL protocol, version 3, as bytes: those of a client are read, those of a server built.

Every message but the first of a connection is a letter, the length of the rest with itself in it, and the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mere.serve.protocol.port import Field, PgError

PROTOCOL = 3 << 16  # 3.0
SSL_REQUEST = 1234 << 16 | 5679
GSS_REQUEST = 1234 << 16 | 5680
CANCEL_REQUEST = 1234 << 16 | 5678

AUTHENTICATED, SASL, SASL_GO_ON, SASL_DONE = 0, 10, 11, 12

PARSE_COMPLETE = b"1\0\0\0\4"
BIND_COMPLETE = b"2\0\0\0\4"
CLOSE_COMPLETE = b"3\0\0\0\4"
NO_DATA = b"n\0\0\0\4"
PORTAL_SUSPENDED = b"s\0\0\0\4"
EMPTY_QUERY = b"I\0\0\0\4"
COPY_DONE = b"c\0\0\0\4"

_INT16 = struct.Struct("!h")
_INT32 = struct.Struct("!i")


class Body:
    """The content of one message, read from its begin to its end. What does not fit is 08P01."""

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


@dataclass(frozen=True)
class Parse:
    name: str
    text: str
    oids: tuple[int, ...]

    @classmethod
    def read(cls, content: bytes) -> Parse:
        body = Body(content)
        name, text = body.text(), body.text()
        oids = tuple(body.int32() & 0xFFFFFFFF for _ in range(body.count()))
        body.end()
        return cls(name, text, oids)


@dataclass(frozen=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]  # of the values: none, one for all, or one for each
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]  # the formats of the columns, in the same way

    @classmethod
    def read(cls, content: bytes) -> Bind:
        body = Body(content)
        portal, statement = body.text(), body.text()
        formats = tuple(body.int16() for _ in range(body.count()))
        values = tuple(body.value() for _ in range(body.count()))
        results = tuple(body.int16() for _ in range(body.count()))
        body.end()
        return cls(portal, statement, formats, values, results)


def spread(formats: Sequence[int], count: int, what: str) -> tuple[int, ...]:
    """A format for each: 0 is text, 1 is binary."""
    if any(each not in (0, 1) for each in formats):
        raise PgError("22023", f"unsupported format code: {next(each for each in formats if each not in (0, 1))}")
    if len(formats) <= 1:
        return (formats[0] if formats else 0,) * count
    if len(formats) != count:
        raise violation(f"bind message has {len(formats)} {what} formats but {count} {what}s")
    return tuple(formats)


def message(letter: bytes, *parts: bytes) -> bytes:
    return b"%c%b%b" % (letter, _INT32.pack(4 + sum(map(len, parts))), b"".join(parts))


def zero(text: str) -> bytes:
    """A text with the zero byte that ends it; one inside of it would end it too early."""
    return text.replace("\0", "").encode(errors="replace") + b"\0"


def authentication(kind: int, content: bytes = b"") -> bytes:
    return message(b"R", _INT32.pack(kind), content)


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", zero(name), zero(value))


def backend_key(process: int, secret: int) -> bytes:
    return message(b"K", struct.pack("!iI", process, secret))


def ready(status: bytes) -> bytes:
    return message(b"Z", status)


def negotiate(options: Sequence[str]) -> bytes:
    """The newest protocol that is spoken here, and the options of the start-up that are not known."""
    return message(b"v", _INT32.pack(PROTOCOL), _INT32.pack(len(options)), *map(zero, options))


def command_complete(tag: str) -> bytes:
    return message(b"C", zero(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def row_description(fields: Sequence[Field], formats: Sequence[int]) -> bytes:
    parts = [
        zero(each.name) + struct.pack("!IhIhih", each.table, each.number, each.oid, each.size, each.modifier, format_)
        for each, format_ in zip(fields, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(fields)), *parts)


def copy_out(formats: Sequence[int]) -> bytes:
    return message(b"H", struct.pack(f"!bH{len(formats)}h", max(formats, default=0), len(formats), *formats))


def error(caught: PgError, severity: str = "ERROR") -> bytes:
    return message(b"E", _told(caught, severity))


def notice(caught: PgError) -> bytes:
    return message(b"N", _told(caught, "WARNING"))


def _told(caught: PgError, severity: str) -> bytes:
    parts: Mapping[str, str | None] = {
        "S": severity,
        "V": severity,  # the same, never translated
        "C": caught.sqlstate,
        "M": caught.message,
        "D": caught.detail,
        "H": caught.hint,
        "P": str(caught.position) if caught.position else None,
    }
    return b"".join(key.encode() + zero(value) for key, value in parts.items() if value is not None) + b"\0"
