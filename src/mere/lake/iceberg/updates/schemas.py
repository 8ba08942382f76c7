"""Checks new schemas: a table of that format can have them, and every engine can read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mere.errors import UsageError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.schema import fields
from mere.lake.iceberg.updates.shapes import ID, ListOf, Record, Word, any_text, anything, boolean, text

_PRIMITIVES = {
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid"),
    "binary",
}
_OF_FORMAT_3 = {"timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"}
_FLOATS = {"float", "double"}
_FIXED = re.compile(r"fixed\[ *[0-9]{1,9} *\]")
_DECIMAL = re.compile(r"decimal\( *([0-9]{1,2}) *, *([0-9]{1,2}) *\)")
_MOST_DIGITS = 38

_FIELD = Record(
    {"id": ID, "name": text, "required": boolean, "type": anything},
    {"doc": any_text, "initial-default": anything, "write-default": anything},
)
_STRUCT = Record({"type": Word(("struct",)), "fields": ListOf(_FIELD)})
_SCHEMA = Record(_STRUCT.required, {"identifier-field-ids": ListOf(ID)})
_LIST = Record({"element-id": ID, "element": anything, "element-required": boolean})
_MAP = Record({"key-id": ID, "key": anything, "value-id": ID, "value": anything, "value-required": boolean})


def check_schema(schema: Any, version: int) -> None:
    """UsageError if no table of this format can have it."""
    try:
        _SCHEMA(schema, "schema")
        for each in schema["fields"]:
            _check_type(each["type"], version, each["name"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"The schema cannot be read: {error}.") from error
    found = list(fields(schema))
    if len({field.id for field in found}) < len(found):
        raise UsageError("The fields of a schema need ids, and no two may be equal.")
    if len({field.name for field in found}) < len(found):
        raise UsageError("No two fields of a schema may have the same name.")
    if strange := set(schema.get("identifier-field-ids") or ()) - set(_identifying(schema["fields"])):
        raise UsageError(
            f"The identifier field {min(strange)} must be a required field of a single value, and no float."
        )
    if version < 3 and any(each.get("initial-default") is not None for each in _all_fields(schema)):
        raise UsageError("Defaults for existing rows need a table of format 3.")


def _check_type(type_: Any, version: int, at: str) -> None:
    match type_:
        case {"type": "struct"}:
            _STRUCT(type_, at)
            for field in type_["fields"]:
                _check_type(field["type"], version, f"{at}.{field['name']}")
        case {"type": "list"}:
            _LIST(type_, at)
            _check_type(type_["element"], version, f"{at}.element")
        case {"type": "map"}:
            _MAP(type_, at)
            _check_type(type_["key"], version, f"{at}.key")
            _check_type(type_["value"], version, f"{at}.value")
        case str():
            _check_primitive(type_, version)
        case _:
            raise ValueError(f"{str(type_)[:100]!r} is not a type")


def _check_primitive(type_: str, version: int) -> None:
    if type_ in _PRIMITIVES or _FIXED.fullmatch(type_):
        return
    if decimal := _DECIMAL.fullmatch(type_):
        precision, scale = map(int, decimal.groups())
        if 1 <= precision <= _MOST_DIGITS and scale <= precision:
            return
    if type_.partition("(")[0].strip() in _OF_FORMAT_3:
        if version >= 3:
            return
        raise ValueError(f"the type {type_[:100]} needs a table of format 3")
    raise ValueError(f"{type_[:100]!r} is not a type")


def _identifying(given: list[Json]) -> Iterator[int]:
    """The fields that can be part of a key."""
    for field in given:
        if not field["required"]:
            continue
        if isinstance(field["type"], str):
            yield from () if field["type"] in _FLOATS else (field["id"],)
        elif field["type"]["type"] == "struct":
            yield from _identifying(field["type"]["fields"])


def _all_fields(type_: Any) -> list[Json]:
    if not isinstance(type_, dict):
        return []
    own: list[Json] = type_.get("fields", [])
    inner = [field["type"] for field in own] + [type_.get(part) for part in ("element", "key", "value")]
    return own + [field for each in inner for field in _all_fields(each)]


def highest_id(schema: Json) -> int:
    return max((field.id for field in fields(schema)), default=0)


def is_same(one: Json, other: Json) -> bool:
    ids = [set(each.get("identifier-field-ids") or ()) for each in (one, other)]
    return plain(one["fields"]) == plain(other["fields"]) and ids[0] == ids[1]


def plain(value: Any) -> Any:
    """Without what is null: some leave it out, and others write it down."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    return [plain(each) for each in value] if isinstance(value, list) else value
