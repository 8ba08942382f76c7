"""The project of the history case: months of trips through three incremental models."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from bench.sides.taxi import COLUMNS, SILVER, SOURCE

WINDOW = "picked_up_at >= :start AND picked_up_at < :end"
DAILY = f"""\
SELECT CAST(picked_up_at AS date) AS day, payment, count(*) AS trips, sum(total) AS revenue
FROM silver.trips
WHERE {WINDOW}
GROUP BY CAST(picked_up_at AS date), payment"""
QUERIES = {
    "bronze.trips": f"SELECT {', '.join(COLUMNS)} FROM {SOURCE} WHERE {WINDOW}",
    "silver.trips": f"{SILVER} AND {WINDOW}",
    "gold.daily": DAILY,
}


def settings(column: str) -> str:
    """A batch of one window: a run that builds a history leaves a snapshot a month, as a run every month does."""
    return f"""\
-- kind: incremental
-- time_column: {column}
-- grain: month
-- batch: 1
-- audits: [{{not_null: [{column}]}}]
"""


def write_project(folder: Path) -> None:
    folder.mkdir()
    (folder / "mere.yaml").write_text("name: history\n", encoding="utf-8")
    for name, query in QUERIES.items():
        file = folder.joinpath("models", *name.split(".")).with_suffix(".sql")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(settings("day" if name == "gold.daily" else "picked_up_at") + query + "\n", encoding="utf-8")


def start_of(month: int) -> date:
    return date(2022 + month // 12, 1 + month % 12, 1)
