"""The types of columns as schemas spell them, and one walk over them for all conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mere.lake.iceberg.metadata import Json

T = TypeVar("T")


@dataclass(frozen=True)
class TypeVisitor(Generic[T]):
    """Called with a type, it gives what is made of it, from the inside out."""

    of_primitive: Callable[[str], T]
    of_list: Callable[[T], T]
    of_map: Callable[[T, T], T]
    of_struct: Callable[[Sequence[tuple[Json, T]]], T]  # the fields, each with what was made of its type

    def __call__(self, type_: Any) -> T:
        if not isinstance(type_, dict):
            return self.of_primitive(str(type_))
        match type_["type"]:
            case "list":
                return self.of_list(self(type_["element"]))
            case "map":
                return self.of_map(self(type_["key"]), self(type_["value"]))
        return self.of_struct([(field, self(field["type"])) for field in type_.get("fields", [])])


def _struct_text(fields: Sequence[tuple[Json, str]]) -> str:
    inner = ", ".join(f"{field['name']}: {type_}" for field, type_ in fields)
    return f"struct<{inner}>"


# In the words of Iceberg's SQL.
type_text: TypeVisitor[str] = TypeVisitor(
    str, lambda element: f"list<{element}>", lambda key, value: f"map<{key}, {value}>", _struct_text
)
