"""What is in generated files, by DuckDB straight from the files: the figures that a lake made of them has to show.

Plain SQL over `{folder}`; nothing here knows how the files were made, or how mere reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def figures(query: str, folder: Path) -> list[dict[str, Any]]:
    """The rows of one of the queries below."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        answer = connection.execute(query.format(folder=folder))
        names = [column[0] for column in answer.description]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


# Taxi. Clean are trips that stand there once or more, moved, took time and were not paid back: each of them once.

_TRIPS = "read_parquet('{folder}/yellow_tripdata_*.parquet', union_by_name = true)"
_CLEAN = f"""
  SELECT DISTINCT * FROM {_TRIPS}
  WHERE trip_distance > 0 AND fare_amount >= 0 AND tpep_dropoff_datetime > tpep_pickup_datetime
"""

TAXI_FILES = """
SELECT parse_filename(filename) AS file, count(*) AS rows, sum(total_amount::DECIMAL(12, 2)) AS total
FROM read_parquet('{folder}/yellow_tripdata_*.parquet', union_by_name = true, filename = true)
GROUP BY ALL ORDER BY ALL
"""
TAXI_DIRT = f"""
SELECT
  count(*) AS rows,
  count(*) - (SELECT count(*) FROM (SELECT DISTINCT * FROM {_TRIPS})) AS duplicates,
  count(*) FILTER (passenger_count IS NULL) AS without_passengers,
  count(*) FILTER (fare_amount < 0) AS refunds,
  count(*) FILTER (trip_distance = 0) AS standing,
  count(*) FILTER (tpep_dropoff_datetime < tpep_pickup_datetime) AS backwards
FROM {_TRIPS}
"""
TAXI_LATE = """
SELECT parse_filename(filename) AS file, count(*) AS rows
FROM read_parquet('{folder}/yellow_tripdata_*.parquet', union_by_name = true, filename = true)
WHERE strftime(tpep_pickup_datetime, '%Y-%m') <> regexp_extract(filename, '\\d{{4}}-\\d\\d', 0)
GROUP BY ALL ORDER BY ALL
"""
TAXI_CLEAN = f"""
SELECT
  strftime(tpep_pickup_datetime, '%Y-%m') AS month,
  count(*) AS trips,
  sum(total_amount::DECIMAL(12, 2)) AS total,
  sum(date_diff('second', tpep_pickup_datetime, tpep_dropoff_datetime)) AS seconds
FROM ({_CLEAN}) GROUP BY ALL ORDER BY ALL
"""
TAXI_AMOUNTS = f"""
SELECT
  sum(extra::DECIMAL(12, 2)) AS extra, sum(mta_tax::DECIMAL(12, 2)) AS mta_tax,
  sum(tip_amount::DECIMAL(12, 2)) AS tips, sum(tolls_amount::DECIMAL(12, 2)) AS tolls,
  sum(improvement_surcharge::DECIMAL(12, 2)) AS improvement, sum(congestion_surcharge::DECIMAL(12, 2)) AS congestion,
  sum(Airport_fee::DECIMAL(12, 2)) AS airport, sum(RatecodeID)::BIGINT AS rate_codes,
  count(*) FILTER (store_and_fwd_flag = 'Y') AS stored, count(store_and_fwd_flag) AS with_flag
FROM ({_CLEAN})
"""
TAXI_DAILY = f"""
SELECT tpep_pickup_datetime::DATE AS day, count(*) AS trips, sum(total_amount::DECIMAL(12, 2)) AS total
FROM ({_CLEAN}) GROUP BY ALL ORDER BY ALL
"""
TAXI_HOURLY = f"""
SELECT date_trunc('hour', tpep_pickup_datetime) AS hour, count(*) AS trips, sum(total_amount::DECIMAL(12, 2)) AS total
FROM ({_CLEAN}) GROUP BY ALL ORDER BY ALL
"""
TAXI_ZONE_PAIRS = f"""
SELECT PULocationID AS start, DOLocationID AS stop, count(*) AS trips, sum(trip_distance::DECIMAL(12, 2)) AS miles
FROM ({_CLEAN}) GROUP BY ALL ORDER BY ALL
"""


# Market. Lines are read as they stand there: what does not look like a bar is bad.

