"""The types of Postgres that are a number and look like a name: regclass, regtype and their like."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from mere.serve import builtin
from mere.serve.catalog.template import VISIBLE, template
from mere.serve.catalog.types import of_spelling, spelling
from mere.serve.engine import functions

_IN_PG_CATALOG = "mere_name = $2 AND coalesce($1, 'pg_catalog') = 'pg_catalog'"
# By the words of SQL for its types, or by their names.
_SIGNATURE = "replace(replace(lower($3), ' ', ''), 'pg_catalog.', '') IN (mere_signature, mere_named_signature)"
_OF = "(SELECT {} FROM pg_catalog.{} WHERE mere_oid = $1)"
# With its schema if the name alone is that of several.
_UNIQUE = """
    (SELECT CASE WHEN (SELECT count(*) FROM pg_catalog.{0} mere_other WHERE mere_other.mere_name = mere_one.mere_name)
                      > 1 THEN 'pg_catalog.' || mere_one.mere_name ELSE mere_one.mere_name END
     FROM pg_catalog.{0} mere_one WHERE mere_one.mere_oid = $1)"""


@dataclass(frozen=True)
class _Kind:
    """`matches`: whether a row of the relation is meant by the schema $1, which may be NULL, the name $2, or all of the
    text, $3. `name`: what the number $1 looks like."""

    relation: str
    matches: str
    name: str
    missing: str  # the error for what nothing has: {} is the text
    several: str = ""  # likewise for what is the name of several
    text: str = "$4"  # as errors have it: what was written, or what is left of it without quotes and capitals
    none: str = "-"  # what 0 looks like


_KINDS = {
    "regclass": _Kind(
        "mere_relations",
        f"mere_name = $2 AND CASE WHEN $1 IS NULL THEN {VISIBLE} ELSE mere_schema = $1 END",
        f"(SELECT CASE WHEN {VISIBLE} THEN mere_one.mere_alone ELSE mere_one.mere_qualified END"
        " FROM pg_catalog.mere_relations mere_one WHERE mere_one.mere_oid = $1)",
        '42P01:relation "{}" does not exist',
    ),
    "regtype": _Kind(
        "mere_spellings",
        "mere_name = $3",
        _OF.format("mere_words", "mere_types"),
        '42704:type "{}" does not exist',
        text="replace($3, '\"', '')",
    ),
    "regproc": _Kind(
        "mere_functions",
        _IN_PG_CATALOG,
        _UNIQUE.format("mere_functions"),
        '42883:function "{}" does not exist',
        '42725:more than one function named "{}"',
    ),
    "regprocedure": _Kind(
        "mere_functions",
        _SIGNATURE,
        _OF.format("mere_name || '(' || replace(mere_arguments, ', ', ',') || ')'", "mere_functions"),
        '42883:function "{}" does not exist',
    ),
    "regoper": _Kind(
        "mere_operators",
        _IN_PG_CATALOG,
        _UNIQUE.format("mere_operators"),
        "42883:operator does not exist: {}",
        "42725:more than one operator named {}",
        none="0",
    ),
    "regoperator": _Kind(
        "mere_operators",
        _SIGNATURE,
        _OF.format("mere_name || '(' || mere_arguments || ')'", "mere_operators"),
        "42883:operator does not exist: {}",
        none="0",
    ),
    "regcollation": _Kind(
        "mere_collations",
        _IN_PG_CATALOG,
        _OF.format("mere_quoted", "mere_collations"),
        '42704:collation "{}" for encoding "UTF8" does not exist',
        text="$2",
    ),
    "regnamespace": _Kind(
        "mere_schemas",
        "mere_name = $2 AND $1 IS NULL",
        _OF.format("mere_quoted", "mere_schemas"),
        '3F000:schema "{}" does not exist',
        text="$2",
    ),
    "regrole": _Kind(
        "mere_roles",
        "mere_name = $2 AND $1 IS NULL",
        _OF.format("mere_name", "mere_roles"),
        '42704:role "{}" does not exist',
        text="$2",
    ),
}
KINDS = frozenset(_KINDS)
FUNCTIONS = frozenset(f"to_{kind}" for kind in KINDS)
_SIGNED = ("regprocedure", "regoperator")


def kind_of(function: str) -> str | None:
    """to_regclass gives a regclass."""
    return function.removeprefix("to_") if function in FUNCTIONS else None


def name_of(kind: str, number: exp.Expr) -> exp.Expr:
    """What a regclass looks like: a number without a name is shown as it is, and 0 as a dash."""
    text = f"CASE WHEN $1 = 0 THEN '{_KINDS[kind].none}' ELSE coalesce({_KINDS[kind].name}, CAST($1 AS text)) END"
    if isinstance(number, exp.Column | exp.Literal):
        return template(text, [number])
    # Computed once, not in each of these places.
    once = text.replace("$1", "mere_wanted.mere_number")
    return template(f"(SELECT {once} FROM (SELECT $1 AS mere_number) mere_wanted)", [number])


def number_of(kind: str, text: exp.Expr, *, strict: bool = True) -> exp.Expr:
    """What a text means as a regclass. `strict`: nothing is an error, and else NULL."""
    if isinstance(text, exp.Literal) and text.is_string:
        return _of_literal(kind, text.name, strict)
    given = exp.column("mere_text", table="mere_given")
    schema, name = (_macro(each, given) for each in ("identifier_schema", "identifier_name"))
    whole = _macro("type_spelling", given) if kind == "regtype" else given
    # It may be a number after all, by a name that tells nothing.
    number = f"CASE WHEN $4 = '{_KINDS[kind].none}' THEN 0 ELSE $5 END"
    sql = (
        f"(SELECT CASE WHEN $4 IS NOT NULL THEN coalesce({number}, {_lookup(kind, strict)}) END"
        " FROM (SELECT left(CAST($6 AS text), 1000) AS mere_text) mere_given)"
    )
    return template(sql, [schema, name, whole, given, _macro("oid_number", given), text])


def _of_literal(kind: str, text: str, strict: bool) -> exp.Expr:
    if text.isascii() and text.isdigit():
        return exp.Literal.number(text)
    if text == _KINDS[kind].none:
        return exp.Literal.number(0)
    parts = identifiers(text)
    schema, name = (parts[-2] if len(parts) > 1 else None, parts[-1])
    if kind == "regclass" and (known := builtin.definitions().get(f"{schema or 'pg_catalog'}.{name}")):
        return exp.Literal.number(known.oid)
    whole = _signature(text) if kind in _SIGNED else spelling(text) if kind == "regtype" else text
    given = [exp.Literal.string(each) for each in (name, whole, text)]
    return template(_lookup(kind, strict), [exp.Literal.string(schema) if schema else exp.null(), *given])


def _lookup(kind: str, strict: bool) -> str:
    of = _KINDS[kind]
    rows = f"FROM pg_catalog.{of.relation} mere_one WHERE {of.matches}"
    if of.several:
        several = _error(of.several, of.text) if strict else "NULL"
        found = f"(SELECT CASE WHEN count(*) > 1 THEN {several} ELSE min(mere_oid) END {rows})"
    else:
        found = f"(SELECT min(mere_oid) {rows})"
    if not strict:
        return found
    missing = _error(of.missing, of.text)
    if kind == "regtype":  # of all, Postgres looks for the schema first
        there = "SELECT count(*) FROM pg_catalog.mere_schemas WHERE mere_name = $1"
        no_schema = _error('3F000:schema "{}" does not exist', "$1")
        missing = f"CASE WHEN $1 IS NOT NULL AND ({there}) = 0 THEN {no_schema} ELSE {missing} END"
    return f"coalesce({found}, {missing})"


def _error(message: str, text: str) -> str:
    before, after = (f"'{each}'" for each in message.split("{}"))
    return f"CAST(error({before} || {text} || {after}) AS bigint)"


def _macro(name: str, argument: exp.Expr) -> exp.Expr:
    call = exp.Anonymous(this=name, expressions=[argument.copy()])
    return exp.Paren(this=exp.Dot(this=exp.to_identifier(functions.SCHEMA), expression=call))


def _signature(text: str) -> str:
    """`abs(int8)` as `abs(bigint)`: a type by any of its names, a function of pg_catalog with or without it."""
    name, _, rest = text.lower().replace("pg_catalog.", "").partition("(")
    given = [" ".join(each.split()) for each in rest.strip().removesuffix(")").split(",")]
    return f"{name.strip()}({', '.join(of_spelling(each) or each for each in given)})"


def identifiers(text: str) -> list[str]:
    """gold.orders, gold."My Table": what is not in quotes is in lower case."""
    found = [quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in _PART.findall(text)]
    return found or [text]


_PART = re.compile(r'"((?:[^"]|"")*)"|([^".\s]+)')
