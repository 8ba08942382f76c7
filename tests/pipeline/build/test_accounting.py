"""Of every model a run tells the rows that it read, wrote, put aside and dropped."""

from __future__ import annotations

from typing import Any

from tests.pipeline.conftest import MakeShop
from tests.pipeline.load.test_load import put
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


WITHOUT_TIME = {
    "sources/bronze/s.yaml": "files: data/orders_*.csv\ncolumns: {id: bigint, at: timestamp_ntz}\n",
    "models/silver/dropped.sql": """
        -- kind: incremental
        -- time_column: at
        -- null_times: drop
        SELECT id, at FROM bronze.s WHERE at >= :start AND at < :end
    """,
    "models/silver/aside.sql": """
        -- kind: incremental
        -- time_column: at
        -- audits:
        --   - assert: id > 0
        --     quarantine: true
        SELECT id, at FROM bronze.s WHERE at >= :start AND at < :end
    """,
}


def test_rows_without_a_time_add_up_in_every_run(shop: MakeShop) -> None:
    it = shop(WITHOUT_TIME)
    put(it, "1", "1,2024-02-01 10:00:00", "2,", "3,", header="id,at")
    assert run(it) == {
        "bronze.s": (3, 3, 0, 0),
        "silver.dropped": (3, 1, 0, 2),
        "silver.aside": (3, 1, 2, 0),
    }
    put(it, "2", "4,2024-02-02 10:00:00", "5,", header="id,at")
    put(it, "3", "6,", header="id,at")
    assert it.plan()["silver.dropped"]["notes"] == []
    it("run", "bronze.s")
    assert it.plan()["silver.dropped"]["notes"] == ["2 rows of bronze.s have no at: they are dropped"]
    found = run(it)
    assert found == {
        "silver.dropped": (3, 1, 0, 2),  # each is dropped once
        "silver.aside": (5, 1, 4, 0),  # and put aside anew with all of its kind
    }
    put(it, "4", "7,2024-02-01 11:00:00", header="id,at")
    found = run(it)
    assert (found["silver.dropped"], found["silver.aside"]) == ((2, 2, 0, 0), (2, 2, 0, 0))
    for read, written, quarantined, dropped in run_all(it).values():
        assert read == written + quarantined + dropped


def run_all(it: Shop) -> dict[str, tuple[int, int, int, int]]:
    it("run", "--full-refresh")
    return counted(it.runs()[0]["models"])
