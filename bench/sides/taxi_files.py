"""Files of taxi trips as `mere generate taxi` makes them, and what must be the same in the tables made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.sides.answer import sized

MONTH_ROWS = 3_000_000

CHECKS = {
    "bronze.yellow_trips": "count(*), sum(vendorid), sum(round(fare_amount * 100)::BIGINT), count(passenger_count)",
    "bronze.taxi_zones": "count(*), sum(zone_id)",
    "silver.trips": "count(*), sum(miles), sum(fare), sum(tip), sum(total), sum(passengers), sum(pickup_hour), "
    "sum(duration_seconds), sum(speed_mph), sum(tip_rate), count(DISTINCT payment)",
    "gold.daily_trips": "count(*), sum(trips), sum(passengers), sum(miles), sum(revenue)",
    "gold.hourly_revenue": "count(*), sum(trips), sum(revenue), sum(tips)",
    "gold.trip_distance_stats": "count(*), sum(trips), sum(miles), sum(shortest), sum(longest), "
    "count(DISTINCT pickup), count(DISTINCT dropoff)",
}


def months() -> int:
    """At BENCH_SCALE=1 one month, at 12 a year; below 1 a month of fewer rows."""
    return max(1, round(float(os.environ.get("BENCH_SCALE", "1"))))


def rows_a_month() -> int:
    return min(MONTH_ROWS, sized(MONTH_ROWS))


def folder() -> Path:
    return Path(os.environ["BENCH_SHARED"], "taxi")


def checked(rows: Callable[[str], Iterable[Any]]) -> list[list[str]]:
    """Counts and sums of all tables, by a function that gives the rows of a query."""
    found = []
    for table, sums in CHECKS.items():
        (row,) = rows(f"SELECT {sums} FROM {table}")
        found.append([table, *(str(value) for value in row)])
    return found
