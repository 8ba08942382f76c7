"""The six tables of the example `taxi` in plain DuckDB, as one file."""

from __future__ import annotations

import duckdb

from bench.sides.answer import answer
from bench.sides.taxi_files import checked, folder

RAW = f"""
CREATE TABLE raw.yellow_trips AS
    SELECT * EXCLUDE (filename, file), file[1]::INTEGER AS year, file[2]::INTEGER AS month
    FROM (
        SELECT *, regexp_extract_all(parse_filename(filename), '[0-9]+') AS file
        FROM read_parquet('{folder()}/*.parquet', union_by_name = true, filename = true)
    )
    WHERE tpep_pickup_datetime IS NOT NULL AND tpep_dropoff_datetime IS NOT NULL AND trip_distance IS NOT NULL
        AND fare_amount IS NOT NULL AND total_amount IS NOT NULL
        AND datediff('day', make_date(year, month, 1), tpep_pickup_datetime::DATE) BETWEEN -7 AND 31;
CREATE TABLE raw.taxi_zones AS
    SELECT LocationID::INTEGER AS location_id, Borough AS borough, Zone AS zone, service_zone
    FROM read_csv('{folder()}/taxi_zone_lookup.csv', all_varchar = true);
"""
# Quotients by whole numbers, which round a half up as Spark's decimals do.
SILVER = """
CREATE TABLE silver.stg_yellow_trips AS
    WITH once AS (
        SELECT DISTINCT * EXCLUDE (year, month) FROM raw.yellow_trips
        WHERE trip_distance > 0 AND fare_amount >= 0 AND tpep_dropoff_datetime > tpep_pickup_datetime
    ), typed AS (
        SELECT
            VendorID AS vendor_id, tpep_pickup_datetime AS pickup_datetime, tpep_dropoff_datetime AS dropoff_datetime,
            hour(tpep_pickup_datetime)::INTEGER AS pickup_hour, PULocationID AS pickup_location_id,
            DOLocationID AS dropoff_location_id, passenger_count::INTEGER AS passenger_count,
            trip_distance::DECIMAL(10, 2) AS trip_distance, RatecodeID::INTEGER AS rate_code_id, store_and_fwd_flag,
            payment_type::INTEGER AS payment_type,
            CASE payment_type WHEN 1 THEN 'card' WHEN 2 THEN 'cash' WHEN 3 THEN 'no charge' WHEN 4 THEN 'dispute'
                ELSE 'other' END AS payment,
            fare_amount::DECIMAL(10, 2) AS fare_amount, extra::DECIMAL(10, 2) AS extra,
            mta_tax::DECIMAL(10, 2) AS mta_tax, tip_amount::DECIMAL(10, 2) AS tip_amount,
            tolls_amount::DECIMAL(10, 2) AS tolls_amount,
            improvement_surcharge::DECIMAL(10, 2) AS improvement_surcharge,
            total_amount::DECIMAL(10, 2) AS total_amount,
            congestion_surcharge::DECIMAL(10, 2) AS congestion_surcharge, Airport_fee::DECIMAL(10, 2) AS airport_fee,
            NULL::DECIMAL(10, 2) AS cbd_congestion_fee,  -- in no file of 2024
            datediff('second', tpep_pickup_datetime, tpep_dropoff_datetime) AS duration_seconds
        FROM once
    ), cents AS (
        SELECT
            *, (trip_distance * 100)::BIGINT AS miles_100, (fare_amount * 100)::BIGINT AS fare_100,
            (tip_amount * 100)::BIGINT AS tip_100
        FROM typed
    )
    SELECT
        * EXCLUDE (miles_100, fare_100, tip_100),
        ((720 * miles_100 + duration_seconds) // (2 * duration_seconds) / 10)::DECIMAL(14, 1) AS speed_mph,
        (CASE WHEN payment = 'card' AND fare_100 > 0 THEN (20000 * tip_100 + fare_100) // (2 * fare_100) / 10000 END)
            ::DECIMAL(14, 4) AS tip_rate
    FROM cents
    ORDER BY pickup_datetime;
"""
GOLD = """
CREATE TABLE gold.fct_daily_trips AS
    SELECT
        pickup_datetime::DATE AS day, count(*) AS trips, sum(passenger_count) AS passengers,
        sum(trip_distance) AS miles, sum(total_amount) AS revenue,
        (avg(duration_seconds) / 60)::DECIMAL(8, 1) AS minutes_per_trip, avg(tip_rate)::DECIMAL(6, 3) AS tip_rate
    FROM silver.stg_yellow_trips GROUP BY day;
CREATE TABLE gold.fct_hourly_revenue AS
    SELECT
        date_trunc('hour', pickup_datetime) AS hour, count(*) AS trips, sum(total_amount) AS revenue,
        sum(tip_amount) AS tips, avg(speed_mph)::DECIMAL(8, 1) AS speed_mph
    FROM silver.stg_yellow_trips GROUP BY hour;
CREATE TABLE gold.fct_trip_distance_stats AS
    SELECT
        t.pickup_location_id, t.dropoff_location_id, coalesce(p.zone, 'unknown') AS pickup_zone,
        coalesce(d.zone, 'unknown') AS dropoff_zone, p.borough AS pickup_borough, d.borough AS dropoff_borough,
        count(*) AS trips, sum(t.trip_distance) AS miles, avg(t.trip_distance)::DECIMAL(10, 2) AS mean_miles,
        median(t.trip_distance)::DECIMAL(10, 2) AS median_miles, min(t.trip_distance) AS shortest,
        max(t.trip_distance) AS longest
    FROM silver.stg_yellow_trips AS t
    LEFT JOIN raw.taxi_zones AS p ON p.location_id = t.pickup_location_id
    LEFT JOIN raw.taxi_zones AS d ON d.location_id = t.dropoff_location_id
    GROUP BY ALL;
"""

with duckdb.connect("taxi.duckdb") as connection:
    for script in ("CREATE SCHEMA raw; CREATE SCHEMA silver; CREATE SCHEMA gold", RAW, SILVER, GOLD):
        connection.execute(script)
    answer(checked(lambda sql: connection.sql(sql).fetchall()))
