from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mere.generate.files import write
from mere.generate.taxi import SCHEMA, ZONES, Taxi
from tests.generate import golden

TLC = {
    "VendorID": "int32",
    "tpep_pickup_datetime": "timestamp[us]",
    "tpep_dropoff_datetime": "timestamp[us]",
    "passenger_count": "int64",
    "trip_distance": "double",
    "RatecodeID": "int64",
    "store_and_fwd_flag": "string",
    "PULocationID": "int32",
    "DOLocationID": "int32",
    "payment_type": "int64",
    "fare_amount": "double",
    "extra": "double",
    "mta_tax": "double",
    "tip_amount": "double",
    "tolls_amount": "double",
    "improvement_surcharge": "double",
    "total_amount": "double",
    "congestion_surcharge": "double",
    "Airport_fee": "double",
}


def read(folder: Path, month: str) -> pa.Table:
    return pq.read_table(folder / f"yellow_tripdata_{month}.parquet")


def test_a_month_has_the_columns_of_the_tlc_and_the_rows_that_were_asked_for(trips: Path) -> None:
    for month in ("2024-01", "2024-02"):
        table = read(trips, month)
        assert {field.name: str(field.type) for field in table.schema} == TLC
        assert table.num_rows == 20_000


def test_each_month_has_trips_of_its_own(trips: Path) -> None:
    january, february = (read(trips, month)["trip_distance"].to_pylist() for month in ("2024-01", "2024-02"))
    assert sum(one == other for one, other in zip(january, february, strict=True)) < 0.02 * len(january)


def test_from_2025_on_there_is_the_fee_of_the_central_district(tmp_path: Path) -> None:
    list(write(Taxi(months=2, rows=200, start=datetime(2024, 12, 1, tzinfo=UTC)), tmp_path))
    before, since = read(tmp_path, "2024-12"), read(tmp_path, "2025-01")
    assert since.column_names == [*before.column_names, "cbd_congestion_fee"]
    assert pc.sum(since["cbd_congestion_fee"]).as_py() > 0


def test_the_rows_of_a_seed_never_change(tmp_path: Path) -> None:
    list(write(Taxi(months=1, rows=300, seed=7), tmp_path))
    text = pa.BufferOutputStream()
    pyarrow.csv.write_csv(read(tmp_path, "2024-01"), text)
    assert hashlib.sha256(text.getvalue()).hexdigest()[:16] == "f7b7b1df3048dfd6"
    zones = (tmp_path / "taxi_zone_lookup.csv").read_bytes()
    assert hashlib.sha256(zones).hexdigest()[:16] == "113e1244666a46e6"


