"""Values as manifests have them: of partitions, typed; of bounds, as text."""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.iceberg.schema import fields

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DAY_ZERO, _ZERO = date(1970, 1, 1), datetime(1970, 1, 1)
_FIRST_FIELD = 1000  # of partition fields, in tables that do not number them


@dataclass(frozen=True)
class PartitionField:
    id: int
    name: str
    type: str


class Partitioning:
    """The partitions of all files of a table, whatever specs they were written with: one field for each that any has.

    The same as Spark's column `partition`: in the order of the fields' ids, with the name that the newest spec gives.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._specs = {
            id_: [(each.get("field-id", _FIRST_FIELD + at), each) for at, each in enumerate(spec)]
            for id_, spec in metadata.specs.items()
        }
        self._types = types_of(metadata)

    @cached_property
    def fields(self) -> tuple[PartitionField, ...]:
        found: dict[int, tuple[str, Json]] = {}
        for _, spec in sorted(self._specs.items(), reverse=True):
            for id_, each in spec:
                name, known = found.get(id_, (each["name"], each))
                # A field that was removed from a table of the first format lives on without a transform.
                found[id_] = name, each if known["transform"] == "void" else known
        return tuple(PartitionField(id_, name, self._type(each)) for id_, (name, each) in sorted(found.items()))

    def _type(self, each: Json) -> str:
        transform = str(each.get("transform"))
        if transform == "day":
            return "date"
        if transform.startswith("bucket") or transform in ("year", "month", "hour"):
            return "int"
        return _plain(self._types.get((each.get("source-ids") or [each.get("source-id")])[0], "string"))

    def struct(self, spec: int, values: Sequence[Any]) -> dict[str, Any]:
        """Of one file: a field that its spec does not have is NULL."""
        given = {id_: value for (id_, _), value in zip(self._specs.get(spec, ()), values, strict=False)}
        return {each.name: typed(each.type, given.get(each.id)) for each in self.fields}

    def texts_of(self, spec: int, values: Sequence[Any]) -> dict[str, str]:
        """Of one file: the fields of its spec alone."""
        ids = {id_ for id_, each in self._specs.get(spec, ()) if each.get("transform") != "void"}
        given = self.struct(spec, values)
        return {each.name: shown(each.type, given[each.name]) for each in self.fields if each.id in ids}

    def texts(self, spec: int, values: Sequence[bytes | None]) -> list[str | None]:
        """Bounds of a manifest's partitions, in the order of the spec's fields."""
        types = [self._type(each) for _, each in self._specs.get(spec, ())]
        return [text(type_, value) for type_, value in zip(types, values, strict=False)]


def types_of(metadata: Metadata) -> dict[int, str]:
    """Of all columns that the table ever had, by id."""
    older = {each.id: each.type for schema in metadata.schemas.values() for each in fields(schema)}
    return older | {each.id: each.type for each in fields(metadata.schema)}


def _plain(type_: str) -> str:
    return "string" if type_ == "uuid" else "binary" if type_.startswith("fixed[") else type_


def typed(type_: str, value: Any) -> Any:
    """A partition's value for Arrow, which takes dates and times as the numbers that they are."""
    if value is None:
        return None
    if decimal := _DECIMAL.fullmatch(type_):
        return _decimal(value, int(decimal[2])) if isinstance(value, bytes) else value
    if type_ == "string" and isinstance(value, bytes):
        return str(UUID(bytes=value)) if len(value) == 16 else value.decode(errors="replace")
    return value


def shown(type_: str, value: Any) -> str:
    """A partition's value, as people write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if type_ in _TEXTS and isinstance(value, int):
        return text(type_, value.to_bytes(8, "little", signed=True)) or str(value)
    return _of_bytes(value) if isinstance(value, bytes) else str(value)


def text(type_: str, value: bytes | None) -> str | None:
    """A bound, as people write such a value; None where there is none, or where it is none of this type."""
    if value is None:
        return None
    decimal = _DECIMAL.fullmatch(type_)
    try:
        if decimal:
            return str(_decimal(value, int(decimal[2])))
        return _TEXTS.get(type_, _of_bytes)(value)
    except (ValueError, struct.error, OverflowError):
        return None


def _decimal(value: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale)


def _number(value: bytes) -> int:
    """Of four or eight bytes, whichever: a column may have been an int before it became a long."""
    return int.from_bytes(value, "little", signed=True)


def _of_float(value: bytes) -> str:
    return repr(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])


def _of_date(value: bytes) -> str:
    return (_DAY_ZERO + timedelta(days=_number(value))).isoformat()


def _of_time(value: bytes) -> str:
    return (_ZERO + timedelta(microseconds=_number(value))).time().isoformat()


def _at(value: bytes, ticks: int = 1) -> datetime:
    if len(value) == 4:  # it was a date
        return _ZERO + timedelta(days=_number(value))
    return _ZERO + timedelta(microseconds=_number(value) // ticks)


def _of_bytes(value: bytes) -> str:
    return b64encode(value).decode()


_TEXTS: Mapping[str, Callable[[bytes], str]] = {
    "boolean": lambda value: "true" if any(value) else "false",
    "int": lambda value: str(_number(value)),
    "long": lambda value: str(_number(value)),
    "float": _of_float,
    "double": _of_float,
    "date": _of_date,
    "time": _of_time,
    "timestamp": lambda value: _at(value).isoformat(),
    "timestamptz": lambda value: _at(value).replace(tzinfo=UTC).isoformat(),
    "timestamp_ns": lambda value: _at(value, 1000).isoformat(),
    "timestamptz_ns": lambda value: _at(value, 1000).replace(tzinfo=UTC).isoformat(),
    "string": lambda value: value.decode(),
    "uuid": lambda value: str(UUID(bytes=value)),
}
