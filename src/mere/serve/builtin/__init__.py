"""What every Postgres has: the columns of its catalogs, its types, functions, operators, casts.

They are facts about Postgres 18, kept as files of tab-separated values beside this one; tests/serve/postgres_facts.py
asks a real one for them. Of operators and casts, only those of types that the gateway serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Values = Sequence[Any]  # one for each row

_ELEMENTS = {"int2vector": "smallint", "oidvector": "oid", "anyarray": "text"}
_ZEROS: dict[str, Any] = {"boolean": False, "double precision": 0.0, "real": 0.0}
_NUMBERS = frozenset({"oid", "regproc", "smallint", "integer", "bigint", "xid", "cardinal_number"})

_PG_CATALOG, _OWNER, _INTERNAL = 11, 10, 12
# What all rows of a file have.
SAME: dict[str, dict[str, Any]] = {
    "pg_type": {"typowner": _OWNER, "typisdefined": True},
    "pg_proc": {"pronamespace": _PG_CATALOG, "proowner": _OWNER, "prolang": _INTERNAL},
    "pg_operator": {"oprnamespace": _PG_CATALOG, "oprowner": _OWNER},
    "pg_opclass": {"opcowner": _OWNER},
    "pg_opfamily": {"opfowner": _OWNER},
    "pg_language": {"lanowner": _OWNER},
    "pg_collation": {"collowner": _OWNER},
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    required: bool


@dataclass(frozen=True)
class Definition:
    """A relation of pg_catalog or information_schema."""

    schema: str
    name: str
    oid: int
    kind: str  # r: a table, v: a view
    columns: tuple[Column, ...]


@cache
def definitions() -> dict[str, Definition]:
    """By schema and name, such as `pg_catalog.pg_class`."""
    found = {}
    for full, oid, kind, columns in rows("relations"):
        schema, _, name = full.partition(".")
        found[full] = Definition(schema, name, int(oid), kind, tuple(map(_column, columns.split(", "))))
    return found


@cache
def columns(name: str) -> dict[str, Values]:
    definition = definitions()[f"pg_catalog.{name}"]
    types = {column.name: column for column in definition.columns}
    header, *rows = _file(name)
    return {column: [_value(row[at], types[column]) for row in rows] for at, column in enumerate(header)}


@cache
def functions() -> dict[int, str]:
    known = columns("pg_proc")
    return dict(zip(known["oid"], known["proname"], strict=True))


@cache
def schema_oid(name: str) -> int:
    schemas = columns("pg_namespace")
    return int(schemas["oid"][schemas["nspname"].index(name)])


@cache
def keywords() -> dict[str, str]:
    """Words that mean something in SQL, and whether they may be names, by Postgres's letter for it."""
    return {word: kind for word, kind, *_ in keyword_rows()}


def keyword_rows() -> list[list[str]]:
    return rows("keywords")


def has(name: str) -> bool:
    """Whether every Postgres has rows there."""
    return files(__package__).joinpath(f"{name}.tsv").is_file()


def _column(text: str) -> Column:
    name, _, type_ = text.partition(" ")
    return Column(name, type_.rstrip("!"), type_.endswith("!"))


def rows(name: str) -> list[list[str]]:
    """The lines of a file, without its header."""
    return _file(name)[1:]


def _file(name: str) -> list[list[str]]:
    text = files(__package__).joinpath(f"{name}.tsv").read_text("utf-8")
    return [line.split("\t") for line in text.split("\n") if line]


def element_of(type_: str) -> str | None:
    """The type of what is in an array."""
    return type_[:-2] if type_.endswith("[]") else _ELEMENTS.get(type_)


def zero(type_: str) -> Any:
    """What a column holds that is never NULL and says nothing."""
    if type_ in _NUMBERS:
        return 0
    return [] if element_of(type_) else _ZEROS.get(type_, "")


def _value(text: str, column: Column) -> Any:
    element = element_of(column.type)
    if not text:
        return zero(column.type) if column.required else None
    if element:
        return [_scalar(each, element) for each in text.split(",")]
    return _scalar(text, column.type)


def _scalar(text: str, type_: str) -> Any:
    if type_ == "boolean":
        return text == "t"
    return int(text) if type_ in ("oid", "regproc", "smallint", "integer", "bigint") else text
