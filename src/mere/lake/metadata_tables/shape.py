"""What a metadata table is to whoever reads it: columns in Iceberg's words, and rows that come as they are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.types import TypeVisitor
from mere.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa

Row = Sequence[Any]
_BATCH = 2048  # rows
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True)
class MetadataTable:
    name: TableName
    schema: Json
    rows: Callable[[], Iterable[Row]]
    lasts: bool = True  # whether it has the same rows whenever it is read at a commit

    @property
    def columns(self) -> list[str]:
        return [field["name"] for field in self.schema["fields"]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        types = [arrow_type(field["type"]) for field in self.schema["fields"]]
        rows = iter(self.rows())
        while page := list(islice(rows, _BATCH)):
            arrays = [pa.array(values, type_) for values, type_ in zip(zip(*page, strict=True), types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=self.columns)


def schema(*columns: tuple[str, Any, str]) -> Json:
    """By name, type and comment."""
    return {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": id_, "name": name, "type": type_, "required": False, "doc": doc}
            for id_, (name, type_, doc) in enumerate(columns, 1)
        ],
    }


def list_of(element: Any) -> Json:
    return {"type": "list", "element": element, "element-id": 0, "element-required": False}


def map_of(key: Any, value: Any) -> Json:
    return {"type": "map", "key": key, "key-id": 0, "value": value, "value-id": 0, "value-required": False}


def struct_of(fields: Iterable[tuple[str, Any]]) -> Json:
    ids = count(1)
    return {
        "type": "struct",
        "fields": [{"id": next(ids), "name": name, "type": type_, "required": False} for name, type_ in fields],
    }


def instant(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _primitive(type_: str) -> pa.DataType:
    import pyarrow as pa

    if decimal := _DECIMAL.fullmatch(type_):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return {
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"),
        "timestamptz": pa.timestamp("us", "UTC"),
        "timestamp_ns": pa.timestamp("ns"),
        "timestamptz_ns": pa.timestamp("ns", "UTC"),
        "binary": pa.binary(),
    }.get(type_, pa.string())


def _arrow_list(element: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return pa.list_(element)


def _arrow_map(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return pa.map_(key, value)


def _arrow_struct(fields: Sequence[tuple[Json, pa.DataType]]) -> pa.DataType:
    import pyarrow as pa

    return pa.struct([(field["name"], type_) for field, type_ in fields])


arrow_type: TypeVisitor[pa.DataType] = TypeVisitor(_primitive, _arrow_list, _arrow_map, _arrow_struct)
