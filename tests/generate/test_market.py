from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from datetime import UTC, datetime
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest

from mere.generate.files import write
from mere.generate.market import Market, trading_days
from mere.windows import instant
from tests.generate import golden

HEADER = "ticker,volume,open,close,high,low,window_start,transactions"


def lines(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("latin-1").splitlines()


def test_a_day_is_a_file_below_its_year_and_month(bars: Path) -> None:
    names = sorted(path.relative_to(bars).as_posix() for path in bars.rglob("*.gz"))
    days = ["2024-03-07", "2024-03-08", "2024-03-11", "2024-03-12"]  # the 9th and 10th are a weekend
    assert names == [f"2024/03/{day}.csv.gz" for day in days]


def test_the_new_column_appears_on_its_day(bars: Path) -> None:
    headers = [lines(path)[0] for path in sorted(bars.rglob("*.gz"))]
    assert headers == [HEADER, HEADER, f"{HEADER},vwap", f"{HEADER},vwap"]


def test_the_new_column_appears_after_30_trading_days_unless_a_day_is_named() -> None:
    headers = []
    for file in list(Market(days=32, tickers=1).files())[29:31]:
        stream = BytesIO()
        file.write(stream)
        headers.append(gzip.decompress(stream.getvalue()).decode().partition("\n")[0])
    assert headers == [HEADER, f"{HEADER},vwap"]


def test_the_rows_of_a_seed_never_change(tmp_path: Path) -> None:
    list(write(Market(days=2, tickers=3, seed=7, poison=0.02, new_column_at=instant("2024-01-03")), tmp_path))
    digests = [
        hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()[:16] for path in sorted(tmp_path.rglob("*.gz"))
    ]
    assert digests == ["f2581b6f9c47699a", "bc706243d7400421"]


def test_the_header_of_the_archive_tells_no_time_and_no_name(bars: Path) -> None:
    header = next(bars.rglob("*.gz")).read_bytes()[:10]
    assert header[3] == 0  # no flags: no name follows
    assert header[4:8] == bytes(4)


def test_bars_are_before_within_and_after_the_regular_hours(bars: Path) -> None:
    found = golden.figures(golden.MARKET_BARS, bars)
    by_session = Counter[str]()
    for row in found:
        by_session[row["session"]] += row["bars"]
    assert len(found) == 4 * 3
    assert by_session["regular"] > 10 * by_session["post"] > 0 < by_session["pre"]


def test_a_day_is_a_day_in_new_york_in_winter_and_in_summer(bars: Path) -> None:
    """After 19:00 it is the next day in UTC, in winter."""
    for path, offset in zip(sorted(bars.rglob("*.gz")), (5, 5, 4, 4), strict=True):
        day = instant(path.name[:10]).timestamp()
        starts = [
            int(cells[6]) for line in lines(path)[1:] if len(cells := line.split(",")) in (8, 9) and cells[6].isdigit()
        ]
        minutes = {(start // 10**9 - int(day) - offset * 3600) // 60 for start in starts}
        assert all(start % (60 * 10**9) == 0 for start in starts)
        assert 4 * 60 <= min(minutes) < 5 * 60
        assert 19 * 60 < max(minutes) < 20 * 60


def test_a_bar_holds_together(bars: Path) -> None:
    for path in sorted(bars.rglob("*.gz")):
        for line in lines(path)[1:]:
            cells = line.split(",")
            if len(cells) not in (8, 9) or not cells[1].isdigit() or not cells[0].isalpha() or len(cells[1]) > 18:
                continue
            opened, closed, high, low = map(float, cells[2:6])
            assert 0 < low <= min(opened, closed) <= max(opened, closed) <= high
            assert 0 < int(cells[7]) <= int(cells[1])
            if len(cells) == 9:
                assert low <= float(cells[8]) <= high


def test_some_bars_stand_there_twice_and_some_out_of_order(tmp_path: Path) -> None:
    list(write(Market(days=1, tickers=10), tmp_path))
    rows = lines(tmp_path / "2024/01/2024-01-02.csv.gz")[1:]
    keys = [(cells[0], int(cells[6])) for cells in (row.split(",") for row in rows)]
    assert 0 < len(rows) - len(set(rows)) < 0.01 * len(rows)
    assert len(set(keys)) == len(set(rows))  # what is there twice is so as a whole
    displaced = sum(1 for one, other in pairwise(dict.fromkeys(keys)) if one > other)
    assert 0 < displaced < 0.02 * len(rows)


def test_poison_spoils_its_share_of_lines_and_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    for share in (0.0, 0.05):
        list(write(Market(days=1, tickers=10, poison=share), tmp_path / str(share)))
    clean, spoiled = (lines(tmp_path / share / "2024/01/2024-01-02.csv.gz") for share in ("0.0", "0.05"))
    differ = [other for one, other in zip(clean, spoiled, strict=True) if one != other]
    [figures] = golden.figures(golden.MARKET_FILES, tmp_path / "0.05")
    assert figures["bad"] == len(differ)
    assert figures["good"] == len(clean) - 1 - len(differ)
    assert 0.03 < len(differ) / len(clean) < 0.07
    assert golden.figures(golden.MARKET_FILES, tmp_path / "0.0")[0]["bad"] == 0


def test_a_day_starts_where_the_last_one_ended(tmp_path: Path) -> None:
    list(write(Market(days=3, tickers=4), tmp_path))
    daily = golden.figures(golden.MARKET_DAILY, tmp_path)
    for ticker in {row["ticker"] for row in daily}:
        prices = [(row["open"], row["close"]) for row in daily if row["ticker"] == ticker]
        for (_, closed), (opened, _) in pairwise(prices):
            assert abs(opened / closed - 1) < 0.03


def test_there_are_as_many_tickers_as_asked_for(tmp_path: Path) -> None:
    list(write(Market(days=1, tickers=300), tmp_path))
    names = {line.split(",")[0] for line in lines(tmp_path / "2024/01/2024-01-02.csv.gz")[1:]}
    assert len(names) == 300


@pytest.mark.parametrize("start", [datetime(2024, 1, 6, tzinfo=UTC), datetime(2024, 1, 8, tzinfo=UTC)])
def test_weekends_are_left_out(start: datetime) -> None:
    days = trading_days(start, 6)
    assert [f"{day:%m-%d}" for day in days] == ["01-08", "01-09", "01-10", "01-11", "01-12", "01-15"]


def test_the_golden_figures_agree_with_each_other(bars: Path) -> None:
    files, sessions = golden.figures(golden.MARKET_FILES, bars), golden.figures(golden.MARKET_BARS, bars)
    daily = golden.figures(golden.MARKET_DAILY, bars)
    distinct = sum(row["bars"] for row in sessions)
    assert distinct == sum(row["bars"] for row in daily) < sum(row["good"] for row in files)
    assert sum(row["volume"] for row in sessions) == sum(row["volume"] for row in daily)
    assert {row["day"]: row["bars"] == row["with_vwap"] for row in sessions} == {
        "2024-03-07": False, "2024-03-08": False, "2024-03-11": True, "2024-03-12": True,
    }  # fmt: skip
    assert sum(row["lines"] for row in files) == sum(len(lines(path)) - 1 for path in bars.rglob("*.gz"))
