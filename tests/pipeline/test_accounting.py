"""Of every model a run tells the rows that it read, wrote, put aside and dropped."""

from __future__ import annotations

from typing import Any

from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import Shop

FILES = {
    "seeds/raw/cities.csv": """
        city_id,name
        1,Wien
        ,Rom
        3,Oslo
    """,
    "seeds/raw/cities.yaml": """
        audits:
          - not_null: city_id
            quarantine: true
    """,
    "models/bronze/events.sql": """
        -- kind: append
        SELECT id, city_id, at, amount FROM landing.events
    """,
    "models/silver/events.sql": """
        -- kind: incremental
        -- time_column: at
        -- grain: day
        -- batch: 1
        -- audits:
        --   - assert: amount > 0
        --     quarantine: true
        SELECT id, at, amount FROM bronze.events WHERE at >= :start AND at < :end
    """,
    "models/gold/latest.sql": """
        -- kind: merge
        -- key: city_id
        -- latest_by: at
        SELECT city_id, id, at FROM bronze.events
    """,
    "models/gold/total.sql": "SELECT sum(amount) AS amount FROM silver.events",
    "models/gold/shown.sql": """
        -- kind: view
        SELECT amount FROM gold.total
    """,
}


def counted(models: dict[str, Any]) -> dict[str, tuple[int, int, int, int]]:
    """Read, written, quarantined, dropped."""
    words = ("read", "written", "quarantined", "dropped")
    return {
        name: tuple(about[f"rows_{word}"] for word in words)
        for name, about in models.items()
        if about["state"] == "built"
    }


def run(it: Shop) -> dict[str, tuple[int, int, int, int]]:
    events = {event["model"]: event for event in it.run() if event["event"] == "built"}
    found = counted(it.runs()[0]["models"])
    assert counted(events) == found
    return found


def test_rows_are_counted_for_every_kind(shop: MakeShop) -> None:
    it = shop(FILES)
    it.land((1, 1, "2024-02-01T10:00", 10), (2, 1, "2024-02-01T12:00", -5), (3, 3, "2024-02-02T08:00", 7))
    assert run(it) == {
        "raw.cities": (3, 2, 1, 0),
        "bronze.events": (3, 3, 0, 0),
        "silver.events": (3, 2, 1, 0),
        "gold.latest": (3, 2, 0, 0),
        "gold.total": (2, 1, 0, 0),
        "gold.shown": (0, 0, 0, 0),
    }
    shown = it("runs", "show", it.runs()[0]["id"]).stdout.splitlines()
    assert next(line for line in shown if line.startswith("model")).split()[:7] == [
        "model",
        "state",
        "seconds",
        "read",
        "written",
        "quarantined",
        "dropped",
    ]
    assert next(line for line in shown if line.startswith("silver.events")).split()[3:7] == ["3", "2", "1", "0"]

    it.land((4, 3, "2024-02-02T09:00", 1), (5, 3, "2024-02-03T09:00", -1))
    assert run(it) == {
        "bronze.events": (2, 2, 0, 0),  # of the input only what is new
        "silver.events": (5, 2, 1, 0),  # both files lie in the window of 2024-02-02
        "gold.latest": (2, 1, 0, 0),
        "gold.total": (3, 1, 0, 0),
    }
