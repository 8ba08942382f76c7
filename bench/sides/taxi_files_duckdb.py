"""The six tables of the example `taxi` in plain DuckDB, as one file."""

from __future__ import annotations

import duckdb

from bench.sides.answer import answer
from bench.sides.taxi_files import checked, folder

BRONZE = f"""
CREATE TABLE bronze.yellow_trips AS
    SELECT * EXCLUDE (filename, file), file[1]::INTEGER AS year, file[2]::INTEGER AS month
    FROM (
        SELECT *, regexp_extract_all(parse_filename(filename), '[0-9]+') AS file
        FROM read_parquet('{folder()}/*.parquet', union_by_name = true, filename = true)
    )
    WHERE tpep_pickup_datetime IS NOT NULL AND tpep_dropoff_datetime IS NOT NULL AND trip_distance IS NOT NULL
        AND fare_amount IS NOT NULL AND total_amount IS NOT NULL
        AND datediff('day', make_date(year, month, 1), tpep_pickup_datetime::DATE) BETWEEN -7 AND 31;
CREATE TABLE bronze.taxi_zones AS
    SELECT LocationID::INTEGER AS zone_id, Borough AS borough, Zone AS zone, service_zone
    FROM read_csv('{folder()}/taxi_zone_lookup.csv', all_varchar = true);
"""
# Quotients by whole numbers, which round a half up as Spark's decimals do.
SILVER = """
CREATE TABLE silver.trips AS
    WITH once AS (
        SELECT DISTINCT * EXCLUDE (year, month) FROM bronze.yellow_trips
        WHERE trip_distance > 0 AND fare_amount >= 0 AND tpep_dropoff_datetime > tpep_pickup_datetime
    ), typed AS (
        SELECT
            VendorID AS vendor_id, tpep_pickup_datetime AS picked_up_at, tpep_dropoff_datetime AS dropped_off_at,
            hour(tpep_pickup_datetime)::INTEGER AS pickup_hour, PULocationID AS pickup_zone,
            DOLocationID AS dropoff_zone, passenger_count::INTEGER AS passengers,
            CASE payment_type WHEN 1 THEN 'card' WHEN 2 THEN 'cash' WHEN 3 THEN 'no charge' WHEN 4 THEN 'dispute'
                ELSE 'other' END AS payment,
            trip_distance::DECIMAL(10, 2) AS miles, fare_amount::DECIMAL(10, 2) AS fare,
            tip_amount::DECIMAL(10, 2) AS tip, total_amount::DECIMAL(10, 2) AS total,
            datediff('second', tpep_pickup_datetime, tpep_dropoff_datetime) AS duration_seconds
        FROM once
    ), cents AS (
        SELECT *, (miles * 100)::BIGINT AS miles_100, (fare * 100)::BIGINT AS fare_100, (tip * 100)::BIGINT AS tip_100
        FROM typed
    )
    SELECT
        * EXCLUDE (miles_100, fare_100, tip_100),
        ((720 * miles_100 + duration_seconds) // (2 * duration_seconds) / 10)::DECIMAL(14, 1) AS speed_mph,
        (CASE WHEN payment = 'card' AND fare_100 > 0 THEN (20000 * tip_100 + fare_100) // (2 * fare_100) / 10000 END)
            ::DECIMAL(14, 4) AS tip_rate
    FROM cents
    ORDER BY picked_up_at;
"""
GOLD = """
CREATE TABLE gold.daily_trips AS
    SELECT
        picked_up_at::DATE AS day, count(*) AS trips, sum(passengers) AS passengers, sum(miles) AS miles,
        sum(total) AS revenue, (avg(duration_seconds) / 60)::DECIMAL(8, 1) AS minutes_per_trip,
        avg(tip_rate)::DECIMAL(6, 3) AS tip_rate
    FROM silver.trips GROUP BY day;
CREATE TABLE gold.hourly_revenue AS
    SELECT
        date_trunc('hour', picked_up_at) AS hour, count(*) AS trips, sum(total) AS revenue, sum(tip) AS tips,
        avg(speed_mph)::DECIMAL(8, 1) AS speed_mph
    FROM silver.trips GROUP BY hour;
CREATE TABLE gold.trip_distance_stats AS
    SELECT
        t.pickup_zone, t.dropoff_zone, coalesce(p.zone, 'unknown') AS pickup, coalesce(d.zone, 'unknown') AS dropoff,
        p.borough AS pickup_borough, d.borough AS dropoff_borough, count(*) AS trips, sum(t.miles) AS miles,
        avg(t.miles)::DECIMAL(10, 2) AS mean_miles, median(t.miles)::DECIMAL(10, 2) AS median_miles,
        min(t.miles) AS shortest, max(t.miles) AS longest
    FROM silver.trips AS t
    LEFT JOIN bronze.taxi_zones AS p ON p.zone_id = t.pickup_zone
    LEFT JOIN bronze.taxi_zones AS d ON d.zone_id = t.dropoff_zone
    GROUP BY ALL;
"""

with duckdb.connect("taxi.duckdb") as connection:
    for script in ("CREATE SCHEMA bronze; CREATE SCHEMA silver; CREATE SCHEMA gold", BRONZE, SILVER, GOLD):
        connection.execute(script)
    answer(checked(lambda sql: connection.sql(sql).fetchall()))
