from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.errors import InvalidName
from mere.names import Ago, AsOf, Back, RefExpression, Step, TableName, check_new_ref, near


@pytest.mark.parametrize(
    ("text", "base", "steps"),
    [
        ("main", "main", ()),
        ("main~3", "main", (Back(3),)),
        ("main~", "main", (Back(1),)),
        ("3fa9c1d2", "3fa9c1d2", ()),
        ("dev-2~1~2", "dev-2", (Back(1), Back(2))),
        ("main@2h", "main", (Ago(timedelta(hours=2)),)),
        ("main@90s", "main", (Ago(timedelta(seconds=90)),)),
        ("main@1w", "main", (Ago(timedelta(weeks=1)),)),
        ("main@2026-11-14", "main", (AsOf(datetime(2026, 11, 14, tzinfo=UTC)),)),
        ("main@2026-11-15T09:00", "main", (AsOf(datetime(2026, 11, 15, 9, tzinfo=UTC)),)),
        ("main@2026-11-15T09:00+02:00", "main", (AsOf(datetime(2026, 11, 15, 7, tzinfo=UTC)),)),
        ("main@2026-11-15T09:00:00Z~1", "main", (AsOf(datetime(2026, 11, 15, 9, tzinfo=UTC)), Back(1))),
    ],
)
def test_a_ref_is_a_name_and_steps_into_its_history(text: str, base: str, steps: tuple[Step, ...]) -> None:
    parsed = RefExpression.parse(text)
    assert (parsed.base, parsed.steps) == (base, steps)


@pytest.mark.parametrize(
    "text", ["", "~1", "@2h", "Main", "main~x", "main~-1", "main@", "main@soon", "a b", "main@9999999999w", "ab", "a.b"]
)
def test_anything_else_is_refused_with_the_rule(text: str) -> None:
    if text == "ab":  # too short for a commit, but a fine name to look for
        assert RefExpression.parse(text).base == "ab"
        return
    with pytest.raises(InvalidName) as caught:
        RefExpression.parse(text)
    assert "~N" in str(caught.value.remedy)


@given(st.text())
def test_no_text_crashes_the_parser(text: str) -> None:
    try:
        RefExpression.parse(text)
    except InvalidName as error:
        assert text in error.message or repr(text) in error.message


@given(st.from_regex(r"[a-z][a-z0-9_-]{0,20}", fullmatch=True))
def test_a_new_name_never_looks_like_a_commit_or_an_expression(name: str) -> None:
    try:
        check_new_ref(name)
    except InvalidName:
        return
    parsed = RefExpression.parse(name)
    assert (parsed.base, parsed.steps, parsed.may_be_commit) == (name, (), False)


def test_a_table_has_a_schema_and_a_name() -> None:
    assert TableName.parse("gold.orders") == TableName("gold", "orders")
    assert str(TableName.parse("a.b.c")) == "a.b.c"
    for wrong in ("orders", ".orders", "gold.", "", "a..b"):
        with pytest.raises(InvalidName):
            TableName.parse(wrong)


def test_near_matches_make_a_sentence() -> None:
    assert near("mian", ["main", "dev"]) == " Did you mean main?"
    assert near("zzz", ["main"]) == ""


def test_a_suggestion_is_made_once_and_whatever_the_case() -> None:
    assert near("gold.dialy", ["gold.daily", "gold.daily", "silver.x"]) == " Did you mean gold.daily?"
    assert near("MIAN", ["Main", "main"]) == " Did you mean Main or main?"
    assert near("main", ["main"]) == "", "what was asked for is no suggestion"
    tables = [TableName("gold", "orders"), TableName("gold", "orders"), TableName("silver", "orders")]
    assert near("order", tables, by=lambda table: table.name) == " Did you mean gold.orders or silver.orders?"


@pytest.mark.parametrize(
    ("table", "spelled"),
    [
        (TableName("gold", "orders"), "gold.orders"),
        (TableName("a.b", "c d"), "a.b.c d"),
        (TableName("Größe", 'we"ird'), 'Größe.we"ird'),
        (TableName("", "orders_snap__dbt_tmp"), '"".orders_snap__dbt_tmp'),
        (TableName("", "a.b"), '""."a.b"'),
        (TableName("gold", ""), 'gold.""'),
        (TableName("gold", "a.b"), 'gold."a.b"'),
        (TableName("a..b", "c"), '"a..b".c'),
        (TableName("gold ", " x"), '"gold "." x"'),
        (TableName("gold", '"x"'), r'gold."\"x\""'),
        (TableName("gold", "two\nlines"), r'gold."two\nlines"'),
        (TableName("gold", "\u202elogo"), r'gold."\u202elogo"'),
    ],
)
def test_any_name_that_an_engine_may_have_made_can_be_typed(table: TableName, spelled: str) -> None:
    assert str(table) == spelled
    assert TableName.parse(spelled) == table


@given(st.text(), st.text())
def test_every_name_of_a_table_is_what_it_is_spelled(namespace: str, name: str) -> None:
    table = TableName(namespace, name)
    assert TableName.parse(str(table)) == table
    assert str(table).isprintable()


@pytest.mark.parametrize(
    "text", ["orders", ".orders", "gold.", "a..b", '"".a.b', '"gold', 'gold."x', r'"\ud800".x', ""]
)
def test_half_a_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match="is not a table name"):
        TableName.parse(text)
