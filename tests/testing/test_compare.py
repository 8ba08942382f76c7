"""Rows as multisets, and what is said when they differ."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.testing.compare import compare

ROWS = st.lists(st.tuples(st.integers(0, 3) | st.none(), st.sampled_from([0.1, math.nan, None])), max_size=6)


@given(ROWS, st.randoms())
def test_the_order_of_rows_does_not_matter(rows: list[tuple[Any, ...]], random: Any) -> None:
    assert compare(["a", "b"], rows, random.sample(rows, len(rows))) is None


@given(ROWS, ROWS)
def test_every_row_is_accounted_for(expected: list[tuple[Any, ...]], found: list[tuple[Any, ...]]) -> None:
    difference = compare(["a", "b"], expected, found)
    if difference is None:
        assert sorted(map(repr, expected)) == sorted(map(repr, found))
    else:
        same = len(expected) - len(difference.near) - len(difference.missing)
        assert same == len(found) - len(difference.near) - len(difference.unexpected) >= 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.1 + 0.2, 0.3),
        (math.nan, math.nan),
        (Decimal("1.50"), Decimal("1.5")),
        (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
        ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]),
        ({"x": [0.1 + 0.2, None]}, {"x": [0.3, None]}),
    ],
)
def test_values_that_mean_the_same_are_the_same(one: Any, other: Any) -> None:
    assert compare(["a"], [(one,)], [(other,)]) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, 0),
        (None, ""),
        (0.3, 0.3001),
        (math.nan, None),
        (Decimal("1.5"), Decimal("1.51")),
        ([1, 2], [2, 1]),
        ([("a", 1)], [("a", 2)]),
        ({"x": 1}, {"x": None}),
    ],
)
def test_values_that_differ_are_told_apart(one: Any, other: Any) -> None:
    assert compare(["a"], [(one,)], [(other,)]) is not None


def test_a_row_that_comes_twice_is_expected_twice() -> None:
    difference = compare(["a"], [(1,)], [(1,), (1,)])
    assert difference is not None
    assert difference.lines() == ["1 of 1 rows as expected, 1 unexpected", "unexpected: a = 1"]


def test_rows_of_one_key_are_shown_column_by_column() -> None:
    expected = [(1, "Bern", Decimal("10.00")), (2, "Graz", None), (3, "Oslo", Decimal(1))]
    found = [(1, "Bern", Decimal("12.50")), (3, "Oslo", Decimal(1)), (4, " x", None)]
    difference = compare(["id", "city", "amount"], expected, found, key=["ID"])
    assert difference is not None
    assert difference.lines() == [
        "1 of 3 rows as expected, 1 differ, 1 missing, 1 unexpected",
        "differs: id = 1, city = Bern",
        "  amount  expected 10.00  found 12.50",
        "missing: id = 2, city = Graz, amount = NULL",
        "unexpected: id = 4, city = ' x', amount = NULL",
    ]
    assert difference.to_dict()["differing"][0]["found"] == {"id": 1, "city": "Bern", "amount": "12.50"}


def test_without_a_key_rows_that_agree_in_half_of_their_columns_are_near() -> None:
    difference = compare(["a", "b"], [(1, 1), (2, 2)], [(3, 3), (1, 9)])
    assert difference is not None
    assert [(pair.expected, pair.found) for pair in difference.near] == [((1, 1), (1, 9))]
    assert (difference.missing, difference.unexpected) == (((2, 2),), ((3, 3),))


def test_of_many_rows_only_some_are_shown() -> None:
    difference = compare(["a"], [], [(number,) for number in range(30)])
    assert difference is not None
    assert len(difference.lines()) == 12
    assert difference.lines()[-1] == "… and 20 more"
