"""COPY's options: each is taken or refused as by a real Postgres, and by the same SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

OPTIONS = [
    "(format csv, delimiter 'ab')", "(delimiter '')", "(delimiter E'\\n')", "(delimiter 'a')", "(delimiter '7')",
    "(format xml)", "(format 'CSV')", "(format)", "(format csv, format csv)", "()", "(nonsense)", "(nonsense 'x')",
    "(quote 'x')", "(escape 'x')", "(force_quote *)", "(force_null (a))", "(force_not_null *)",
    "(format csv, force_quote (one))", "(format csv, force_quote (nothing))", "(format csv, force_quote *)",
    "(format csv, force_quote one)", "(format csv, force_null *)", "(format csv, force_not_null (one))",
    "(format csv, quote 'ab')", "(format csv, escape 'ab')", "(format csv, quote ',')", "(format csv, delimiter '\"')",
    "(format csv, null '\"')", "(null 'a,b', delimiter ',')", "(null E'\\n')", "(format csv, null 'a')",
    "(format binary)", "(format binary, delimiter 'x')", "(format binary, null 'x')", "(format binary, header)",
    "(format binary, header false)", "(header)", "(header true)", "(header off)", "(header 1)", "(header 2)",
    "(header -1)", "(header match)", "(header maybe)", "(freeze)", "(freeze false)", "(freeze maybe)", "(default 'x')",
    "(on_error stop)", "(log_verbosity verbose)", "(log_verbosity loud)", "(reject_limit 3)", "(encoding 'utf8')",
    "csv", "csv header", "csv quote 'ab'", "delimiter 'ab'", "binary", "csv force quote one", "csv force quote nothing",
    "csv delimiter as ';' null as '-'", "csv header csv", "with (format csv)", "with csv",
]  # fmt: skip


def answer(connection: psycopg.Connection, options: str) -> str | list[bytes]:
    """The SQLSTATE, or what is copied."""
    try:
        with connection.cursor().copy(f"copy (select 1 as one, null as two, 'a,b' as x) to stdout {options}") as copy:
            return [bytes(each) for each in copy]
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary}"


@pytest.fixture(scope="module")
def both(shop_in_lake: str, shop_in_postgres: str) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with (
        psycopg.connect(shop_in_lake, autocommit=True) as ours,
        psycopg.connect(shop_in_postgres, autocommit=True) as real,
    ):
        yield ours, real


@pytest.mark.parametrize("options", OPTIONS)
def test_options_do_what_they_do_in_postgres(options: str, both: tuple[psycopg.Connection, psycopg.Connection]) -> None:
    ours, real = both
    assert answer(ours, options) == answer(real, options)
