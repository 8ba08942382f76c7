"""What notebooks show: escaped, small, without script and colours."""

from __future__ import annotations

import re

import pytest

from mere.errors import InvalidName
from mere.names import TableName
from mere.text import notebook
from mere.text.notebook import Column, Listing

HOSTILE = "<script>alert('x')</script>\u202e\x1b[31m&"


def test_every_text_is_escaped() -> None:
    columns = [Column(HOSTILE, about=HOSTILE), Column("b", right=True)]
    shown = notebook.shown(HOSTILE, notebook.table(columns, [(HOSTILE, 1)], HOSTILE), notebook.lines([HOSTILE]))
    assert "<script" not in shown
    assert "\u202e" not in shown
    assert "\x1b" not in shown
    assert shown.count("&lt;script&gt;") == 6
    assert set(re.findall(r"<(\w+)", shown)) == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert "color" not in shown
    assert "background" not in shown


def test_a_table_is_small_however_much_there_is() -> None:
    rows = [("x" * 10_000, at) for at in range(1000)]
    shown = notebook.table([Column("text"), Column("at")], rows)
    assert len(shown) < 10_000
    assert "and 980 more rows" in shown
    assert shown.count("<tr>") == notebook.ROWS + 1


def test_a_table_without_rows_is_left_out() -> None:
    assert notebook.table([Column("a")], []) == ""


def test_an_error_shows_the_line_that_led_to_it_and_its_remedy() -> None:
    with pytest.raises(InvalidName) as raised:
        TableName.parse("no name")
    assert raised.value._render_traceback_() == [
        '----> TableName.parse("no name")',
        "InvalidName: 'no name' is not a table name.\nWrite schema.table, such as gold.daily_revenue.",
    ]


def test_a_listing_is_a_list_that_shows_itself() -> None:
    listing = Listing([1, 2], "numbers", [Column("number", right=True)], lambda each: (each,))
    assert listing == [1, 2]
    assert "numbers" in listing._repr_html_()
    assert ">2</td>" in listing._repr_html_()
    assert "no numbers" in Listing([], "numbers", [Column("number")], lambda each: (each,))._repr_html_()
