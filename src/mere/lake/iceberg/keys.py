"""The key of a table: the columns that identify each of its rows.

A model leaves them in the property `mere.key`. Where Iceberg allows it, they are the table's identifier fields as well,
for engines that look there: these have to be required, of one value, and no floats. Nothing is made required for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mere.lake.iceberg.properties import KEY

_NAME = re.compile(r'(?:^|,)\s*(?:("(?:[^"]|"")*")\s*(?=,|$)|([^,]*))')
_FLOATS = ("float", "double")

Json = Mapping[str, Any]


def key_names(properties: Mapping[str, str]) -> list[str]:
    text = properties.get(KEY)
    return names_in(text) if text else []


def names_in(text: str) -> list[str]:
    """Names with commas between them. One that has a comma itself stands in quotes, as in CSV: `id, "last, first"`."""
    return [
        quoted[1:-1].replace('""', '"') if (quoted := found[1]) else found[2].strip() for found in _NAME.finditer(text)
    ]


def as_text(names: Iterable[str]) -> str:
    return ",".join(map(_written, names))


def _written(name: str) -> str:
    is_plain = "," not in name and not name.startswith('"') and name == name.strip() and name
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def identified(raw: Json) -> dict[str, Any]:
    """The metadata with identifier fields as its property says. They go into another schema, for none ever changes."""
    schemas: list[Json] = list(raw.get("schemas") or ())
    current = next((each for each in schemas if each.get("schema-id") == raw.get("current-schema-id")), None)
    if current is None or "table-uuid" not in raw:
        return dict(raw)
    wanted = _identifier(current, key_names(raw.get("properties", {})))
    found = next((each for each in (current, *schemas) if _is_like(each, current["fields"], wanted)), None)
    if found is not None:
        return {**raw, "current-schema-id": found["schema-id"]}
    id_ = max(each["schema-id"] for each in schemas) + 1
    new = {**current, "schema-id": id_, "identifier-field-ids": wanted}
    return {**raw, "schemas": [*schemas, new], "current-schema-id": id_}


def _is_like(schema: Json, fields: Any, identifier: list[int]) -> bool:
    return schema["fields"] == fields and sorted(schema.get("identifier-field-ids") or ()) == identifier


def _identifier(schema: Json, names: Sequence[str]) -> list[int]:
    fields = {field["name"]: field for field in schema["fields"]}
    found = [fields.get(name, {}) for name in names]
    able = all(each.get("required") and isinstance(each["type"], str) and each["type"] not in _FLOATS for each in found)
    return sorted(each["id"] for each in found) if able else []