def test_a_month_of_several_row_groups_goes_through_the_month(tmp_path: Path) -> None:
    list(write(Taxi(months=1, rows=140_000), tmp_path))
    file = pq.ParquetFile(tmp_path / "yellow_tripdata_2024-01.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [131_072, 8_928]
    days = [file.read_row_group(group)["tpep_pickup_datetime"] for group in range(2)]
    medians = [pc.quantile(pc.cast(each, pa.int64()), 0.5)[0].as_py() / 86_400e6 - 19_723 for each in days]
    assert 6 < medians[0] < 10
    assert 21 < medians[1] < 25


def test_the_dirt_of_the_real_files_is_there(trips: Path) -> None:
    [dirt] = golden.figures(golden.TAXI_DIRT, trips)
    assert dirt["rows"] == 40_000
    assert 60 < dirt["duplicates"] < 200
    assert 1400 < dirt["without_passengers"] < 2200
    assert 240 < dirt["refunds"] < 420
    assert 350 < dirt["standing"] < 620
    assert 15 < dirt["backwards"] < 80


def test_some_trips_come_a_month_late(trips: Path) -> None:
    late = golden.figures(golden.TAXI_LATE, trips)
    assert [each["file"][-15:-8] for each in late] == ["2024-01", "2024-02"]
    assert all(15 < each["rows"] < 80 for each in late)
    assert [each["month"] for each in golden.figures(golden.TAXI_CLEAN, trips)] == ["2023-12", "2024-01", "2024-02"]


def test_a_refund_takes_back_a_trip_to_the_cent(trips: Path) -> None:
    table = read(trips, "2024-01")
    same = ["tpep_pickup_datetime", "tpep_dropoff_datetime", "PULocationID", "DOLocationID", "trip_distance"]
    paid = {tuple(row[name] for name in same): row for row in table.filter(pc.field("fare_amount") > 0).to_pylist()}
    refunds = table.filter(pc.field("fare_amount") < 0).to_pylist()
    found = [(row, paid.get(tuple(row[name] for name in same))) for row in refunds]
    matched = [(refund, trip) for refund, trip in found if trip]
    assert len(matched) > 0.9 * len(refunds) > 100
    assert all(refund["total_amount"] == -trip["total_amount"] for refund, trip in matched)
    assert {refund["payment_type"] for refund in refunds} == {4}


def test_a_total_is_the_sum_of_its_parts(trips: Path) -> None:
    parts = [name for name in SCHEMA.names[10:] if name != "total_amount"]
    for row in read(trips, "2024-02").to_pylist():
        assert round(100 * row["total_amount"]) == sum(round(100 * (row[name] or 0)) for name in parts)


def test_what_a_car_did_not_send_is_missing_together(trips: Path) -> None:
    sent = ["passenger_count", "RatecodeID", "store_and_fwd_flag", "congestion_surcharge", "Airport_fee"]
    nulls = Counter(tuple(row[name] is None for name in sent) for row in read(trips, "2024-01").to_pylist())
    assert set(nulls) == {(True,) * 5, (False,) * 5}


def test_trips_look_like_trips(trips: Path) -> None:
    table = read(trips, "2024-01").filter(pc.field("trip_distance") > 0)
    middle, far = pc.quantile(table["trip_distance"], [0.5, 0.99]).to_pylist()
    assert 1.5 < middle < 3
    assert 10 < far < 25
    [fare] = pc.quantile(table["fare_amount"], 0.5).to_pylist()
    assert 9 < fare < 18
    hours = Counter(pc.hour(table["tpep_pickup_datetime"]).to_pylist())
    assert hours[18] > 5 * hours[4]
    starts = Counter(table["PULocationID"].to_pylist())
    assert sum(count for _, count in starts.most_common(20)) > 0.5 * table.num_rows


def test_the_lookup_has_a_row_for_each_zone(trips: Path) -> None:
    lookup = pyarrow.csv.read_csv(trips / "taxi_zone_lookup.csv")
    assert lookup.column_names == ["LocationID", "Borough", "Zone", "service_zone"]
    assert lookup["LocationID"].to_pylist() == list(range(1, 266))
    assert len(set(lookup["Zone"].to_pylist())) == 265
    airports = [row["LocationID"] for row in lookup.to_pylist() if row["service_zone"] == "Airports"]
    assert airports == [132, 138]
    assert len(ZONES) == 265


def test_each_figure_of_the_golden_queries_agrees_with_the_others(trips: Path) -> None:
    clean = golden.figures(golden.TAXI_CLEAN, trips)
    for query in (golden.TAXI_DAILY, golden.TAXI_HOURLY):
        rows = golden.figures(query, trips)
        assert sum(row["trips"] for row in rows) == sum(row["trips"] for row in clean)
        assert sum(row["total"] for row in rows) == sum(row["total"] for row in clean)
    pairs = golden.figures(golden.TAXI_ZONE_PAIRS, trips)
    assert sum(row["trips"] for row in pairs) == sum(row["trips"] for row in clean) < 40_000
    assert [row["rows"] for row in golden.figures(golden.TAXI_FILES, trips)] == [20_000, 20_000]


@pytest.mark.parametrize("start", [datetime(2024, 2, 17, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)])
def test_a_month_starts_on_its_first_day(start: datetime, tmp_path: Path) -> None:
    names = [file.name for file in Taxi(months=2, rows=10, start=start).files()]
    assert names[1:] == ["yellow_tripdata_2024-02.parquet", "yellow_tripdata_2024-03.parquet"]
