"""A new table as the updates that create it. Its columns are numbered from 1, whatever ids the client sent."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from mere.errors import UsageError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.updates.draft import strings
from mere.lake.iceberg.updates.schemas import check_schema
from mere.lake.iceberg.updates.shapes import LAST
from mere.lake.iceberg.updates.table import FIRST_PARTITION_ID, TableDraft, empty

FORMAT = "format-version"
# Properties by which clients ask for something, and which tables do not keep.
_RESERVED = {
    *(FORMAT, "uuid", "snapshot-count", "current-snapshot-id", "current-snapshot-summary"),
    *("current-snapshot-timestamp-ms", "current-schema", "default-partition-spec", "default-sort-order"),
}


def table(request: Json, location: str, guards: Mapping[str, str], now_ms: int) -> Json:
    """The metadata of a table that is asked for. UsageError, if there is none like it."""
    try:
        properties = strings(request.get("properties") or {})
        version = _version(properties)
        schema, ids = _numbered(request["schema"], version)
        spec = _spec((request.get("partition-spec") or {}).get("fields") or [], ids)
        order = [_sourced(each, ids) for each in (request.get("write-order") or {}).get("fields") or []]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"The request does not describe a table: {error!r}.") from error
    kept = {name: value for name, value in properties.items() if name not in _RESERVED}
    draft = TableDraft(empty(version), now_ms)
    draft.apply(
        [
            {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": LAST},
            {"action": "add-spec", "spec": {"fields": spec}},
            {"action": "set-default-spec", "spec-id": LAST},
            {"action": "add-sort-order", "sort-order": {"fields": order}},
            {"action": "set-default-sort-order", "sort-order-id": LAST},
            {"action": "set-location", "location": location},
            {"action": "set-properties", "updates": {**kept, **guards}},
        ]
    )
    return draft.finished(None)


def _version(properties: Mapping[str, str]) -> int:
    given = properties.get(FORMAT, "2")
    if given not in ("1", "2", "3"):
        raise ValueError(f"{FORMAT} is {given!r}")
    return int(given)


def _numbered(schema: Json, version: int) -> tuple[Json, dict[int, int]]:
    """The schema with numbers of its own, and which number of the client's became which."""
    check_schema(schema, version)
    ids: dict[int, int] = {}
    found = {**schema, "schema-id": 0, "fields": _fields(schema["fields"], ids)}
    if schema.get("identifier-field-ids"):
        found["identifier-field-ids"] = [ids[each] for each in schema["identifier-field-ids"]]
    return found, ids


def _fields(given: list[Json], ids: dict[int, int]) -> list[Json]:
    """Those of one level get their numbers before those inside of them."""
    for field in given:
        ids[field["id"]] = len(ids) + 1
    return [{**field, "id": ids[field["id"]], "type": _type(field["type"], ids)} for field in given]


def _type(type_: Any, ids: dict[int, int]) -> Any:
    if not isinstance(type_, dict):
        return type_
    if type_["type"] == "struct":
        return {**type_, "fields": _fields(type_["fields"], ids)}
    parts = [part for part in ("element", "key", "value") if part in type_]
    for part in parts:
        ids[type_[f"{part}-id"]] = len(ids) + 1
    made = {f"{part}-id": ids[type_[f"{part}-id"]] for part in parts}
    return {**type_, **made, **{part: _type(type_[part], ids) for part in parts}}


def _spec(given: list[Json], ids: Mapping[int, int]) -> list[Json]:
    return [{**_sourced(each, ids), "field-id": FIRST_PARTITION_ID + at} for at, each in enumerate(given)]


def _sourced(field: Json, ids: Mapping[int, int]) -> Json:
    if field.get("source-ids"):
        return {**field, "source-ids": [ids[each] for each in field["source-ids"]]}
    return {**field, "source-id": ids[field["source-id"]]}
