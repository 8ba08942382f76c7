"""A year of taxi trips as a Parquet file a month: what is loaded, and into which tables. The same for every side."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from bench.sides.answer import sized
from bench.sides.taxi import QUERIES, shared

YEAR_ROWS = 10_000_000
MONTHS = [date(2024, month, 1) for month in range(1, 13)]
BRONZE = "bronze.trips"
# What is built of it; the rows of bronze come from the files.
MODELS = {name: query for name, query in QUERIES.items() if name != BRONZE}


def rows_a_month() -> int:
    return max(1, sized(YEAR_ROWS) // len(MONTHS))


def folder() -> Path:
    return shared("months")


def file(month: date) -> Path:
    return folder() / f"trips_{month:%Y-%m}.parquet"
