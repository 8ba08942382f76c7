"""The messages of the PostgreSQL protocol, version 3, as bytes: parses the client's, builds the server's.

Every message but the first of a connection consists of a letter, the length (itself included), and the content.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mere.serve.protocol.body import Body, violation
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

_INT32 = struct.Struct("!i")


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
    return message(b"E", _fields_of(caught, severity))


def notice(caught: PgError) -> bytes:
    return message(b"N", _fields_of(caught, "NOTICE" if caught.sqlstate == "00000" else "WARNING"))


def _fields_of(caught: PgError, severity: str) -> bytes:
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
