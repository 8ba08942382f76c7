"""Patterns over the names of files: what matches, what window it gives, and what is refused in words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mere.sources.pattern import Pattern
from mere.windows import LAST, Grain, Span


def values(pattern: str, name: str) -> dict[str, str] | None:
    found = Pattern.parse(pattern).match(name)
    return None if found is None else dict(found.values)


def span(pattern: str, name: str) -> Span | None:
    found = Pattern.parse(pattern).match(name)
    return found.span if found else None


def at(*parts: int) -> datetime:
    year, month, day, hour = (*parts, *(1, 1, 1, 0)[len(parts) :])
    return datetime(year, month, day, hour, tzinfo=UTC)


# the base


@pytest.mark.parametrize(
    ("location", "base", "parts"),
    [
        ("data/trips_{year}-{month}.parquet", "data", ("trips_{year}-{month}.parquet",)),
        ("data/{year}/trips.csv", "data", ("{year}", "trips.csv")),
        ("data/trips.csv", "data", ("trips.csv",)),
        ("trips.csv", "", ("trips.csv",)),
        ("*.csv", "", ("*.csv",)),
        ("./data//in/./x.csv", "data/in", ("x.csv",)),
        ("../data/x.csv", "../data", ("x.csv",)),
        ("/data/x_*.csv", "/data", ("x_*.csv",)),
        ("/x.csv", "/", ("x.csv",)),
        ("file:///data/x.csv", "/data", ("x.csv",)),
        ("~/data/**/x.csv", "~/data", ("**", "x.csv")),
        ("s3://bucket/*.csv", "s3://bucket", ("*.csv",)),
        ("s3a://bucket/bars/{symbol}/*.csv.gz", "s3://bucket/bars", ("{symbol}", "*.csv.gz")),
        ("https://host/a/trips_{year}.csv", "https://host/a", ("trips_{year}.csv",)),
        ("https://host:8080//a/x.csv", "https://host:8080//a", ("x.csv",)),
        ("${ROOT}/x_{year}.csv", "${ROOT}", ("x_{year}.csv",)),
        ("s3://${BUCKET}/${FOLDER:-/a/b}/x_{year}.csv", "s3://${BUCKET}/${FOLDER:-/a/b}", ("x_{year}.csv",)),
        ("data/a b%é'$/x.csv", "data/a b%é'$", ("x.csv",)),
    ],
)
def test_the_folders_before_the_first_field_are_the_base(location: str, base: str, parts: tuple[str, ...]) -> None:
    pattern = Pattern.parse(location)
    assert (pattern.base, pattern.parts) == (base, parts)


def test_no_secret_of_a_web_address_is_in_the_base() -> None:
    pattern = Pattern.parse("https://me:pa%20ss@host/a/x_{year}.csv?token=secret&{x}#part")
    assert (pattern.base, pattern.parts) == ("https://host/a", ("x_{year}.csv",))
    assert "secret" not in repr(pattern)


@pytest.mark.parametrize("base", ["", "/", "data", "s3://b", "https://h/x"])
def test_a_location_is_the_base_and_the_name(base: str) -> None:
    pattern = Pattern.parse(f"{base.rstrip('/')}/x.csv" if base else "x.csv")
    assert pattern.base == base
    assert pattern.location("x.csv") == (f"{base.rstrip('/')}/x.csv" if base else "x.csv")


# what matches


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("x.csv", "x.csv", {}),
        ("x.csv", "xxcsv", None),
        ("*.csv", "a b.csv", {}),
        ("*.csv", "a/b.csv", None),
        ("a?.csv", "ab.csv", {}),
        ("a?.csv", "a.csv", None),
        ("{exchange}_{symbol}.csv", "nyse_brk_a.csv", {"exchange": "nyse", "symbol": "brk_a"}),
        ("{symbol}/x.csv", "a%2F'\"é {}[].x/x.csv", {"symbol": "a%2F'\"é {}[].x"}),
        ("{symbol}/x.csv", "/x.csv", None),
        ("{s}/{s}.csv", "a/a.csv", {"s": "a"}),
        ("{s}/{s}.csv", "a/b.csv", None),
        ("a[1].csv", "a[1].csv", {}),
        ("a[1].csv", "a1.csv", None),
        ("{x}.csv", "line\nbreak.csv", {"x": "line\nbreak"}),
    ],
)
def test_fields_and_wildcards_stay_within_a_part(pattern: str, name: str, found: dict[str, str] | None) -> None:
    assert values(pattern, name) == found


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("**/x.csv", ["x.csv", "a/x.csv", "a/b/x.csv"], ["ax.csv", "a/x.csv/y"]),
        ("**", ["x", "a/b/x"], ["", "a/"]),
        ("{a}/**/x.csv", ["1/x.csv", "1/2/3/x.csv"], ["x.csv"]),
    ],
)
def test_two_stars_stand_for_any_folders(pattern: str, matching: list[str], other: list[str]) -> None:
    parsed = Pattern.parse(pattern)
    assert all(parsed.match(name) for name in matching)
    assert not any(parsed.match(name) for name in other)


@pytest.mark.parametrize("pattern", ["*.csv", "{x}.csv", "?x.csv", "*/x.csv", "**/x.csv", "**"])
@pytest.mark.parametrize("hidden", [".", "_"])
def test_no_wildcard_stands_for_a_hidden_name(pattern: str, hidden: str) -> None:
    parsed = Pattern.parse(pattern)
    assert not parsed.match(f"{hidden}x.csv")
    assert not parsed.match(f"{hidden}x/x.csv")


def test_a_hidden_name_that_is_spelled_out_matches() -> None:
    assert Pattern.parse("*/_x_*.csv").match("a/_x_1.csv")
    assert Pattern.parse("x_*.csv").match("x__1.csv")


# time


@pytest.mark.parametrize(
    ("pattern", "name", "grain", "start", "end"),
    [
        ("{year}.csv", "2024.csv", Grain.YEAR, at(2024), at(2025)),
        ("t_{year}-{month}.csv", "t_2024-12.csv", Grain.MONTH, at(2024, 12), at(2025)),
        ("year={year}/month={month}/x.csv", "year=2024/month=3/x.csv", Grain.MONTH, at(2024, 3), at(2024, 4)),
        ("{year}{month}{day}.csv", "20240229.csv", Grain.DAY, at(2024, 2, 29), at(2024, 3, 1)),
        ("{date}.csv", "2024-02-29.csv", Grain.DAY, at(2024, 2, 29), at(2024, 3, 1)),
        ("{year}/{month}/{date}.csv", "2024/02/2024-02-29.csv", Grain.DAY, at(2024, 2, 29), at(2024, 3, 1)),
        ("{date}T{hour}.csv", "2024-02-29T23.csv", Grain.HOUR, at(2024, 2, 29, 23), at(2024, 3, 1)),
        ("{year}/{month}/{day}/{hour}.csv", "2024/1/2/3.csv", Grain.HOUR, at(2024, 1, 2, 3), at(2024, 1, 2, 4)),
        ("{year}/{s}_{year}.csv", "2024/a_2024.csv", Grain.YEAR, at(2024), at(2025)),
        ("{year}-{month}.csv", "9999-12.csv", Grain.MONTH, at(9999, 12), LAST),
    ],
)
def test_time_fields_give_the_window(pattern: str, name: str, grain: Grain, start: datetime, end: datetime) -> None:
    assert Pattern.parse(pattern).grain is grain
    assert span(pattern, name) == Span(start, end)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("{date}.csv", "2024-02-30.csv"),
        ("{year}-{month}.csv", "2024-13.csv"),
        ("{year}-{month}.csv", "2024-00.csv"),
        ("{year}-{month}.csv", "2024-001.csv"),
        ("{year}-{month}.csv", "0000-01.csv"),
        ("{year}{month}.csv", "20241.csv"),
        ("{year}-{month}.csv", "٢٠٢٤-01.csv"),
        ("{date}T{hour}.csv", "2024-02-28T24.csv"),
        ("{year}/{date}.csv", "2023/2024-02-28.csv"),
        ("{year}/{month}/{date}.csv", "2024/3/2024-02-28.csv"),
    ],
)
def test_a_time_that_is_in_no_calendar_does_not_match(pattern: str, name: str) -> None:
    assert values(pattern, name) is None


@pytest.mark.parametrize(
    ("pattern", "fields", "grain"),
    [("{year}/{symbol}/{year}-{month}.csv", ("year", "symbol", "month"), Grain.MONTH), ("{s}.csv", ("s",), None)],
)
def test_fields_are_known_in_order(pattern: str, fields: tuple[str, ...], grain: Grain | None) -> None:
    parsed = Pattern.parse(pattern)
    assert (parsed.fields, parsed.grain) == (fields, grain)


# what is refused


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("", "empty"),
        ("data/", "names a folder"),
        ("/", "names a folder"),
        ("..", "names a folder"),
        ("s3://bucket", "bucket has to be named"),
        ("s3://bucket/", "names a folder"),
        ("s3://*/x.csv", "bucket has to be named"),
        ("s3://bucket//x.csv", "empty"),
        ("s3://bucket/../x.csv", "empty, . or .."),
        ("https://host", "host has to be named"),
        ("https://{year}.host/x.csv", "host has to be named"),
        ("https://me:a/b@host/x.csv", "%2F"),
        ("ftp://host/x.csv", "not from ftp"),
        ("gs://bucket/x.csv", "not from gs"),
        ("data/{year.csv", "has no counterpart"),
        ("data/year}.csv", "has no counterpart"),
        ("data/{}.csv", "is not a field"),
        ("data/{a b}.csv", "is not a field"),
        ("data/{a{b}}.csv", "has no counterpart"),
        ("data/a**.csv", "whole part"),
        ("data/***/x.csv", "whole part"),
        ("data/*/../x.csv", ".. cannot"),
        ("{month}.csv", "{month} needs {year}"),
        ("{year}-{day}.csv", "{day} needs {month}"),
        ("{year}-{hour}.csv", "{hour} needs {day} or {date}"),
        ("https://host/*.csv", "lists no files"),
        ("https://host/{symbol}.csv", "lists no files"),
        ("https://host/x?year={year}", "after the ?"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(location: str, words: str) -> None:
    with pytest.raises(ValueError) as raised:
        Pattern.parse(location)
    assert words in str(raised.value)


def test_an_error_has_no_secret() -> None:
    for location in ("https://me:secret@host/*.csv?secret", "https://me:secret@host?secret", "https://u:secret/@h/x"):
        with pytest.raises(ValueError) as raised:
            Pattern.parse(location)
        assert "secret" not in str(raised.value)


# the file of a window


@pytest.mark.parametrize("pattern", ["x.csv", "{year}_*.csv", "{year}_{symbol}.csv", "{symbol}.csv", "**/{year}.csv"])
def test_only_time_fields_say_what_the_file_of_a_window_is_called(pattern: str) -> None:
    with pytest.raises(ValueError, match="only a pattern of time fields"):
        Pattern.parse(pattern).at(at(2024))


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="/*?{}$"), max_size=6)
SEPARATORS = st.sampled_from(["", "-", "_", "/", "/m=", ".", "%", " "])
STARTS = st.datetimes(datetime(1, 1, 1), datetime(9998, 1, 1), timezones=st.just(UTC))


@given(TEXTS, SEPARATORS, SEPARATORS, SEPARATORS, STARTS, st.integers(1, 4))
def test_the_name_of_a_window_gives_the_window(
    before: str, first: str, second: str, third: str, start: datetime, count: int
) -> None:
    fields = "".join(["{year}", f"{first}{{month}}", f"{second}{{day}}", f"{third}{{hour}}"][:count])
    pattern = Pattern.parse(f"base/x{before}{fields}.csv")
    assert pattern.grain is not None
    start = pattern.grain.floor(start)
    name = pattern.at(start)
    found = pattern.match(name)
    assert found is not None
    assert found.span == Span(start, pattern.grain.next(start))


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1), min_size=2, max_size=4))
def test_text_fields_give_back_every_part_of_a_path(parts: list[str]) -> None:
    assume(not any(part.startswith((".", "_")) for part in parts))
    pattern = Pattern.parse("/".join(f"{{f{number}}}" for number in range(len(parts))))
    found = pattern.match("/".join(parts))
    assert found is not None
    assert list(found.values.values()) == parts


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_refused_in_words(location: str) -> None:
    try:
        pattern = Pattern.parse(location)
    except ValueError as error:
        assert str(error)
    else:
        assert pattern.parts
        pattern.match(location)


@given(st.text(st.characters(codec="utf-8", exclude_characters="/*?{}"), min_size=1, max_size=20))
def test_a_name_without_fields_matches_itself_alone(name: str) -> None:
    assume(name not in (".", "..") and not name.startswith("~"))
    pattern = Pattern.parse(f"data/{name}")
    assert pattern.is_fixed
    assert pattern.match(name)
    assert not pattern.match(f"{name}x")


# which folders are entered


def test_only_folders_that_can_hold_a_match_are_entered() -> None:
    pattern = Pattern.parse("data/{year}/m*/x.csv")
    assert pattern.enters(0, "2024")
    assert not pattern.enters(0, "old")
    assert pattern.enters(1, "m1")
    assert not pattern.enters(2, "m1")
    everywhere = Pattern.parse("**/_in/*.csv")
    assert everywhere.enters(5, "a")
    assert everywhere.enters(0, "_in")
    assert not everywhere.enters(0, ".git")
