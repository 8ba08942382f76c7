"""Compares the columns of a table with those of a query: added, widened, renamed, dropped or narrowed.

Both are told in Spark's words, whether they come from Iceberg's metadata or from a DataFrame, so that they can be
compared without either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mere.lake.iceberg.types import TypeVisitor

_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_WIDER = {("int", "bigint"), ("float", "double")}
_FROM_ICEBERG = {
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "uuid": "string",
}
# What Iceberg makes of Spark's types that it does not have.
_FROM_SPARK = {"integer": "int", "long": "bigint", "byte": "int", "short": "int"}


@dataclass(frozen=True)
class Struct:
    fields: tuple[Column, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(f'{_plain(each.name)}:{each.type}' for each in self.fields)}>"


@dataclass(frozen=True)
class Array:
    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True)
class Map:
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


Type = str | Struct | Array | Map


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    required: bool = False
    comment: str = ""


def _plain(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else f"`{name.replace('`', '``')}`"


def of_table(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """From a schema in a metadata file."""
    return _columns((each, _from_iceberg(each["type"])) for each in schema.get("fields", []))


def _columns(fields: Iterable[tuple[Mapping[str, Any], Type]]) -> tuple[Column, ...]:
    return tuple(
        Column(each["name"], type_, each.get("required", False), each.get("doc") or "") for each, type_ in fields
    )


def _primitive(text: str) -> Type:
    if text.startswith("fixed["):
        return "binary"
    return _FROM_ICEBERG.get(text, text.replace(" ", ""))


_from_iceberg: TypeVisitor[Type] = TypeVisitor(_primitive, Array, Map, lambda fields: Struct(_columns(fields)))


def of_query(schema: Mapping[str, Any]) -> tuple[Column, ...]:
    """From what `jsonValue` of a DataFrame's schema gives."""
    return tuple(Column(each["name"], _from_spark(each["type"]), not each["nullable"]) for each in schema["fields"])


def _from_spark(kind: Any) -> Type:
    if not isinstance(kind, dict):
        text = str(kind)
        return "string" if re.match(r"(var)?char\(", text) else _FROM_SPARK.get(text, text)
    match kind["type"]:
        case "struct":
            return Struct(of_query(kind))
        case "array":
            return Array(_from_spark(kind["elementType"]))
        case "map":
            return Map(_from_spark(kind["keyType"]), _from_spark(kind["valueType"]))
    return _from_spark(kind["sqlType"])  # of a type of the user's own


class What(StrEnum):
    ADDED = "added"
    WIDENED = "widened"
    RENAMED = "renamed"
    DROPPED = "dropped"
    NARROWED = "narrowed"  # to a type that does not hold all values of the old one


_BREAKING = (What.DROPPED, What.NARROWED)


@dataclass(frozen=True)
class Change:
    """Of a column or of a field inside of one: `amount`, `address.city`, `tags.element`."""

    what: What
    path: tuple[str, ...]  # of a renamed one: the new name
    old: Type | None = None  # of a renamed one: the old name
    new: Type | None = None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def breaks(self) -> bool:
        return self.what in _BREAKING

    def __str__(self) -> str:
        match self.what:
            case What.ADDED:
                return f"adds {self.name}"
            case What.RENAMED:
                return f"renames {self.old} to {self.name}"
            case What.DROPPED:
                return f"drops {self.name}"
        return f"makes {self.name} {_with_article(self.new)}: it is {_with_article(self.old)}"


def _with_article(kind: Type | None) -> str:
    return f"{'an' if str(kind)[:1] in 'aeiou' else 'a'} {kind}"


def compare(table: Sequence[Column], query: Sequence[Column], was: Mapping[str, str]) -> list[Change]:
    """What has to become of the table's columns for it to hold the query's rows. `was`: old names, by new ones.

    Names are compared as Spark does it, without regard to case; the order of columns does not matter.
    """
    renamed = list(renames([each.name for each in table], [each.name for each in query], was))
    new_names = {each.old: each.path[0] for each in renamed}
    return [*renamed, *_compared([_called(each, new_names) for each in table], query, ())]


def renames(table: Iterable[str], query: Iterable[str], was: Mapping[str, str]) -> Iterator[Change]:
    """Declared ones that have not happened yet: the old name stands, and the new one does not."""
    standing = {name.casefold(): name for name in table}
    for name in query:
        before = next((old for new, old in was.items() if new.casefold() == name.casefold()), "").casefold()
        if before in standing and name.casefold() not in standing:
            yield Change(What.RENAMED, (name,), standing[before])


def _called(column: Column, new_names: Mapping[Type | None, str]) -> Column:
    name = new_names.get(column.name, column.name)
    return Column(name, column.type, column.required, column.comment)


def _compared(table: Iterable[Column], query: Iterable[Column], path: tuple[str, ...]) -> Iterator[Change]:
    given = {each.name.casefold(): each for each in query}
    standing = {each.name.casefold(): each for each in table}
    for folded, column in standing.items():
        here = (*path, column.name)
        if folded not in given:
            yield Change(What.DROPPED, here, column.type)
        else:
            yield from _of_type(column.type, given[folded].type, here)
    for folded, column in given.items():
        if folded not in standing:
            yield Change(What.ADDED, (*path, column.name), None, column.type)


def differ(old: Type, new: Type) -> bool:
    return any(_of_type(old, new, ()))


def _of_type(old: Type, new: Type, path: tuple[str, ...]) -> Iterator[Change]:
    match old, new:
        case Struct(), Struct():
            yield from _compared(old.fields, new.fields, path)
        case Array(), Array():
            yield from _of_type(old.element, new.element, (*path, "element"))
        case Map(), Map() if not list(_of_type(old.key, new.key, ())):  # Iceberg lets the key of a map be
            yield from _of_type(old.value, new.value, (*path, "value"))
        case _ if old != new:
            yield Change(What.WIDENED if holds(new, old) else What.NARROWED, path, old, new)


def holds(wide: Type, narrow: Type) -> bool:
    """By Iceberg's rules for its format 2: nothing else can be changed in a table without writing it anew."""
    if not isinstance(wide, str) or not isinstance(narrow, str):
        return False
    if (narrow, wide) in _WIDER:
        return True
    old, new = _DECIMAL.fullmatch(narrow), _DECIMAL.fullmatch(wide)
    return bool(old and new and old[2] == new[2] and int(old[1]) < int(new[1]))
