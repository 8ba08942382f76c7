"""Casts: to Postgres's types, with Postgres's texts."""

from __future__ import annotations

import re

from sqlglot import exp

from mere.serve.language import types
from mere.serve.language.mend import moments
from mere.serve.language.mend.tree import call, cast, macro, number, text
from mere.serve.protocol.port import PgError

_INTEGERS = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
_TEXTS = frozenset({"text", "varchar", "bpchar", "name", "char"})
_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_UNITS = {
    "y": "year", "yr": "year", "yrs": "year", "mon": "month", "mons": "month", "w": "week", "d": "day", "h": "hour",
    "hr": "hour", "hrs": "hour", "m": "minute", "min": "minute", "mins": "minute", "s": "second", "sec": "second",
    "secs": "second", "ms": "millisecond", "us": "microsecond",
}  # fmt: skip
_INTERVAL = re.compile(
    r"(?:\s*[+-]?\d+(?:\.\d+)?\s*[a-z]+\b|\s*[+-]?\d+:\d+(?::\d+(?:\.\d+)?)?)+(?:\s+ago)?\s*", re.IGNORECASE
)


def mend(node: exp.Expr) -> exp.Expr:
    if node.meta.get("mended"):
        return node
    value, type_ = node.this, node.args["to"]
    name = types.postgres_name(type_)
    if types.is_array(type_):
        return _to_array(value, type_)
    if name in _TEXTS:
        return _to_text(value, type_, name)
    if value.is_string:
        return _of_literal(value, type_, name)
    if name == "numeric" and isinstance(value, exp.Literal) and not types.modifiers(type_):
        return cast(value, _fitting(value.name))
    return cast(value, types.duckdb_type(type_))


def interval(written: str) -> exp.Expr:
    """`interval '1 mon 2 hrs'`"""
    made = cast(text(interval_text(written)), "INTERVAL")
    return exp.paren(exp.Neg(this=made), copy=False) if written.rstrip().endswith("ago") else made


def interval_text(written: str) -> str:
    """With the units' names in full, as DuckDB takes them."""
    if not _INTERVAL.fullmatch(written):
        raise PgError("22007", f'invalid input syntax for type interval: "{written}"')
    plain = written.rstrip().removesuffix("ago")
    spelled = re.sub(r"([a-z]+)", lambda found: _UNITS.get(found[1].lower(), found[1]), plain, flags=re.IGNORECASE)
    return " ".join(spelled.split())


def _of_literal(value: exp.Expr, type_: exp.DataType, name: str) -> exp.Expr:
    written = value.name
    if name in _INTEGERS:
        if not _INTEGER.fullmatch(written):
            raise invalid({"int2": "smallint", "int4": "integer", "int8": "bigint"}[name], written)
        if not -_INTEGERS[name] <= int(written) < _INTEGERS[name]:
            long = {"int2": "smallint", "int4": "integer", "int8": "bigint"}[name]
            raise PgError("22003", f'value "{written}" is out of range for type {long}')
    if name == "interval":
        return interval(written)
    if name == "numeric" and not types.modifiers(type_):
        if not re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", written, re.IGNORECASE):
            raise invalid("numeric", written)
        return cast(value, _fitting(written.strip().lstrip("+-")))
    if name == "bytea" and written.startswith("\\x"):
        return call("unhex", text(written[2:]))
    if name == "bool":
        return _boolean(written)
    if name in ("timestamp", "timestamptz", "time"):
        value = text(re.sub(r"(?<![\d:.])(\d{1,2}:\d{2})(?![\d:])", r"\1:00", moments.plain(written, name)))
    elif name == "date":
        value = text(moments.plain(written, name))
    return cast(value, types.duckdb_type(type_))


def _boolean(written: str) -> exp.Expr:
    plain = written.strip().lower()
    for word, truth in (("true", True), ("false", False), ("yes", True), ("no", False), ("on", True), ("off", False)):
        shortest = 2 if word in ("on", "off") else 1
        if len(plain) >= shortest and word.startswith(plain):
            return exp.Boolean(this=truth)
    if plain in ("1", "0"):
        return exp.Boolean(this=plain == "1")
    raise invalid("boolean", written)


def _fitting(digits: str) -> str:
    """The numeric that holds these digits and no more."""
    if not re.fullmatch(r"\d*\.?\d*", digits):
        return types.WIDEST
    whole, _, fraction = digits.partition(".")
    if len(whole) + len(fraction) > 38:
        raise PgError("22003", "a numeric has at most 38 digits here")
    return f"DECIMAL({max(len(whole) + len(fraction), 1)},{len(fraction)})"


def _to_text(value: exp.Expr, type_: exp.DataType, name: str) -> exp.Expr:
    inner = value.this if isinstance(value, exp.Paren) else value
    plain = value if value.is_string else macro("text", inner)
    lengths = types.modifiers(type_)
    if name == "char" and not lengths:
        return cast(plain, "VARCHAR")
    if name == "bpchar" and not lengths:
        lengths = [1]
    return call("left", plain, number(lengths[0])) if lengths else cast(plain, "VARCHAR")


def _to_array(value: exp.Expr, type_: exp.DataType) -> exp.Expr:
    wanted = types.duckdb_type(type_)
    if not value.is_string:
        return cast(value, wanted)
    return cast(exp.Array(expressions=[_element(each) for each in elements(value.name)]), wanted)


def _element(value: str | None) -> exp.Expr:
    return exp.Null() if value is None else text(value)


def elements(written: str) -> list[str | None]:
    """`{1,NULL,"a,b"}`"""
    inside = written.strip()
    if not (inside.startswith("{") and inside.endswith("}")):
        raise PgError("22P02", f'malformed array literal: "{written}"', detail='Array value must start with "{".')
    inside = inside[1:-1]
    if not inside.strip():
        return []
    if "{" in re.sub(r'"(?:[^"\\]|\\.)*"', "", inside):
        raise PgError("0A000", "a literal of an array with several dimensions is not supported")
    found: list[str | None] = []
    for each in re.finditer(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^,\\"]|\\.)*?))\s*(?:,|$)', inside):
        if each.start() == len(inside):
            break
        if each[1] is not None:
            found.append(re.sub(r"\\(.)", r"\1", each[1]))
        else:
            found.append(None if each[2].upper() == "NULL" else re.sub(r"\\(.)", r"\1", each[2]))
    return found


def invalid(type_: str, written: str) -> PgError:
    return PgError("22P02", f'invalid input syntax for type {type_}: "{written}"')
