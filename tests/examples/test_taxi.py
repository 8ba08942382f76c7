"""The example taxi, month by month: what is in the lake, against what DuckDB makes of its files by itself."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mere.generate.samples import sample
from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.examples.readers import Totals, totals_by_duckdb, totals_by_pyiceberg
from tests.examples.samples import Sample, assert_all_shown
from tests.generate import golden
from tests.sources import fileserver

MONTHS = ("2024-01", "2024-02", "2024-03")
AFTER_TWO_MONTHS = "main~2"  # before the third month came, and before the first was loaded again
AT = {"Taxi": AFTER_TWO_MONTHS, "How it grew": "main~1"}  # where a reader of the README is

# Of each table a column, to compare its sum.
SUMS = {
    "raw.yellow_trips": "total_amount",
    "raw.taxi_zones": "location_id",
    "silver.stg_yellow_trips": "total_amount",
    "gold.fct_daily_trips": "revenue",
    "gold.fct_hourly_revenue": "revenue",
    "gold.fct_trip_distance_stats": "miles",
}


class Taxi(Shell):
    """Two months, then a third, then the first one again."""

    def __init__(self, folder: Path) -> None:
        Shell(folder.parent)("init", folder.name, "--example", "taxi")
        super().__init__(folder)
        self.data = folder / "data"
        self.first = self.events()
        started = sample("taxi")
        assert started
        self(*started.more.split()[1:])
        as_in_older_years(self.data / f"yellow_tripdata_{MONTHS[-1]}.parquet")
        self.told = self("run").stdout
        self.second = self.built()
        self.backfill = self.events("--select", "raw.yellow_trips", "--from", "2024-01", "--to", "2024-02")

    def events(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """What a run built, by model."""
        events = map(json.loads, self("run", *arguments, "--json").stdout.splitlines())
        return {event["model"]: event for event in events if event["event"] == "built"}

    def built(self) -> dict[str, dict[str, Any]]:
        """What the last run built, as it is on record."""
        recorded = self.json("runs", "show", self.json("runs")[0]["id"])["attempts"][-1]["models"]
        return {model: each for model, each in recorded.items() if each["state"] == "built"}

    def rows(self, query: str, at: str = "main") -> list[tuple[Any, ...]]:
        with Lake.open(self.folder / "lake") as lake, lake.sql(query, at) as result:
            return list(map(tuple, result.rows()))

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in golden.figures(query, self.data)]


def as_in_older_years(file: Path) -> None:
    """The same rows with the columns as other files of the TLC have them: other letters, other types, another order."""
    table = pq.read_table(file)
    table = table.rename_columns([{"Airport_fee": "airport_fee"}.get(name, name) for name in table.column_names])
    types = {"VendorID": pa.int64(), "passenger_count": pa.float64(), "RatecodeID": pa.float64()}
    schema = pa.schema([(each.name, types.get(each.name, each.type)) for each in table.schema])
    pq.write_table(table.cast(schema).select(sorted(schema.names)), file)


@pytest.fixture(scope="module")
def taxi(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Taxi:
    return Taxi(tmp_path_factory.mktemp("taxi") / "rides")


def test_bronze_holds_every_row_of_every_file(taxi: Taxi) -> None:
    query = """
        select _source_file, count(*), sum(total_amount::decimal(12, 2))
        from raw.yellow_trips group by all order by all
    """
    expected = taxi.expected(golden.TAXI_FILES)
    assert [row[0] for row in expected] == [f"yellow_tripdata_{month}.parquet" for month in MONTHS]
    assert taxi.rows(query) == expected
    assert taxi.rows("select count(*) from raw.yellow_trips__quarantine") == [(0,)]
    unknown = "select count(*), count(airport_fee) from raw.yellow_trips where passenger_count is null"
    assert taxi.rows(unknown) == [(golden.figures(golden.TAXI_DIRT, taxi.data)[0]["without_passengers"], 0)]
    assert taxi.rows("select count(*) > 0 from raw.yellow_trips where month = 3 and airport_fee > 0") == [(True,)]


def test_silver_holds_each_trip_that_took_place_once(taxi: Taxi) -> None:
    query = """
        select strftime(pickup_datetime, '%Y-%m'), count(*), sum(total_amount), sum(duration_seconds)::bigint
        from silver.stg_yellow_trips group by all order by all
    """
    expected = taxi.expected(golden.TAXI_CLEAN)
    assert [row[0] for row in expected] == ["2023-12", *MONTHS]
    assert taxi.rows(query) == expected
    dirt = golden.figures(golden.TAXI_DIRT, taxi.data)[0]
    amounts = """
        select sum(extra), sum(mta_tax), sum(tip_amount), sum(tolls_amount), sum(improvement_surcharge),
          sum(congestion_surcharge), sum(airport_fee), sum(rate_code_id)::bigint,
          count(*) filter (store_and_fwd_flag = 'Y'), count(store_and_fwd_flag)
        from silver.stg_yellow_trips
    """
    assert taxi.rows(amounts) == taxi.expected(golden.TAXI_AMOUNTS)
    assert min(dirt["duplicates"], dirt["refunds"], dirt["standing"], dirt["backwards"]) > 0


def test_gold_counts_days_hours_and_pairs_of_zones(taxi: Taxi) -> None:
    days = "select day, trips, revenue from gold.fct_daily_trips order by day"
    assert taxi.rows(days) == taxi.expected(golden.TAXI_DAILY)
    hours = "select hour, trips, revenue from gold.fct_hourly_revenue order by hour"  # a local time, as in the files
    assert taxi.rows(hours) == taxi.expected(golden.TAXI_HOURLY)
    pairs = (
        "select pickup_location_id, dropoff_location_id, trips, miles from gold.fct_trip_distance_stats order by all"
    )
    assert taxi.rows(pairs) == taxi.expected(golden.TAXI_ZONE_PAIRS)
    zones = "select LocationID, Borough, Zone from read_csv('{folder}/taxi_zone_lookup.csv')"
    named = "select distinct pickup_location_id, pickup_borough, pickup_zone from gold.fct_trip_distance_stats"
    found = taxi.rows(named)
    assert len(found) > 200
    assert set(found) <= set(taxi.expected(zones))


def test_a_new_month_builds_itself_and_the_month_of_its_late_trips(taxi: Taxi) -> None:
    assert set(taxi.second) == {
        *(
            "raw.yellow_trips",
            "silver.stg_yellow_trips",
            "gold.fct_daily_trips",
            "gold.fct_hourly_revenue",
            "gold.fct_trip_distance_stats",
        )
    }
    assert taxi.second["raw.yellow_trips"]["reasons"] == ["1 new file: yellow_tripdata_2024-03.parquet"]
    for table in ("silver.stg_yellow_trips", "gold.fct_daily_trips", "gold.fct_hourly_revenue"):
        assert taxi.second[table]["reasons"][0].startswith("2 months: 2024-02, 2024-03: ")
    assert taxi.second["gold.fct_daily_trips"]["rows_removed"] == 29
    assert taxi.second["gold.fct_daily_trips"]["rows_added"] == 29 + 31
    of_month = "select count(*) from silver.stg_yellow_trips where strftime(pickup_datetime, '%Y-%m') = '{}'"
    ((before,),), ((after,),) = (taxi.rows(of_month.format("2024-02"), at) for at in (AFTER_TWO_MONTHS, "main"))
    late = {row["file"]: row["rows"] for row in golden.figures(golden.TAXI_LATE, taxi.data)}
    assert 0 < after - before <= late["yellow_tripdata_2024-03.parquet"]


def test_a_month_loaded_again_replaces_itself_and_makes_its_own_windows_due(taxi: Taxi) -> None:
    backfill = taxi.backfill["raw.yellow_trips"]
    assert (backfill["rows_added"], backfill["rows_removed"]) == (20_000, 20_000)
    loads = taxi.rows("select portion, rows, run from raw.yellow_trips__loads order by portion")
    assert [row[1] for row in loads] == [20_000] * 3
    assert loads[0][2] == taxi.json("runs")[0]["id"] not in {row[2] for row in loads[1:]}
    assert taxi.rows("select distinct _run from raw.yellow_trips where month = 1") == [(loads[0][2],)]
    due = {step["model"]: step["reasons"] for step in taxi.json("plan")["steps"] if step["action"] != "skip"}
    assert due["silver.stg_yellow_trips"] == ["2 months: 2023-12, 2024-01: rows replaced in raw.yellow_trips"]
    assert "raw.yellow_trips" not in due


def test_growth_tells_a_snapshot_a_month_by_time_travel(taxi: Taxi) -> None:
    steps = taxi.json("growth", "raw.yellow_trips")
    rows = [(each["rows"], each["added"], each["removed"]) for each in steps]
    assert rows == [(20_000, 20_000, 0), (40_000, 20_000, 0), (60_000, 20_000, 0), (60_000, 20_000, 20_000)]
    assert steps[0]["size"] < steps[1]["size"] < steps[2]["size"]
    assert [each["files"] for each in steps] == [1, 2, 3, 3]


def test_a_month_is_a_partition(taxi: Taxi) -> None:
    with Lake.open(taxi.folder / "lake") as lake:
        files = lake.pyiceberg("main").load_table("raw.yellow_trips").inspect.files()
    assert sorted(tuple(each.values()) for each in files["partition"].to_pylist()) == [(2024, 1), (2024, 2), (2024, 3)]


def test_other_readers_find_the_same_rows_and_sums_without_spark(taxi: Taxi) -> None:
    by_pyiceberg, by_duckdb = (rounded(read(taxi.folder, SUMS)) for read in (totals_by_pyiceberg, totals_by_duckdb))
    assert by_duckdb == by_pyiceberg
    clean = taxi.expected(golden.TAXI_CLEAN)
    total = sum(row[2] for row in clean)
    assert by_pyiceberg["silver.stg_yellow_trips"] == (sum(row[1] for row in clean), total)
    assert by_pyiceberg["gold.fct_daily_trips"] == (len(taxi.expected(golden.TAXI_DAILY)), total)
    assert by_pyiceberg["gold.fct_hourly_revenue"][1] == total


def rounded(totals: Totals) -> Totals:
    """A sum of floating-point numbers depends on their order."""
    return {table: (rows, total.quantize(Decimal("0.01"))) for table, (rows, total) in totals.items()}


def test_the_readme_shows_what_comes_out(taxi: Taxi) -> None:
    def printed(sample: Sample) -> str:
        if sample.command == "mere run":
            return taxi.told
        return taxi(*shlex.split(sample.command)[1:], "--at", AT[sample.heading]).stdout

    assert_all_shown("taxi", printed)


def test_nothing_is_wrong_with_it(taxi: Taxi) -> None:
    assert taxi.json("check")["findings"] == []
    audited = taxi.json("audit")
    assert {finding["state"] for finding in audited["findings"]} == {"ok"}
    kinds = {finding["audit"].partition("(")[0] for finding in audited["findings"]}
    assert {"key", "not_null", "accepted_values", "relationships", "assert", "row_count", "max_change"} <= kinds
    described = {
        column["name"]: column["comment"] for column in taxi.json("show", "silver.stg_yellow_trips")["columns"]
    }
    assert described["pickup_datetime"] == "by the clock of New York"


@pytest.mark.long
def test_its_unit_tests_pass_before_anything_is_built(tmp_path: Path, warm_jvm: None) -> None:
    Shell(tmp_path)("init", "fresh", "--example", "taxi")
    found = Shell(tmp_path / "fresh").json("test")
    assert found["failed"] == 0, found
    assert {each["model"] for each in found["tests"]} == {
        *("silver.stg_yellow_trips", "gold.fct_daily_trips", "gold.fct_hourly_revenue", "gold.fct_trip_distance_stats")
    }


def test_the_profile_tlc_asks_for_the_files_where_the_tlc_has_them(tmp_path: Path) -> None:
    Shell(tmp_path)("init", "rides", "--example", "taxi")
    rides = Shell(tmp_path / "rides")
    settings = rides.folder / "mere.yaml"
    with fileserver.running() as web:
        web.missing = 403  # as the TLC's answers for a month that is not out yet
        for file in (rides.folder / "data").iterdir():
            folder = "trip-data" if file.suffix == ".parquet" else "misc"
            web.files[f"/{folder}/{file.name}"] = fileserver.Served(file.read_bytes())
            file.unlink()
        text = settings.read_text(encoding="utf-8")
        assert text.count("https://d37ci6vzurychx.cloudfront.net/") == 2
        settings.write_text(text.replace("https://d37ci6vzurychx.cloudfront.net", web.url), encoding="utf-8")
        rides("--profile", "tlc", "init")
        assert (rides.folder / "lake-tlc" / "catalog.db").exists()
        steps = rides.json("--profile", "tlc", "plan", "raw.*")["steps"]
        asked = {each.path for each in web.asked}
    assert {step["model"]: step["action"] for step in steps} == dict.fromkeys(
        ("raw.yellow_trips", "raw.taxi_zones"), "build"
    )
    assert asked >= set(web.files)
