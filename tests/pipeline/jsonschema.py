"""As much of JSON Schema as mere's own schemas use; an unknown keyword is an error, so that none is passed over."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_NO_RULES = {"$schema", "$defs", "title", "description", "items", "properties", "additionalProperties"}


def wrong(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str = "$") -> list[str]:
    """Where and how a value breaks a schema."""
    found = [each for keyword, rule in schema.items() for each in _broken(keyword, rule, value, root, at)]
    if isinstance(value, list) and "items" in schema:
        found += [each for n, item in enumerate(value) for each in wrong(item, schema["items"], root, f"{at}[{n}]")]
    if isinstance(value, dict):
        found += [each for name, item in value.items() for each in _member(name, item, schema, root, at)]
    return found


def _broken(keyword: str, rule: Any, value: Any, root: dict[str, Any], at: str) -> list[str]:
    match keyword:
        case "$ref":
            return wrong(value, root["$defs"][rule.removeprefix("#/$defs/")], root, at)
        case "anyOf":
            tried = [wrong(value, each, root, at) for each in rule]
            return [f"{at}: {value!r} fits none: {tried}"] if all(tried) else []
        case "const" | "enum":
            return [] if value in ([rule] if keyword == "const" else rule) else [f"{at}: {value!r} is not {rule}"]
        case "type":
            is_one = any(_is(value, kind) for kind in ([rule] if isinstance(rule, str) else rule))
            return [] if is_one else [f"{at}: {value!r} is not of type {rule}"]
        case "pattern":
            return [f"{at}: {value!r} does not match"] if isinstance(value, str) and not re.search(rule, value) else []
        case "required":
            return [f"{at}.{name} is missing" for name in rule if isinstance(value, dict) and name not in value]
    assert keyword in _NO_RULES, keyword
    return []


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])


def _member(name: str, value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> list[str]:
    below = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
    return [f"{at}.{name} is not in the schema"] if below is False else wrong(value, below, root, f"{at}.{name}")
