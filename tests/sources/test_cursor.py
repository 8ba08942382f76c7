from __future__ import annotations

from datetime import timedelta

import pytest

from mere.errors import SourceError
from mere.sources.cursor import later, less


@pytest.mark.parametrize(
    ("value", "overlap", "expected"),
    [
        ("100", 0, "100"),
        ("100", 30, "70"),
        ("10.5", 1, "9.5"),
        ("9007199254740993", 1, "9007199254740992"),
        ("2026-03-01T00:00:00Z", timedelta(hours=1), "2026-02-28T23:00:00Z"),
        ("2026-03-01T00:00:00.250Z", timedelta(seconds=1), "2026-02-28T23:59:59.250Z"),
        ("2026-03-01T00:00:00.123456789Z", timedelta(seconds=1), "2026-02-28T23:59:59.123456Z"),
        ("2026-03-01T02:00:00+02:00", timedelta(hours=3), "2026-02-28T23:00:00+02:00"),
        ("2026-03-01 00:00:00", timedelta(minutes=1), "2026-02-28 23:59:00"),
        ("2026-03-01 00:00:00", timedelta(milliseconds=1), "2026-02-28 23:59:59"),
        ("2026-03-01", timedelta(days=1), "2026-02-28"),
        ("2026-03-01", timedelta(hours=1), "2026-02-28"),
        ("0001-01-01", timedelta(days=1), "0001-01-01"),
        ("1700000000", timedelta(minutes=1), "1699999940"),
        ("1700000000", timedelta(milliseconds=1), "1699999999"),
        ("1700000000000", timedelta(minutes=1), "1699999940000"),
    ],
)
def test_an_overlap_is_taken_off_and_the_value_stays_written_as_it_was(
    value: str, overlap: timedelta | int, expected: str
) -> None:
    assert less(value, overlap) == expected


@pytest.mark.parametrize(("value", "overlap"), [("2026-03-01", 5), ("abc", 5), ("abc", timedelta(days=1))])
def test_what_cannot_be_taken_off_is_an_error(value: str, overlap: timedelta | int) -> None:
    with pytest.raises(SourceError, match="overlap"):
        less(value, overlap)


@pytest.mark.parametrize(
    ("earlier", "greater"),
    [
        ("9", "10"),
        ("9007199254740992", "9007199254740993"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.001Z"),
        ("2026-01-01T01:00:00+02:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01", "2026-01-01T00:00:01Z"),
        ("a", "b"),
    ],
)
def test_numbers_times_and_texts_are_compared_as_what_they_are(earlier: str, greater: str) -> None:
    assert later(earlier, greater) == later(greater, earlier) == greater
