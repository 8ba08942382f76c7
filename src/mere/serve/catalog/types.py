"""Iceberg's types as the clients of Postgres know them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from mere.lake.iceberg.types import TypeVisitor
from mere.serve import builtin
from mere.serve.catalog.oids import PG_CATALOG
from mere.serve.protocol.types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT4,
    INT8,
    JSON,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
)

_PRIMITIVES = {
    "boolean": BOOL,
    "int": INT4,
    "long": INT8,
    "float": FLOAT4,
    "double": FLOAT8,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ,
    "timestamp_ns": TIMESTAMP,
    "timestamptz_ns": TIMESTAMPTZ,
    "string": TEXT,
    "uuid": UUID,
    "binary": BYTEA,
    "variant": JSON,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


@dataclass(frozen=True)
class ColumnType:
    oid: int
    modifier: int = -1
    dimensions: int = 0  # of an array


@dataclass(frozen=True)
class BuiltIn:
    """A type that every Postgres has."""

    oid: int
    name: str  # as pg_type has it: int4
    words: str  # as SQL has it: integer
    length: int
    array: int
    element: int
    collation: int
    by_value: bool
    align: str
    storage: str
    base: int  # of a domain
    base_modifier: int
    schema: str

    @property
    def is_array(self) -> bool:
        return self.words.endswith("[]")

    @property
    def qualified(self) -> str:
        """Its words, with the schema of those that no search path has."""
        return self.words if self.schema == "pg_catalog" else f"{self.schema}.{self.words}"


@cache
def _of_primitive(type_: str) -> ColumnType:
    if decimal := _DECIMAL.fullmatch(type_):
        return ColumnType(NUMERIC, (int(decimal[1]) << 16 | int(decimal[2])) + 4)
    return ColumnType(BYTEA if type_.startswith("fixed[") else _PRIMITIVES.get(type_, TEXT))


def _of_list(element: ColumnType) -> ColumnType:
    oid = element.oid if element.dimensions else built_in()[element.oid].array
    return ColumnType(oid, element.modifier, element.dimensions + 1)


# Structs and maps are json; a list is an array of what its elements are, and lists of lists have dimensions.
of_iceberg: TypeVisitor[ColumnType] = TypeVisitor(
    _of_primitive, _of_list, lambda _key, _value: ColumnType(JSON), lambda _: ColumnType(JSON)
)


def precision(modifier: int) -> tuple[int, int] | None:
    """The digits of a numeric, all and after the point."""
    return None if modifier < 4 else ((modifier - 4) >> 16, (modifier - 4) & 0xFFFF)


# What SQL calls them, where that is not the name in pg_type.
_WORDS = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bpchar": "character",
    "varchar": "character varying",
    "time": "time without time zone",
    "timetz": "time with time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "varbit": "bit varying",
    "char": '"char"',
}


@cache
def built_in() -> dict[int, BuiltIn]:
    columns = builtin.columns("pg_type")
    wanted = (
        "oid", "typname", "typlen", "typarray", "typelem", "typcollation", "typbyval", "typalign", "typstorage",
        "typbasetype", "typtypmod", "typnamespace",
    )  # fmt: skip
    rows = list(zip(*(columns[each] for each in wanted), strict=True))
    arrays = {array: name for _, name, _, array, *_ in rows}
    found = {}
    for oid, name, length, array, element, collation, by_value, align, storage, base, modifier, namespace in rows:
        # int2vector and the like have elements, too, and names of their own.
        words = f"{_words(arrays[oid])}[]" if oid in arrays else _words(name)
        schema = "pg_catalog" if namespace == PG_CATALOG else "information_schema"
        found[oid] = BuiltIn(
            oid, name, words, length, array, element, collation, by_value, align, storage, base, modifier, schema
        )
    return found


def _words(name: str) -> str:
    return _WORDS.get(name, name)


@cache
def _by_words() -> dict[str, BuiltIn]:
    return {type_.words: type_ for type_ in built_in().values()}


def type_named(text: str) -> BuiltIn:
    """By its words in SQL; the domains of information_schema by their names."""
    return _by_words()[text]


def words(oid: int, modifier: int = -1) -> str:
    """As format_type says it: numeric(10,2), timestamp with time zone, bigint[]."""
    known = built_in().get(oid)
    if known is None:
        return "???"
    base, brackets = (known.words[:-2], "[]") if known.words.endswith("[]") else (known.words, "")
    if modifier < 0:
        return known.words
    if base == "numeric":
        digits = precision(modifier)
        return f"numeric({digits[0]},{digits[1]}){brackets}" if digits else known.words
    if base in ("character varying", "character"):
        return f"{base}({modifier - 4}){brackets}"
    first, _, rest = base.partition(" ")
    if first in ("time", "timestamp"):
        return f"{first}({modifier}) {rest}{brackets}"
    return known.words


# Other words of SQL's for some. "char" is another type than char.
_SYNONYMS = {
    "int": "integer", "dec": "numeric", "decimal": "numeric", "float": "double precision", "char": "character",
    "nchar": "character", "national character": "character", "national char": "character",
    "char varying": "character varying", "nchar varying": "character varying",
    "national character varying": "character varying", "national char varying": "character varying",
}  # fmt: skip
_LENGTHS = re.compile(r"\s*\([^)]*\)")
_BRACKETS = re.compile(r"(\s*\[\d*\])+$| array$")
_SMALL_FLOAT = re.compile(r"^float ?\( ?(1?\d|2[0-4]) ?\)")


def spelling(text: str) -> str:
    """A type's name in lower case, without schema, lengths and superfluous spaces: ` INT [ ] ` as `int[]`."""
    plain = " ".join(text.split()) if '"' in text else " ".join(text.lower().split())
    plain = _LENGTHS.sub("", _SMALL_FLOAT.sub("real", plain)).removeprefix("pg_catalog.")
    return _BRACKETS.sub("[]", plain)


@cache
def spellings() -> dict[str, BuiltIn]:
    """All types by all names that SQL has for them, as `spelling` writes them."""
    found: dict[str, BuiltIn] = {}
    for each in built_in().values():
        prefix = "" if each.schema == "pg_catalog" else f"{each.schema}."
        found |= {f"{prefix}{name}": each for name in (each.words, each.name, f'"{each.name}"')}
    for name, words_ in _SYNONYMS.items():
        found |= {name: _by_words()[words_], f"{name}[]": _by_words()[f"{words_}[]"]}
    by_element = {each.element: each for each in built_in().values() if each.is_array}
    for name, each in list(found.items()):
        if not name.endswith("]") and each.oid in by_element:
            found.setdefault(f"{name}[]", by_element[each.oid])
    return found


def of_spelling(text: str) -> str | None:
    """What format_type calls it; None if there is no such type."""
    known = spellings().get(spelling(text))
    return known.words if known else None
