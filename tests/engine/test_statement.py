"""Which statements Spark gets from mere sql, and how they are changed on the way."""

from __future__ import annotations

import re

import pytest

from mere.engine.statement import read
from mere.errors import QueryError
from mere.sql.edits import edited

IN_FROM = "SELECT * FROM (\n{}\n)"


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("select 1", IN_FROM.format("select 1")),
        (" /* a /* b */ c */ -- d\nVALUES (1) ;; -- e", IN_FROM.format("VALUES (1)")),
        ("(select 1) union (select 2) -- )", IN_FROM.format("(select 1) union (select 2)")),
        ("with a as (select 1) insert into t from a", IN_FROM.format("with a as (select 1) insert into t from a")),
        ("explain formatted select 'ü;--'", "explain formatted " + IN_FROM.format("select 'ü;--'")),
        ("-- x\nshow tables in gold;", "show tables in gold"),
        ("select r'\\', `a;b`, 'it''s', \"\\\";\"", IN_FROM.format("select r'\\', `a;b`, 'it''s', \"\\\";\"")),
    ],
)
def test_what_should_be_a_query_stands_where_nothing_else_may(written: str, sent: str) -> None:
    assert edited(written, read(written).harmless) == sent


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("insert into t select 1", "it does not run INSERT. Nothing was changed."),
        ("/* select */ drop table t", "it does not run DROP. Nothing was changed."),
        ("explain insert into t select 1", "it does not run INSERT. Nothing was changed."),
        ("call main.system.expire_snapshots('t')", "it does not run CALL. Nothing was changed."),
        ("set a = 1", "it does not run SET. Nothing was changed."),
        ("`select` 1", "it does not run `SELECT`. Nothing was changed."),
        ("explain", "it does not run EXPLAIN. Nothing was changed."),
        ("begin select 1; end", "one statement at a time"),
        ("select 1; drop table t", "one statement at a time"),
        ("", "There is no query."),
        ("/* select 1", "There is no query."),
        ("select '\ud800'", "characters in it that are not text"),
    ],
)
def test_whatever_does_not_begin_like_a_query_is_refused(written: str, said: str) -> None:
    with pytest.raises(QueryError, match=re.escape(said)):
        read(written)


def test_names_are_found_but_not_in_texts_and_comments() -> None:
    sql = "select a.b, 'x.y' from `main~1`.gold.t -- u.v\njoin gold.`w``x` /* p.q */"
    names = read(sql).names
    assert [name.parts for name in names] == [("a", "b"), ("main~1", "gold", "t"), ("gold", "w`x")]
    written = [[sql[start:end] for start, end in name.spans] for name in names]
    assert written == [["a", "b"], ["`main~1`", "gold", "t"], ["gold", "`w``x`"]]