_PRICE = r"\d+(\.\d+)?"
_LINES = (
    "read_csv('{folder}/*/*/*.csv.gz', columns = {{'line': 'VARCHAR'}}, header = false, skip = 1, delim = '\\t', "
    "quote = '', escape = '', encoding = 'latin-1', filename = true, auto_detect = false)"
)
_READ = rf"""
  SELECT
    parse_filename(filename)[:10] AS day,
    regexp_full_match(line, '[A-Z]+,\d{{{{1,18}}}},({_PRICE},){{{{4}}}}\d{{{{19}}}},\d+(,{_PRICE})?') AS good,
    line,
    string_split(line, ',') AS cells
  FROM {_LINES}
"""
_BARS = f"""
  SELECT DISTINCT
    day, cells[1] AS ticker, cells[2]::BIGINT AS volume,
    cells[3]::DECIMAL(12, 2) AS open, cells[4]::DECIMAL(12, 2) AS close,
    cells[5]::DECIMAL(12, 2) AS high, cells[6]::DECIMAL(12, 2) AS low, cells[8]::BIGINT AS transactions,
    cells[9]::DECIMAL(12, 4) AS vwap, make_timestamp_ns(cells[7]::BIGINT) AS began,
    timezone('America/New_York', timezone('UTC', make_timestamp(cells[7]::BIGINT // 1000))) AS local
  FROM ({_READ}) WHERE good
"""

MARKET_FILES = f"""
SELECT day, count(*) AS lines, count(*) FILTER (good) AS good, count(*) FILTER (NOT good) AS bad
FROM ({_READ}) GROUP BY ALL ORDER BY ALL
"""
MARKET_BARS = f"""
SELECT
  day,
  CASE
    WHEN local::TIME < TIME '09:30' THEN 'pre'
    WHEN local::TIME < TIME '16:00' THEN 'regular'
    ELSE 'post'
  END AS session,
  count(*) AS bars,
  sum(volume)::BIGINT AS volume,
  sum(transactions)::BIGINT AS transactions,
  sum(close) AS closes,
  count(vwap) AS with_vwap
FROM ({_BARS}) GROUP BY ALL ORDER BY ALL
"""
MARKET_DAILY = f"""
SELECT
  day, ticker, count(*) AS bars, first(open ORDER BY began) AS open, max(high) AS high, min(low) AS low,
  last(close ORDER BY began) AS close, sum(volume)::BIGINT AS volume
FROM ({_BARS}) GROUP BY ALL ORDER BY ALL
"""


# Jaffle, as of the last day, and from one export to the next.

_PURCHASES = "FROM read_csv('{folder}/raw_orders.csv') WHERE status <> 'returned'"

JAFFLE_NOW = """
SELECT
  (SELECT count(*) FROM read_csv('{folder}/raw_customers.csv')) AS customers,
  (SELECT count(*) FROM read_csv('{folder}/raw_orders.csv')) AS orders,
  (SELECT count(*) FROM read_csv('{folder}/raw_payments.csv')) AS payments,
  (SELECT sum(amount)::BIGINT FROM read_csv('{folder}/raw_payments.csv')) AS cents,
  (
    SELECT sum(amount)::BIGINT
    FROM read_csv('{folder}/raw_payments.csv') AS p JOIN read_csv('{folder}/raw_orders.csv') AS o ON o.id = p.order_id
    WHERE o.status <> 'returned' AND p.payment_method <> 'coupon'
  ) AS revenue_cents
"""
JAFFLE_STATUSES = """
SELECT status, count(*) AS orders FROM read_csv('{folder}/raw_orders.csv') GROUP BY ALL ORDER BY ALL
"""
JAFFLE_AT_RISK = f"""
WITH
  days AS (SELECT DISTINCT user_id, order_date {_PURCHASES}),
  gaps AS (
    SELECT *, order_date - lag(order_date) OVER (PARTITION BY user_id ORDER BY order_date) AS gap FROM days
  ),
  rhythms AS (
    SELECT user_id, count(*) AS days, median(gap) AS usual_gap, max(order_date) AS last_purchase
    FROM gaps GROUP BY user_id
  ),
  today AS (SELECT max(order_date) AS day FROM read_csv('{{folder}}/raw_orders.csv'))
SELECT user_id, usual_gap, day - last_purchase AS silent_days
FROM rhythms, today
WHERE days >= 3 AND silent_days > 2 * usual_gap AND silent_days >= 14
ORDER BY user_id
"""
JAFFLE_VERSIONS = """
SELECT id, count(DISTINCT updated_at) AS versions
FROM read_csv('{folder}/exports/customers_*.csv') GROUP BY ALL ORDER BY ALL
"""
JAFFLE_EXPORTED = """
SELECT 'customers' AS name, count(*) AS differ FROM (
  (SELECT DISTINCT ON (id) * FROM read_csv('{folder}/exports/customers_*.csv') ORDER BY id, updated_at DESC)
  EXCEPT SELECT * FROM read_csv('{folder}/raw_customers.csv'))
UNION ALL SELECT 'orders', count(*) FROM (
  (SELECT DISTINCT ON (id) * FROM read_csv('{folder}/exports/orders_*.csv') ORDER BY id, updated_at DESC)
  EXCEPT SELECT * FROM read_csv('{folder}/raw_orders.csv'))
UNION ALL SELECT 'payments', count(*) FROM (
  (SELECT DISTINCT ON (id) * FROM read_csv('{folder}/exports/payments_*.csv') ORDER BY id, updated_at DESC)
  EXCEPT SELECT * FROM read_csv('{folder}/raw_payments.csv'))
"""
