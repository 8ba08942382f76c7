"""The example market, as days come, a column appears and the layout changes: what is in the lake, against what DuckDB
makes of its files by itself. Then the same files from a bucket of somebody else."""

from __future__ import annotations

import gzip
import json
import math
import shlex
import shutil
import statistics
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.examples.readers import totals_by_duckdb, totals_by_pyiceberg
from tests.examples.samples import assert_all_shown
from tests.generate import golden
from tests.services.s3 import ACCESS_KEY, SECRET_KEY, S3Server

SOURCE = "sources/bronze/minute_aggs.yaml"
BARS = ("--tickers", "4", "--new-column-at", "2024-01-04")
DIRTY = ("--poison", "0.004")
DAYS = ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05")
AFTER_TWO_DAYS = "main~2"
BUILT = ("bronze.minute_aggs", "silver.minute_aggs", "gold.daily_bars", "gold.volatility")

# Of each table a column, to compare its sum.
SUMS = {
    "bronze.minute_aggs": "volume",
    "silver.minute_aggs": "close",
    "gold.daily_bars": "close",
    "gold.volatility": "close",
}
# What is the same wherever the files were, of each table.
SAME = {
    "bronze.minute_aggs": "* exclude (_loaded_at, _run)",
    "bronze.minute_aggs__quarantine": "_source_file, _line, _raw, _rules",
    "bronze.minute_aggs__loads": "portion, rows, bad, size",
    **dict.fromkeys(BUILT[1:], "*"),
}


class Market(Shell):
    def events(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """What a run built, by model."""
        events = map(json.loads, self(*arguments, "run", "--json").stdout.splitlines())
        return {event["model"]: event for event in events if event["event"] == "built"}

    def rows(self, query: str, at: str = "main") -> list[tuple[Any, ...]]:
        with Lake.open(self.folder / "lake") as lake, lake.sql(query, at) as result:
            return list(map(tuple, result.rows()))

    def files(self) -> dict[str, int]:
        """The data files of the bars, each with the number of its layout."""
        with Lake.open(self.folder / "lake") as lake:
            found = lake.pyiceberg("main").load_table("bronze.minute_aggs").inspect.files().to_pylist()
        return {each["file_path"]: each["spec_id"] for each in found}


class Days(Market):
    """Two days, two more with another layout and a new column, and the last one once more, without its dirt."""

    def __init__(self, folder: Path) -> None:
        Shell(folder.parent)("init", folder.name, "--example", "market")
        super().__init__(folder)
        self.data = folder / "data"
        shutil.rmtree(self.data)
        self("generate", "market", "--days", "2", *BARS, *DIRTY, "data")
        self.first, self.files_before = self.events(), self.files()
        source = folder / SOURCE
        source.write_text(source.read_text(encoding="utf-8").replace("day(date)", "month(date)"), encoding="utf-8")
        self("generate", "market", "--days", "4", *BARS, *DIRTY, "data")
        self.second, self.files_after = self.events(), self.files()
        self.bad_on_the_last_day = self.expected(golden.MARKET_FILES)[-1][3]
        self("generate", "market", "--days", "4", *BARS, "clean")
        last = Path("2024/01/2024-01-05.csv.gz")
        (folder / "clean" / last).replace(self.data / last)
        self.third = self.events()

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in golden.figures(query, self.data)]


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Days:
    return Days(tmp_path_factory.mktemp("market") / "bars")


