"""The schema of a table or view, in the words of Iceberg's SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mere.lake.iceberg.keys import key_names
from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.iceberg.types import type_text


@dataclass(frozen=True)
class Field:
    """A column, or a field inside of one: then its name is its whole path, such as `address.city`."""

    id: int
    name: str
    type: str
    required: bool
    comment: str | None


def fields(schema: Json, prefix: str = "") -> Iterator[Field]:
    """All fields of a schema, each followed by those inside of it."""
    for field in schema.get("fields", []):
        name = prefix + field["name"]
        yield Field(field["id"], name, type_text(field["type"]), field.get("required", False), field.get("doc"))
        yield from _inner(field["type"], f"{name}.")


def _inner(type_: Any, prefix: str) -> Iterator[Field]:
    if not isinstance(type_, dict):
        return
    if type_["type"] == "struct":
        yield from fields(type_, prefix)
    for part in ("element", "key", "value"):
        if part in type_:
            required = part == "key" or type_.get(f"{part}-required", False)
            yield Field(type_[f"{part}-id"], prefix + part, type_text(type_[part]), required, None)
            yield from _inner(type_[part], f"{prefix}{part}.")


def key_of(metadata: Metadata) -> tuple[str, ...]:
    """As the property `mere.key` says, or else the identifier fields; none if one of them is no column of its own."""
    names = tuple(key_names(metadata.properties)) or identifier(metadata.schema)
    return names if set(metadata.columns).issuperset(names) else ()


def identifier(schema: Json) -> tuple[str, ...]:
    names = {field.id: field.name for field in fields(schema)}
    return tuple(names[id_] for id_ in schema.get("identifier-field-ids", []) if id_ in names)


def partitioning(metadata: Metadata) -> tuple[str, ...]:
    return partitionings(metadata).get(metadata.spec_id, ())


def partitionings(metadata: Metadata) -> dict[int, tuple[str, ...]]:
    """Of all files, those of before a change too: by the id of the spec."""
    names = _names(metadata)
    return {
        id_: tuple(_transform(each, names) for each in spec if each.get("transform") != "void")
        for id_, spec in metadata.specs.items()
    }


def sort_order(metadata: Metadata) -> tuple[str, ...]:
    names = _names(metadata)
    return tuple(_ordered(each, names) for each in metadata.order)


def _ordered(part: Json, names: Mapping[int, str]) -> str:
    words = [_transform(part, names), part.get("direction", "asc"), part.get("null-order", "").replace("-", " ")]
    return " ".join(filter(None, words))


def _names(metadata: Metadata) -> dict[int, str]:
    """Of all schemas: an order may stand on a column that was dropped."""
    older = {field.id: field.name for schema in metadata.schemas.values() for field in fields(schema)}
    return older | {field.id: field.name for field in fields(metadata.schema)}


def _transform(part: Json, names: Mapping[int, str]) -> str:
    ids = part.get("source-ids") or [part.get("source-id")]
    column = ", ".join(names.get(id_, f"field {id_}") for id_ in ids)
    transform = str(part.get("transform", "identity"))
    return column if transform == "identity" else f"{transform}({column})"


def view_sql(metadata: Metadata) -> tuple[str | None, str | None]:
    """The SQL of a view and its dialect; the first of its representations if there are several."""
    found = metadata.view_version.get("representations") or [{}]
    return found[0].get("sql"), found[0].get("dialect")
