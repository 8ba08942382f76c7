"""A month of taxi trips: how its rows are made, and what is made of them. The same for mere and for every peer.

All amounts are decimals, so that sums are equal to the last digit whichever engine adds them up in whichever order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.sides.answer import sized

MONTH_ROWS = 3_000_000
SOURCE = "raw.trips"

# Hashes of the row's number stand for chance: every run makes the same rows, on any number of threads.
TRIPS = """
    SELECT
        (1 + hash(i, 1) % 2)::INTEGER AS vendor_id,
        TIMESTAMP '{month}' + to_seconds((hash(i, 2) % 2419200)::BIGINT) AS picked_up_at,
        picked_up_at + to_seconds((60 + hash(i, 3) % 3600)::BIGINT) AS dropped_off_at,
        CASE WHEN hash(i, 4) % 30 > 0 THEN (1 + hash(i, 4) % 5)::INTEGER END AS passengers,
        ((hash(i, 5) % 3000) / 100)::DECIMAL(8, 2) AS distance,
        (1 + (hash(i, 6) % 265) * (hash(i, 7) % 265) // 265)::INTEGER AS from_zone,
        (1 + hash(i, 8) % 265)::INTEGER AS to_zone,
        ['card', 'cash', 'free', 'dispute'][1 + (hash(i, 9) % 4)::INTEGER] AS payment,
        ((hash(i, 10) % 9000)::INTEGER - 200)::DECIMAL(10, 2) / 100 AS fare_,
        CAST(fare_ AS DECIMAL(10, 2)) AS fare,
        ((hash(i, 11) % 1200) / 100)::DECIMAL(10, 2) AS tip,
        (CASE WHEN hash(i, 12) % 12 = 0 THEN 6.94 ELSE 0 END)::DECIMAL(10, 2) AS tolls
    FROM range({first}, {last}) AS rows(i)
"""
COLUMNS = (
    *("vendor_id", "picked_up_at", "dropped_off_at", "passengers", "distance", "from_zone", "to_zone", "payment"),
    *("fare", "tip", "tolls"),
)

BRONZE = f"SELECT {', '.join(COLUMNS)} FROM {SOURCE}"
SILVER = """\
SELECT
  vendor_id, picked_up_at, dropped_off_at, coalesce(passengers, 1) AS passengers, distance,
  from_zone, to_zone, payment, fare, tip, tolls, fare + tip + tolls AS total
FROM bronze.trips
WHERE fare >= 0 AND distance > 0"""
DAILY = """\
SELECT CAST(picked_up_at AS date) AS day, payment, count(*) AS trips, sum(total) AS revenue, sum(distance) AS distance
FROM silver.trips
GROUP BY CAST(picked_up_at AS date), payment"""
ZONES = """\
SELECT from_zone, to_zone, count(*) AS trips, sum(fare) AS fares, max(tip) AS largest_tip
FROM silver.trips
GROUP BY from_zone, to_zone"""
HOURS = """\
SELECT date_trunc('hour', picked_up_at) AS hour, from_zone, count(*) AS trips, sum(tip) AS tips
FROM silver.trips
GROUP BY date_trunc('hour', picked_up_at), from_zone"""
QUERIES = {
    "bronze.trips": BRONZE,
    "silver.trips": SILVER,
    "gold.daily": DAILY,
    "gold.zones": ZONES,
    "gold.hours": HOURS,
}

CHECKS = {
    "bronze.trips": "count(*), sum(fare), sum(tip)",
    "silver.trips": "count(*), sum(total), sum(passengers), sum(distance)",
    "gold.daily": "count(*), sum(trips), sum(revenue), sum(distance)",
    "gold.zones": "count(*), sum(trips), sum(fares), sum(largest_tip)",
    "gold.hours": "count(*), sum(trips), sum(tips), count(DISTINCT hour)",
}


def trips(month: str, rows: int, first: int = 0) -> str:
    """A query of DuckDB for the rows of a month that starts with that day."""
    made = TRIPS.format(month=month, first=first, last=first + rows)
    return f"SELECT {', '.join(COLUMNS)} FROM ({made})"


def month_rows() -> int:
    return sized(MONTH_ROWS)


def shared(name: str) -> Path:
    return Path(os.environ["BENCH_SHARED"], name)


def checked(rows: Callable[[str], Iterable[Any]], checks: Mapping[str, str] = CHECKS) -> list[list[str]]:
    """Counts and sums of all tables, by a function that gives the rows of a query."""
    found = []
    for table, sums in checks.items():
        (row,) = rows(f"SELECT {sums} FROM {table}")
        found.append([table, *(str(value) for value in row)])
    return found
