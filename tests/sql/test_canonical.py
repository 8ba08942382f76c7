from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.sql.canonical import same_sql

QUERIES = [
    "SELECT order_date, sum(amount) AS revenue FROM silver.orders WHERE order_date >= :start GROUP BY order_date",
    "WITH o AS (SELECT * FROM a.b) SELECT `Quoted`, 'Text', 1.5e3, x -> x + 1, a[0], m['Key'] FROM o",
    "SELECT /*+ BROADCAST(c) */ a || 'it''s', date '2024-01-01', interval 3 days FROM a.b LEFT JOIN c.d c USING (id)",
    "SELECT CASE WHEN a <> b THEN named_struct('A', 1).A ELSE try_cast(c AS decimal(10, 2)) END FROM a.b",
]
SPACES = st.sampled_from([" ", "\n", "\t  ", " -- a comment\n", " /* another */ ", "\n\n-- :start 'x' \n"])


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[str, str]:
    """A query, and the same with other spaces, comments and letters' case outside of quotes."""
    query = draw(st.sampled_from(QUERIES))
    text, quote = "", ""
    for letter in query:
        if quote:
            text, quote = text + letter, "" if letter == quote else quote
        elif letter in "'`":
            text, quote = text + letter, letter
        elif letter == " ":
            text += draw(SPACES) if "/*+" not in query else draw(st.sampled_from([" ", "\n"]))
        else:
            text += draw(st.sampled_from([letter.lower(), letter.upper()]))
    return query, text + draw(st.sampled_from(["", ";", "\n;", " -- end", "; -- end"]))


@given(rewritten())
def test_formatting_comments_and_case_do_not_matter(pair: tuple[str, str]) -> None:
    assert same_sql(*pair)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SELECT 'a' FROM x.y", "SELECT 'A' FROM x.y"),
        ("SELECT `a` FROM x.y", "SELECT `A` FROM x.y"),
        ("SELECT a FROM x.y", "SELECT b FROM x.y"),
        ("SELECT a, b FROM x.y", "SELECT b, a FROM x.y"),
        ("SELECT 1 FROM x.y", "SELECT 10 FROM x.y"),
        ("SELECT 'a b' FROM x.y", "SELECT 'a  b' FROM x.y"),
        ("SELECT '-- a' FROM x.y", "SELECT '' FROM x.y"),
        ("SELECT a FROM x.y", "SELECT a FROM x.y LIMIT 1"),
        ("SELECT a b FROM x.y", "SELECT ab FROM x.y"),
        ("SELECT first(a) FROM x.y", "SELECT any_value(a) FROM x.y"),
        ("SELECT 'a", "SELECT 'b"),
    ],
)
def test_what_may_change_a_row_does(old: str, new: str) -> None:
    assert not same_sql(old, new)
    assert not same_sql(new, old)
    assert same_sql(old, old)


def test_equal_texts_need_no_sqlglot() -> None:
    code = "from mere.sql.canonical import same_sql; import sys; same_sql('a', 'a'); print('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
