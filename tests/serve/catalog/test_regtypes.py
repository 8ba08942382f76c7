"""regclass, regtype and their like: numbers that look like names, compared with a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

Pair = tuple[psycopg.Connection, psycopg.Connection]

KINDS = {
    "regclass": ("pg_class", "gold.orders", "GOLD . Orders", 'silver."Odd ""Name"" x"', "1259", "-"),
    "regtype": (
        "int", "INT4 [3]", "integer[][]", "int array", "_int4", "pg_catalog.int4", '"char"', "char", "char[]", "dec",
        "timestamp(3) with time zone", "timestamptz", "numeric(10, 2)", "varchar(5)[]", "float(24)", "float(25)",
        "double  precision", "information_schema.sql_identifier", "bool", "1700", "-",
    ),
    "regproc": ("array_in", "pg_catalog.array_in", "ARRAY_IN", "750", "-"),
    "regprocedure": ("abs(integer)", "pg_catalog.abs( int8 )", "now()", "1397", "-"),
    "regoper": ("15", "0", "|/"),
    "regoperator": ("=(integer,integer)", "pg_catalog.=(integer, integer)", "-(NONE,integer)", "15", "0"),
    "regcollation": ('"C"', '"default"', 'pg_catalog."POSIX"', "950", "-"),
    "regnamespace": ("gold", "GOLD", "pg_catalog", "11", "-"),
    "regrole": ("mere", "MERE", "-"),
}  # fmt: skip
MISSING = {
    "regclass": ("nosuch", "gold.nosuch"),
    "regtype": ("nosuch", "nosuch[]", "nosuch.int4", '"INT4"'),
    "regproc": ("nosuch", "pg_catalog.nosuch", "gold.array_in", "abs", '"ARRAY_IN"'),
    "regprocedure": ("nosuch(integer)", "abs(date)"),
    "regoper": ("~~~~", "+", "-"),
    "regoperator": ("~~~~(integer,integer)", "=(integer,boolean)"),
    "regcollation": ("nosuch", "c"),
    "regnamespace": ("nosuch",),
    "regrole": ("nosuch", "Nosuch"),
}


def _cases(names: dict[str, tuple[str, ...]]) -> Iterator[Any]:
    """Each name as it is written; computed, the first of each kind: the others are left to the long tests."""
    for kind, texts in names.items():
        for at, text in enumerate(texts):
            yield pytest.param(kind, text, False, id=f"{kind}-{text}")
            yield pytest.param(kind, text, True, id=f"{kind}-{text}-computed", marks=[pytest.mark.long] if at else [])


@pytest.fixture(scope="module")
def both(shop_in_lake: str, shop_in_postgres: str) -> Iterator[Pair]:
    with (
        psycopg.connect(shop_in_lake, autocommit=True) as ours,
        psycopg.connect(shop_in_postgres, autocommit=True) as theirs,
    ):
        yield ours, theirs


def _ways(kind: str, text: str, computed: bool) -> list[tuple[str, list[str]]]:
    """As a literal and as a value of the client's; or computed, and of a row."""
    literal = text.replace("'", "''")
    if not computed:
        return [(f"SELECT '{literal}'::{kind}::text", []), (f"SELECT %s::{kind}::text", [text])]
    if kind == "regclass" and (text == "-" or text.isdigit()):
        return []  # a computed text is the name of a table in Postgres, and of no other type
    return [
        (f"SELECT (left('{literal}', 1) || substr('{literal}', 2))::{kind}::text", []),
        (f"SELECT v::{kind}::text FROM (VALUES ('{literal}')) t(v)", []),
    ]


@pytest.mark.parametrize(("kind", "text", "computed"), [*_cases(KINDS)])
def test_a_name_means_what_it_means_in_postgres(kind: str, text: str, computed: bool, both: Pair) -> None:
    for query, values in _ways(kind, text, computed):
        ours, theirs = (connection.execute(query.encode(), values).fetchall() for connection in both)
        assert ours == theirs, query


@pytest.mark.parametrize(("kind", "text", "computed"), [*_cases(MISSING)])
def test_a_name_of_nothing_is_an_error(kind: str, text: str, computed: bool, both: Pair) -> None:
    for query, values in _ways(kind, text, computed):
        ours, theirs = (_failure(connection, query, values) for connection in both)
        assert ours == theirs, query


def _failure(connection: psycopg.Connection, query: str, values: list[str]) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as found:
        connection.execute(query.encode(), values)
    return found.value.sqlstate, found.value.diag.message_primary


@pytest.mark.parametrize(("kind", "text", "computed"), [*_cases(KINDS), *_cases(MISSING)])
def test_a_function_gives_null_for_a_name_of_nothing(kind: str, text: str, computed: bool, both: Pair) -> None:
    literal = text.replace("'", "''")
    if computed:
        query = f"SELECT to_{kind}(v)::text FROM (VALUES ('{literal}')) t(v)"
    else:
        query = f"SELECT to_{kind}('{literal}')::text"
    ours, theirs = (connection.execute(query.encode()).fetchall() for connection in both)
    assert ours == theirs


def test_nothing_is_nothing(both: Pair) -> None:
    for kind in KINDS:
        query = f"SELECT NULL::text::{kind}::text, v::{kind}::text FROM (VALUES (NULL::text)) t(v)"
        ours, theirs = (connection.execute(query.encode()).fetchall() for connection in both)
        assert ours == theirs == [(None, None)]
