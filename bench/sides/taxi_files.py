"""Files of taxi trips as `mere generate taxi` makes them, and what must be the same in the tables made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.sides import taxi

CHECKS = {
    "raw.yellow_trips": "count(*), sum(vendorid), sum(round(fare_amount * 100)::BIGINT), count(passenger_count)",
    "raw.taxi_zones": "count(*), sum(location_id)",
    "silver.stg_yellow_trips": "count(*), sum(trip_distance), sum(fare_amount), sum(extra), sum(mta_tax), "
    "sum(tip_amount), sum(tolls_amount), sum(improvement_surcharge), sum(total_amount), sum(congestion_surcharge), "
    "sum(airport_fee), sum(passenger_count), sum(pickup_hour), sum(rate_code_id), count(store_and_fwd_flag), "
    "sum(payment_type), count(DISTINCT payment), sum(duration_seconds), sum(speed_mph), sum(tip_rate)",
    "gold.fct_daily_trips": "count(*), sum(trips), sum(passengers), sum(miles), sum(revenue)",
    "gold.fct_hourly_revenue": "count(*), sum(trips), sum(revenue), sum(tips)",
    "gold.fct_trip_distance_stats": "count(*), sum(trips), sum(miles), sum(shortest), sum(longest), "
    "count(DISTINCT pickup_zone), count(DISTINCT dropoff_zone)",
}


def months() -> int:
    """At BENCH_SCALE=1 one month, at 12 a year; below 1 a month of fewer rows."""
    return max(1, round(float(os.environ.get("BENCH_SCALE", "1"))))


def rows_a_month() -> int:
    return min(taxi.MONTH_ROWS, taxi.month_rows())


def folder() -> Path:
    return taxi.shared("taxi")


def checked(rows: Callable[[str], Iterable[Any]]) -> list[list[str]]:
    return taxi.checked(rows, CHECKS)
