"""JSON Schema, as much of it as the API needs: said once, it checks what clients send and describes what they get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mere.names import near

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
LINE: Schema = {"type": "string", "maxLength": 1000}  # that a client sends
NUMBER: Schema = {"type": "number"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
ANY: Schema = {}

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,), "array": (list,),
    "object": (dict,), "null": (type(None),),
}  # fmt: skip
_LONGEST = 100  # of a value that stands in a message, in letters


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]} if "type" in schema else {"anyOf": [schema, {"type": "null"}]}


def list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def map_of(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def about(schema: Schema, description: str, **more: Any) -> Schema:
    return {**schema, "description": description, **more}


def record(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, more: bool = False) -> Schema:
    """An object with these members, and others only if there may be `more`."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": more,
    }


def wrong(value: object, schema: Schema, known: Mapping[str, Schema], at: str = "") -> Iterator[str]:
    """Where and how a value breaks a schema. `known`: those that it may refer to by name."""
    if "$ref" in schema:
        yield from wrong(value, known[schema["$ref"].rpartition("/")[2]], known, at)
        return
    if "anyOf" in schema:
        if all(any(True for _ in wrong(value, each, known, at)) for each in schema["anyOf"]):
            yield f"{at or 'the body'} has no valid form"
        return
    if (type_ := schema.get("type")) and not _is(value, type_):
        words = type_ if isinstance(type_, str) else " or ".join(type_)
        yield f"{at or 'the body'} must be {_article(words)} {words}, not {_shown(value)}"
        return
    if "enum" in schema and value not in schema["enum"] and value is not None:
        yield f"{at} is none of: {', '.join(schema['enum'])}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        yield f"{at} is longer than {schema['maxLength']} letters"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            yield f"{at} must be from {low} to {high}"
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from wrong(item, schema["items"], known, f"{at}[{number}]")
    if isinstance(value, dict):
        yield from _wrong_members(value, schema, known, at)


def _wrong_members(value: Mapping[Any, Any], schema: Schema, known: Mapping[str, Schema], at: str) -> Iterator[str]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    unknown = [name for name in value if name not in properties] if others is False else []
    for name in unknown:  # one that is mistyped is told before it is missed under its right name
        yield f"there is no member {_below(at, _shown(name))}.{near(_shown(name), properties)}"
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_below(at, name)} is missing"
    for name, item in value.items():
        if name in properties:
            yield from wrong(item, properties[name], known, _below(at, name))
        elif isinstance(others, dict):
            yield from wrong(item, others, known, _below(at, name))


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _is(value: object, type_: str | Sequence[str]) -> bool:
    if not isinstance(type_, str):
        return any(_is(value, each) for each in type_)
    if isinstance(value, bool):
        return type_ == "boolean"
    return isinstance(value, _TYPES[type_])


def _article(words: str) -> str:
    return "an" if words[0] in "aio" else "a"


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
