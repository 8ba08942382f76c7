"""The messages of Flight SQL that are understood, and their bytes.

Their names, their fields and the order of these are those of the specification, which numbers the fields from 1 on. A
message travels with its name, inside of an `Any`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from mere.serve.protocol.port import PgError

_PACKAGE = "arrow.flight.protocol.sql"
_PREFIX = f"type.googleapis.com/{_PACKAGE}."


@dataclass(frozen=True)
class Message:
    pass


Kind = TypeVar("Kind", bound=Message)


@dataclass(frozen=True)
class CommandStatementQuery(Message):
    query: str = ""
    transaction_id: bytes = b""


@dataclass(frozen=True)
class TicketStatementQuery(Message):
    statement_handle: bytes = b""


@dataclass(frozen=True)
class CommandPreparedStatementQuery(Message):
    prepared_statement_handle: bytes = b""


@dataclass(frozen=True)
class CommandGetSqlInfo(Message):
    info: tuple[int, ...] = ()


@dataclass(frozen=True)
class CommandGetCatalogs(Message):
    pass


@dataclass(frozen=True)
class CommandGetDbSchemas(Message):
    catalog: str | None = None
    db_schema_filter_pattern: str | None = None


@dataclass(frozen=True)
class CommandGetTables(Message):
    catalog: str | None = None
    db_schema_filter_pattern: str | None = None
    table_name_filter_pattern: str | None = None
    table_types: tuple[str, ...] = ()
    include_schema: bool = False


@dataclass(frozen=True)
class CommandGetTableTypes(Message):
    pass


@dataclass(frozen=True)
class CommandGetPrimaryKeys(Message):
    catalog: str | None = None
    db_schema: str | None = None
    table: str = ""


@dataclass(frozen=True)
class ActionCreatePreparedStatementRequest(Message):
    query: str = ""
    transaction_id: bytes = b""


@dataclass(frozen=True)
class ActionCreatePreparedStatementResult(Message):
    prepared_statement_handle: bytes = b""
    dataset_schema: bytes = b""
    parameter_schema: bytes = b""


@dataclass(frozen=True)
class ActionClosePreparedStatementRequest(Message):
    prepared_statement_handle: bytes = b""


@dataclass(frozen=True)
class ActionBeginTransactionRequest(Message):
    pass


@dataclass(frozen=True)
class ActionBeginTransactionResult(Message):
    transaction_id: bytes = b""


@dataclass(frozen=True)
class ActionEndTransactionRequest(Message):
    transaction_id: bytes = b""


@dataclass(frozen=True)
class DoPutPreparedStatementResult(Message):
    prepared_statement_handle: bytes = b""


_WRITES = ("CommandStatementUpdate", "CommandPreparedStatementUpdate", "CommandStatementIngest")
_KNOWN: dict[str, type[Message]] = {each.__name__: each for each in Message.__subclasses__()}
_ONE = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_MANY = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
# By how a field is annotated above. Of a text that may be None it matters whether it is there.
_FIELDS: dict[Any, dict[str, Any]] = {
    "str": {"type": descriptor_pb2.FieldDescriptorProto.TYPE_STRING, "label": _ONE},
    "str | None": {"type": descriptor_pb2.FieldDescriptorProto.TYPE_STRING, "label": _ONE, "proto3_optional": True},
    "bytes": {"type": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES, "label": _ONE},
    "bool": {"type": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL, "label": _ONE},
    "tuple[str, ...]": {"type": descriptor_pb2.FieldDescriptorProto.TYPE_STRING, "label": _MANY},
    "tuple[int, ...]": {"type": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32, "label": _MANY},
}


_classes: dict[type[Message], Any] = {}


def _class(kind: type[Message]) -> Any:
    """What the library of protocol buffers makes of it."""
    if kind not in _classes:
        _classes[kind] = _made(kind)
    return _classes[kind]


def _made(kind: type[Message]) -> Any:
    name = kind.__name__
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=_PACKAGE, syntax="proto3")
    made = file.message_type.add(name=name)
    for number, each in enumerate(fields(kind), 1):
        field = made.field.add(name=each.name, number=number, **_FIELDS[each.type])
        if field.proto3_optional:  # which is written as a choice of one
            field.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{each.name}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def pack(message: Message) -> bytes:
    """With its name."""
    name = type(message).__name__
    return bytes(any_pb2.Any(type_url=f"{_PREFIX}{name}", value=encode(message)).SerializeToString())


def unpack(raw: bytes) -> Message:
    """PgError 08P01 where it is no message, 25006 where it would write, 0A000 where it is not understood."""
    found = _parsed(any_pb2.Any, raw)
    if not found.type_url.startswith(_PREFIX):
        raise _malformed()
    name = found.type_url.removeprefix(_PREFIX)
    if name in _WRITES:
        raise PgError("25006", "nothing can be written: the lake is read only here")
    known = _KNOWN.get(name)
    if known is None:
        raise PgError("0A000", f"{name[:100]} is not supported")
    return decode(known, found.value)


def encode(message: Message) -> bytes:
    return bytes(_class(type(message))(**vars(message)).SerializeToString())


def decode(kind: type[Kind], raw: bytes) -> Kind:
    """What the message does not know is left out."""
    sent = _parsed(_class(kind), raw).ListFields()
    return kind(**{each.name: value if isinstance(value, str | bytes | bool) else tuple(value) for each, value in sent})


def _parsed(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise _malformed() from error


def _malformed() -> PgError:
    return PgError("08P01", "this is not a message of Flight SQL")