@pytest.fixture(scope="module")
def bucket(market: Days, s3_server: S3Server) -> Iterator[str]:
    """The files of two days in a bucket that has nothing to do with the lake, and the keys to it."""
    name = s3_server.new_bucket("foreign-bars").removeprefix("s3://")
    store = fs.S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=s3_server.endpoint)
    for day in DAYS[:2]:
        with store.open_output_stream(f"{name}/2024/01/{day}.csv.gz", compression=None) as stream:
            stream.write((market.data / "2024" / "01" / f"{day}.csv.gz").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BARS_BUCKET", name)
        patch.setenv("BARS_ENDPOINT", s3_server.endpoint)
        patch.setenv("BARS_ACCESS_KEY", ACCESS_KEY)
        patch.setenv("BARS_SECRET_KEY", SECRET_KEY)
        yield name


def test_every_line_is_in_the_table_or_in_quarantine(market: Days) -> None:
    query = "select date::varchar, count(*) from bronze.minute_aggs group by all order by all"
    bad = "select strftime(date, '%Y-%m-%d'), count(*) from bronze.minute_aggs__quarantine group by all order by all"
    expected = market.expected(golden.MARKET_FILES)
    assert [row[0] for row in expected] == list(DAYS)
    assert market.rows(query) == [(day, good) for day, _, good, _ in expected]
    assert market.rows(bad) == [(day, count) for day, _, _, count in expected if count]
    assert sum(count for *_, count in expected) > 5
    assert market.rows("select sum(rows)::bigint, sum(bad)::bigint from bronze.minute_aggs__loads") == [
        (sum(row[2] for row in expected), sum(row[3] for row in expected))
    ]


def test_what_is_in_quarantine_can_be_found_in_its_file(market: Days) -> None:
    found = market.rows("select _source_file, _line, _raw, _why from bronze.minute_aggs__quarantine")
    for file, line, raw, why in found:
        lines = gzip.decompress((market.data / file).read_bytes()).split(b"\n")
        assert lines[line - 1].decode("utf-8", "replace") == raw
        assert why


def test_silver_holds_each_bar_once_with_its_session(market: Days) -> None:
    query = """
        select date::varchar, session, count(*), sum(volume)::bigint, sum(transactions)::bigint, sum(close), count(vwap)
        from silver.minute_aggs group by all order by all
    """
    expected = market.expected(golden.MARKET_BARS)
    assert len(expected) == 3 * len(DAYS)
    assert market.rows(query) == expected
    good = sum(row[2] for row in market.expected(golden.MARKET_FILES))
    assert sum(row[2] for row in expected) < good  # there were duplicates


def test_gold_has_a_bar_a_day(market: Days) -> None:
    query = """
        select date::varchar, ticker, bars, open, high, low, close, volume::bigint
        from gold.daily_bars order by date, ticker
    """
    expected = market.expected(golden.MARKET_DAILY)
    assert len(expected) == 4 * len(DAYS)
    assert market.rows(query) == expected
    assert market.rows("select date, ticker, close from gold.volatility order by all") == market.rows(
        "select date, ticker, close from gold.daily_bars order by all"
    )


def test_volatility_is_that_of_the_closes_of_30_days(market: Days) -> None:
    closes: dict[str, dict[date, Decimal]] = defaultdict(dict)
    for day, ticker, *_, close, _ in market.expected(golden.MARKET_DAILY):
        closes[ticker][date.fromisoformat(day)] = close
    expected = {}
    for ticker, by_day in closes.items():
        moves: dict[date, float] = {}
        for before, day in zip(list(by_day)[:-1], list(by_day)[1:], strict=True):
            moves[day] = math.log(by_day[day] / by_day[before])
        for day in by_day:
            seen = [moves[each] for each in moves if timedelta() <= day - each < timedelta(days=30)]
            expected[day, ticker] = statistics.stdev(seen) * math.sqrt(252) if len(seen) > 1 else None
    found = market.rows("select date, ticker, volatility from gold.volatility")
    assert {row[:2] for row in found} == set(expected)
    for day, ticker, volatility in found:
        assert volatility == pytest.approx(expected[day, ticker], abs=1e-4)
    assert sum(row[2] is not None for row in found) == 4 * (len(DAYS) - 2)


def test_a_column_that_appears_is_null_before(market: Days) -> None:
    assert "vwap" not in {
        column["name"] for column in market.json("show", "bronze.minute_aggs", "--at", AFTER_TWO_DAYS)["columns"]
    }
    per_day = "select date::varchar, count(vwap) > 0 from bronze.minute_aggs group by all order by all"
    assert market.rows(per_day) == [(day, day >= "2024-01-04") for day in DAYS]
    priced = "select date::varchar, bool_and(vwap between low and high) from gold.daily_bars group by all order by all"
    assert market.rows(priced) == [(day, True if day >= "2024-01-04" else None) for day in DAYS]


def test_new_days_build_new_days_and_a_day_that_comes_again_replaces_itself(market: Days) -> None:
    assert set(market.first) == set(market.second) == set(market.third) == set(BUILT)
    assert market.second["bronze.minute_aggs"]["reasons"][0].startswith("2 new files: 2024/01/2024-01-04.csv.gz")
    for table in BUILT[1:]:
        assert market.second[table]["reasons"][0].startswith("2 days: 2024-01-04, 2024-01-05: ")
        assert market.third[table]["reasons"][0].startswith("1 day: 2024-01-05: ")
    assert market.second["gold.volatility"]["rows_removed"] == 0
    again = market.third["bronze.minute_aggs"]
    assert again["rows_added"] - again["rows_removed"] == market.bad_on_the_last_day > 0
    assert market.third["gold.daily_bars"]["rows_added"] == market.third["gold.daily_bars"]["rows_removed"] == 4


def test_the_layout_changes_without_a_file_being_written_again(market: Days) -> None:
    (first,) = set(market.files_before.values())
    for files in (market.files_after, market.files()):
        assert market.files_before.items() <= files.items()
        (other,) = set(files.values()) - {first}
        assert list(files.values()).count(first) == list(files.values()).count(other) == 2
    assert market.json("show", "bronze.minute_aggs")["partitioning"] == ["month(date)"]
    one_day = "select count(*) from bronze.minute_aggs where date = '{}'"
    good = {day: count for day, _, count, _ in market.expected(golden.MARKET_FILES)}
    for day in ("2024-01-03", "2024-01-04"):
        assert market.rows(one_day.format(day)) == [(good[day],)]


def test_a_file_a_day_is_a_snapshot_a_day(market: Days) -> None:
    steps = market.json("growth", "bronze.minute_aggs")
    assert [each["files"] for each in steps] == [1, 2, 3, 4, 4]
    assert steps[-1]["rows"] == sum(row[2] for row in market.expected(golden.MARKET_FILES))


def test_other_readers_find_the_same_rows_and_sums_without_spark(market: Days) -> None:
    by_pyiceberg = totals_by_pyiceberg(market.folder, SUMS)
    assert totals_by_duckdb(market.folder, SUMS) == by_pyiceberg
    bars, daily = market.expected(golden.MARKET_BARS), market.expected(golden.MARKET_DAILY)
    assert by_pyiceberg["silver.minute_aggs"] == (sum(row[2] for row in bars), sum(row[5] for row in bars))
    assert by_pyiceberg["gold.daily_bars"] == (len(daily), sum(row[6] for row in daily))


def test_nothing_is_wrong_with_it(market: Days) -> None:
    assert market.json("check")["findings"] == []
    audited = market.json("audit")
    assert {finding["state"] for finding in audited["findings"]} == {"ok"}
    assert "nothing to do: 4 models up to date" in market("plan").stdout


def test_its_unit_tests_pass_before_anything_is_built(tmp_path: Path, warm_jvm: None) -> None:
    Shell(tmp_path)("init", "fresh", "--example", "market")
    found = Shell(tmp_path / "fresh").json("test")
    assert found["failed"] == 0, found
    assert {each["model"] for each in found["tests"]} == set(BUILT[1:])


@pytest.mark.long
def test_a_bucket_of_somebody_else_gives_the_same_tables(market: Days, bucket: str, tmp_path: Path) -> None:
    Shell(tmp_path)("init", "bars", "--example", "market")
    there = Market(tmp_path / "bars")
    shutil.rmtree(there.folder / "data")
    assert set(there.events("--profile", "s3")) == set(BUILT)
    for table, columns in SAME.items():
        query = f"select {columns} from {table} order by all"
        assert there.rows(query) == market.rows(query, AFTER_TWO_DAYS), table
    assert there.rows("select distinct location[:5] from bronze.minute_aggs__loads") == [("s3://",)]
    assert "nothing to do" in there("--profile", "s3", "plan").stdout


def test_the_readme_shows_what_comes_out(tmp_path: Path) -> None:
    """Before the first run: a lake for what it shows of one would take a minute."""
    Shell(tmp_path)("init", "bars", "--example", "market")
    bars = Shell(tmp_path / "bars")
    assert_all_shown("market", lambda sample: bars(*shlex.split(sample.command)[1:]).stdout)
