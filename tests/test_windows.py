"""Windows and sets of spans against sets of single hours."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.windows import Grain, Span, Spans, instant, stamp

START = datetime(2023, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
hours = st.integers(0, 60)
spans = st.lists(st.tuples(hours, hours), max_size=6).map(
    lambda pairs: Spans.of(Span(START + min(pair) * HOUR, START + max(pair) * HOUR) for pair in pairs)
)
instants = st.datetimes(datetime(1990, 1, 1), datetime(2080, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


def hours_of(found: Spans) -> set[datetime]:
    return {window.start for window in found.windows(Grain.HOUR)}


@given(spans, spans)
def test_spans_are_sets(one: Spans, other: Spans) -> None:
    assert hours_of(one | other) == hours_of(one) | hours_of(other)
    assert hours_of(one - other) == hours_of(one) - hours_of(other)
    assert hours_of(one & other) == hours_of(one) & hours_of(other)
    assert Spans.from_json((one | other).to_json()) == one | other


@given(spans)
def test_spans_never_touch(found: Spans) -> None:
    ordered = list(found)
    assert all(span.start < span.end for span in ordered)
    assert all(one.end < other.start for one, other in pairwise(ordered))


@given(st.sampled_from(Grain), instants)
def test_a_window_holds_its_instants(grain: Grain, at: datetime) -> None:
    start = grain.floor(at)
    end = grain.next(start)
    assert start <= at < end
    assert grain.floor(start) == start
    assert grain.ceil(start) == start
    assert grain.floor(end) == end
    assert grain.floor(end - timedelta(microseconds=1)) == start
    assert list(Span(start, end).windows(grain)) == [Span(start, end)]


@given(st.sampled_from(Grain), spans)
def test_widened_spans_are_whole_windows(grain: Grain, found: Spans) -> None:
    wide = found.widened(grain)
    assert found - wide == Spans()
    for window in wide.windows(grain):
        assert found.overlaps(window)


@pytest.mark.parametrize(
    ("text", "grain", "label"),
    [
        ("2024-02-11T05:30", Grain.HOUR, "2024-02-11T05"),
        ("2024-02-11T05:30", Grain.DAY, "2024-02-11"),
        ("2024-02-11", Grain.WEEK, "2024-02-05"),
        ("2024-02-11", Grain.MONTH, "2024-02"),
        ("2024-02-11", Grain.YEAR, "2024"),
    ],
)
def test_labels(text: str, grain: Grain, label: str) -> None:
    assert grain.label(grain.floor(instant(text))) == label


def test_instants_are_in_utc() -> None:
    assert instant("2024-02") == instant("2024-02-01") == instant(date(2024, 2, 1)) == datetime(2024, 2, 1, tzinfo=UTC)
    assert instant("2024") == datetime(2024, 1, 1, tzinfo=UTC)
    assert instant("2024-02-01T02:00+02:00") == datetime(2024, 2, 1, tzinfo=UTC)
    assert stamp(instant("2024-02-01")) == "2024-02-01"
    assert stamp(instant("2024-02-01T05:30")) == "2024-02-01T05:30:00"
    with pytest.raises(ValueError, match="soon"):
        instant("soon")
