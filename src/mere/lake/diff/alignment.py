"""The columns that two schemas have in common, and DuckDB expressions that make their values comparable.

A struct that got a field is compared by the fields it had; a map by its entries, whatever their order; numbers by their
value, whatever their width. Types that have nothing in common are compared as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mere.lake.iceberg.metadata import Json
from mere.sql.spelling.standard import literal, quoted

Expression = Callable[[str], str]  # from an expression to the one by which it is compared

_NUMBERS = ("int", "long", "float", "double", "decimal")
_TIMES = ("date", "timestamp", "timestamp_ns")
_OPAQUE = ("variant", "unknown", "geometry", "geography")  # DuckDB does not compare them


@dataclass(frozen=True)
class Pair:
    """One column on both sides."""

    name: str
    old_name: str
    old: Expression
    new: Expression


def pairs(old: Json, new: Json, by_id: bool) -> list[Pair]:
    """The fields that both structs have, in the order of the new one; told apart by id, or else by name."""
    mark = "id" if by_id else "name"
    before = {field[mark]: field for field in old["fields"]}
    found = []
    for field in new["fields"]:
        if (match := before.get(field[mark])) is not None:
            expressions = _aligned(match["type"], field["type"], by_id, 0)
            found.append(Pair(field["name"], match["name"], *expressions))
    return found


def _same(value: str) -> str:
    return value


def _text(value: str) -> str:
    return f"CAST({value} AS VARCHAR)"


def _aligned(old: Any, new: Any, by_id: bool, depth: int) -> tuple[Expression, Expression]:
    if isinstance(old, str) and isinstance(new, str):
        related = any(old.startswith(kinds) and new.startswith(kinds) for kinds in (_NUMBERS, _TIMES))
        comparable = (old == new or related) and not old.startswith(_OPAQUE)
        return (_same, _same) if comparable else (_text, _text)
    if isinstance(old, str) or isinstance(new, str) or old["type"] != new["type"]:
        return _text, _text
    if _plain(old) == _plain(new):
        return _same, _same
    if old["type"] == "list":
        inner = _aligned(old["element"], new["element"], by_id, depth + 1)
        first, second = (_each(expression, depth) for expression in inner)
    elif old["type"] == "map":
        keys = _aligned(old["key"], new["key"], by_id, depth + 1)
        values = _aligned(old["value"], new["value"], by_id, depth + 1)
        first, second = (_entries(key, value, depth) for key, value in zip(keys, values, strict=True))
    else:
        inner_pairs = pairs(old, new, by_id)
        first = _fields([(pair.old_name, pair.old) for pair in inner_pairs])
        second = _fields([(pair.name, pair.new) for pair in inner_pairs])
    return first, second


def _plain(type_: Any) -> Any:
    """A type that is compared as it is, if it equals another; maps never are, because their order means nothing."""
    if not isinstance(type_, dict):
        return object() if type_.startswith(_OPAQUE) else type_
    if type_["type"] == "map":
        return object()
    if type_["type"] == "list":
        return "list", _plain(type_["element"])
    return "struct", [(field["id"], field["name"], _plain(field["type"])) for field in type_["fields"]]


def _each(expression: Expression, depth: int) -> Expression:
    element = f"e{depth}"
    return lambda value: f"list_transform({value}, lambda {element}: {expression(element)})"


def _entries(key: Expression, value: Expression, depth: int) -> Expression:
    entry = f"e{depth}"
    body = f"{{'key': {key(f'{entry}.key')}, 'value': {value(f'{entry}.value')}}}"
    return lambda whole: f"list_sort(list_transform(map_entries({whole}), lambda {entry}: {body}))"


def _fields(parts: list[tuple[str, Expression]]) -> Expression:
    """Named by position: a field may have another name on the other side."""

    def struct(value: str) -> str:
        if not parts:
            return f"({value} IS NULL)"
        inner = [f"{literal(f'f{at}')}: {part(f'{value}.{quoted(name)}')}" for at, (name, part) in enumerate(parts)]
        return f"CASE WHEN {value} IS NULL THEN NULL ELSE {{{', '.join(inner)}}} END"

    return struct
