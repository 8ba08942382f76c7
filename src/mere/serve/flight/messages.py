"""The messages of Flight SQL that are understood, and how they look as bytes.

They are protocol buffers, of which the few kinds that these messages need are read and written here. The names are
those of the specification: a message travels with its name, inside of an `Any`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from mere.serve.protocol.port import PgError

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # how a value is laid out


def text(number: int) -> Any:
    return field(default="", metadata={"number": number, "kind": str})


def optional_text(number: int) -> Any:
    """A text of which it matters whether it is there."""
    return field(default=None, metadata={"number": number, "kind": str})


def data(number: int) -> Any:
    return field(default=b"", metadata={"number": number, "kind": bytes})


def flag(number: int) -> Any:
    return field(default=False, metadata={"number": number, "kind": bool})


def texts(number: int) -> Any:
    return field(default=(), metadata={"number": number, "kind": str, "many": True})


def numbers(number: int) -> Any:
    return field(default=(), metadata={"number": number, "kind": int, "many": True})


@dataclass(frozen=True)
class Message:
    pass


Kind = TypeVar("Kind", bound=Message)


@dataclass(frozen=True)
class CommandStatementQuery(Message):
    query: str = text(1)
    transaction_id: bytes = data(2)


@dataclass(frozen=True)
class TicketStatementQuery(Message):
    statement_handle: bytes = data(1)


@dataclass(frozen=True)
class CommandPreparedStatementQuery(Message):
    prepared_statement_handle: bytes = data(1)


@dataclass(frozen=True)
class CommandStatementUpdate(Message):
    query: str = text(1)


@dataclass(frozen=True)
class CommandPreparedStatementUpdate(Message):
    prepared_statement_handle: bytes = data(1)


@dataclass(frozen=True)
class CommandGetSqlInfo(Message):
    info: tuple[int, ...] = numbers(1)


@dataclass(frozen=True)
class CommandGetCatalogs(Message):
    pass


@dataclass(frozen=True)
class CommandGetDbSchemas(Message):
    catalog: str | None = optional_text(1)
    db_schema_filter_pattern: str | None = optional_text(2)


@dataclass(frozen=True)
class CommandGetTables(Message):
    catalog: str | None = optional_text(1)
    db_schema_filter_pattern: str | None = optional_text(2)
    table_name_filter_pattern: str | None = optional_text(3)
    table_types: tuple[str, ...] = texts(4)
    include_schema: bool = flag(5)


@dataclass(frozen=True)
class CommandGetTableTypes(Message):
    pass


@dataclass(frozen=True)
class CommandGetPrimaryKeys(Message):
    catalog: str | None = optional_text(1)
    db_schema: str | None = optional_text(2)
    table: str = text(3)


@dataclass(frozen=True)
class ActionCreatePreparedStatementRequest(Message):
    query: str = text(1)
    transaction_id: bytes = data(2)


@dataclass(frozen=True)
class ActionCreatePreparedStatementResult(Message):
    prepared_statement_handle: bytes = data(1)
    dataset_schema: bytes = data(2)
    parameter_schema: bytes = data(3)


@dataclass(frozen=True)
class ActionClosePreparedStatementRequest(Message):
    prepared_statement_handle: bytes = data(1)


@dataclass(frozen=True)
class ActionBeginTransactionRequest(Message):
    pass


@dataclass(frozen=True)
class ActionBeginTransactionResult(Message):
    transaction_id: bytes = data(1)


@dataclass(frozen=True)
class ActionEndTransactionRequest(Message):
    transaction_id: bytes = data(1)


@dataclass(frozen=True)
class DoPutPreparedStatementResult(Message):
    prepared_statement_handle: bytes = data(1)


_KNOWN: dict[str, type[Message]] = {each.__name__: each for each in Message.__subclasses__()}


def pack(message: Message) -> bytes:
    """With its name."""
    url = (_PREFIX + type(message).__name__).encode()
    return _sized(1, url) + _sized(2, encode(message))


def unpack(raw: bytes) -> Message:
    """PgError 08P01 where it is no message, 0A000 where it is one that is not understood."""
    found = {number: value for number, value in _values(raw) if isinstance(value, bytes)}
    url = _decoded(found.get(1, b""))
    if not url.startswith(_PREFIX):
        raise _malformed()
    name = url.removeprefix(_PREFIX)
    known = _KNOWN.get(name)
    if known is None:
        raise PgError("0A000", f"{name[:100]} is not supported")
    return decode(known, found.get(2, b""))


def encode(message: Message) -> bytes:
    made = b""
    for each in fields(message):
        value, number = getattr(message, each.name), each.metadata["number"]
        for one in value if each.metadata.get("many") else [value]:
            if one is None or (one == each.default and not each.metadata.get("many")):
                continue
            made += _varint(number << 3 | _VARINT) + _varint(int(one)) if isinstance(one, int) else _sized(number, one)
    return made


def decode(kind: type[Kind], raw: bytes) -> Kind:
    """What the message does not know is left out; of a value that is there twice, the last counts."""
    known = {each.metadata["number"]: each for each in fields(kind)}
    found: dict[str, Any] = {}
    for number, value in _values(raw):
        each = known.get(number)
        if each is None:
            continue
        if each.metadata.get("many"):
            found[each.name] = (*found.get(each.name, ()), *_repeated(each.metadata["kind"], value))
        else:
            found[each.name] = _value(each.metadata["kind"], value)
    return kind(**found)


def _value(kind: type, value: int | bytes) -> Any:
    if kind in (int, bool):
        if not isinstance(value, int):
            raise _malformed()
        return kind(value)
    if not isinstance(value, bytes):
        raise _malformed()
    return _decoded(value) if kind is str else value


def _repeated(kind: type, value: int | bytes) -> Iterator[Any]:
    if kind is not int or isinstance(value, int):
        yield _value(kind, value)
        return
    at = 0
    while at < len(value):  # numbers come together
        number, at = _read_varint(value, at)
        yield number


def _values(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number of each value, and the value: bytes where it has a length."""
    at = 0
    while at < len(raw):
        tag, at = _read_varint(raw, at)
        number, layout = tag >> 3, tag & 7
        if layout == _VARINT:
            value, at = _read_varint(raw, at)
            yield number, value
            continue
        if layout == _BYTES:
            length, at = _read_varint(raw, at)
        elif layout in (_EIGHT, _FOUR):
            length = 8 if layout == _EIGHT else 4
        else:
            raise _malformed()
        if at + length > len(raw):
            raise _malformed()
        yield number, raw[at : at + length]
        at += length


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            break
        byte, at = raw[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise _malformed()


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _sized(number: int, value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(raw)) + raw


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _malformed() from error


def _malformed() -> PgError:
    return PgError("08P01", "this is not a message of Flight SQL")
