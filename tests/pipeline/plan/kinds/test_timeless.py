"""Rows whose time is NULL: in quarantine, each once, or dropped because that is said to be meant, or the run fails."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from mere.lake import faults
from mere.sql.rewrite import with_null_times
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import LANDING, Shop

RULE = """
    -- audits:
    --   - assert: amount < 1000
    --     quarantine: true"""
KEPT = f"""
    -- kind: incremental
    -- time_column: at
    -- batch: 1{RULE}
    SELECT id, at, amount FROM landing.events WHERE at >= :start AND :end > at
"""
DROPPED = """
    -- kind: incremental
    -- time_column: day
    -- null_times: drop
    SELECT CAST(at AS date) AS day, count(*) AS events FROM landing.events WHERE at >= :start AND at < :end GROUP BY 1
"""
VIEW = """
    -- kind: view
    SELECT id, at AS seen, amount FROM landing.events WHERE amount > 0
"""
COUNTED = """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    from mere import model, table


    @model(
        "gold.counted",
        kind="incremental",
        time_column="day",
        context="2 days",
        audits=[{"assert": "events < 1000", "quarantine": True}],
    )
    def counted(events: DataFrame = table("staging.seen", time="seen")) -> DataFrame:
        return events.groupBy(F.to_date("seen").alias("day")).agg(F.count("*").alias("events"))
"""
BOTH = f"""
    -- kind: incremental
    -- time_column: at{RULE}
    SELECT id, IF(amount = 13, NULL, at) AS at, amount FROM landing.events WHERE at >= :start AND at < :end
    UNION ALL
    SELECT -id, at, amount FROM landing.more WHERE at >= :start AND at < :end
"""
BOTH_INPUTS = "    -- inputs: {landing.events: {time: at}, landing.more: {time: at}}\n"
FILES = {
    "models/silver/kept.sql": KEPT,
    "models/silver/dropped.sql": DROPPED,
    "models/silver/both.sql": BOTH.replace("    -- time_column: at", BOTH_INPUTS + "    -- time_column: at"),
    "models/staging/seen.sql": VIEW,
    "models/gold/counted.py": COUNTED,
}
AT = datetime(2024, 2, 1, 10, tzinfo=UTC)
LATER = datetime(2024, 2, 4, 10, tzinfo=UTC)


def land(it: Shop, *rows: tuple[int, datetime | None, int], table: str = "landing.events") -> None:
    made = [{"id": id_, "city_id": 1, "at": at, "amount": amount} for id_, at, amount in rows]
    it.lake.pyiceberg().load_table(table).append(pa.Table.from_pylist(made, schema=LANDING))


def aside(it: Shop) -> dict[str, list[Any]]:
    """What is in the quarantines."""
    return {
        "kept": [row[0] for row in it.rows("select id from silver.kept__quarantine")],
        "both": [row[0] for row in it.rows("select id from silver.both__quarantine")],
        "counted": [row[0] for row in it.rows("select events from gold.counted__quarantine")],
    }


def whole(it: Shop) -> dict[str, list[Any]]:
    return {**aside(it), **{name: it.rows(name) for name in ("silver.kept", "silver.dropped", "silver.both")}}


def test_each_is_in_quarantine_once_whatever_comes_and_goes(shop: MakeShop) -> None:
    it = shop(FILES)
    it.lake.pyiceberg().create_table("landing.more", LANDING)
    land(it, (1, AT, 5), (2, None, 7), (3, None, 2000), (4, AT, 13), (5, LATER, 1), (6, None, -1))
    land(it, (1, AT, 5), (2, None, 7), table="landing.more")
    assert it.plan()["silver.kept"]["notes"] == [
        "3 rows of landing.events have no at: they go to silver.kept__quarantine"
    ]

    def stop(point: str) -> None:
        if point == "quarantine.timeless":
            raise RuntimeError("stopped")

    faults.hook = stop
    with pytest.raises(RuntimeError):
        it("run")
    faults.hook = None
    it("run", "--resume", it.runs()[0]["id"])
    expected = {"kept": [2, 3, 6], "both": [-2, 2, 3, 4, 6], "counted": [2]}
    assert aside(it) == expected
    assert it.rows("select id, _rules from silver.kept__quarantine where _from is null") == [
        (2, ["time"]), (3, ["assert(amount < 1000)", "time"]), (6, ["time"])
    ]  # fmt: skip
    assert it.rows("select id from silver.both__quarantine where _from is not null") == [(4,)]
    assert it.plan() == {}

    it("quarantine", "retry")
    assert aside(it) == expected

    # One goes, one comes beside a late row, one gets a time.
    it.delete("landing.events", "id in (2, 6)")
    land(it, (7, AT, 1), (8, None, 1), (6, AT, 1))
    built = {event["model"]: event for event in it.run() if event["event"] == "built"}
    assert built.keys() == {"silver.kept", "silver.dropped", "silver.both", "gold.counted"}
    assert (built["silver.dropped"]["rows_dropped"], built["silver.kept"]["rows_dropped"]) == (1, 0)
    assert built["silver.kept"]["notes"] == ["2 rows of landing.events have no at"]
    assert aside(it) == {"kept": [3, 8], "both": [-2, 3, 4, 8], "counted": [2]}
    assert it.plan() == {}
    it.delete("landing.events", "id in (3, 8)")
    it.run()
    assert aside(it) == {"kept": [], "both": [-2, 4], "counted": []}
    assert it.plan() == {}
    found = whole(it)
    it.run("--full-refresh")
    assert whole(it) == found


def test_without_a_quarantine_the_run_fails_until_somebody_decides(shop: MakeShop) -> None:
    it = shop({"models/silver/strict.sql": KEPT.replace(RULE, "")})
    land(it, (1, AT, 5), (2, None, 7), (3, None, 2))
    assert it.plan()["silver.strict"]["notes"] == [
        "2 rows of landing.events have no at: a run fails if its query gives them"
    ]
    _, said = it.failed_run()
    assert "models/silver/strict.sql: 2 rows of landing.events have no at: they belong to no window" in said
    assert "AND at IS NOT NULL" in said
    assert "`null_times: drop`" in said
    it.replace("models/silver/strict.sql", ":end > at", ":end > at AND at IS NOT NULL")
    it.run()
    assert it.rows("select id from silver.strict") == [(1,)]
    it.replace("models/silver/strict.sql", " AND at IS NOT NULL", "")
    it.failed_run()
    it.replace("models/silver/strict.sql", "-- batch: 1", "-- null_times: drop")
    (built,) = [event for event in it.run() if event["event"] == "built"]
    assert built["notes"] == ["2 rows of landing.events have no at: dropped"]
    assert built["rows_dropped"] == 2
    assert it.plan() == {}
    # Whoever takes the word back is asked again.
    it.replace("models/silver/strict.sql", "-- null_times: drop", "-- null_times: refuse")
    it.failed_run()


def test_a_time_that_the_query_makes_up_is_refused(shop: MakeShop) -> None:
    query = KEPT.replace("id, at,", "id, coalesce(at, TIMESTAMP '2024-02-01') AS at,")
    query = query.replace("    -- batch: 1", "    -- inputs: {landing.events: {time: at}}")
    it = shop({"models/silver/kept.sql": query.replace("WHERE at", "WHERE events.at").replace("> at", "> events.at")})
    land(it, (1, AT, 5), (2, None, 7))
    _, said = it.failed_run("--no-check")
    assert "gives a at to rows of its inputs that have none" in said


@pytest.mark.parametrize(
    ("query", "made"),
    [
        ("SELECT a FROM t WHERE at >= :start AND at < :end", "SELECT a FROM t WHERE at <=> {} AND at <=> {}"),
        (
            "SELECT a FROM t WHERE :start <= t.`at` AND :end > t.`at`",
            "SELECT a FROM t WHERE {} <=> t.`at` AND {} <=> t.`at`",
        ),
        (
            "SELECT 'at < :end' FROM t WHERE CAST(at AS date) >= :start - INTERVAL 2 DAYS AND CAST(at AS date)<:end",
            "SELECT 'at < :end' FROM t WHERE CAST(at AS date) <=> {} - INTERVAL 2 DAYS AND CAST(at AS date)<=>{}",
        ),
        ("SELECT a, :start AS s FROM t WHERE at >= :start AND at < :end", None),
        ("SELECT a FROM t JOIN p ON p.since < :end WHERE at >= :start AND at < :end", None),
        ("SELECT a FROM t WHERE datediff(at, :start) >= 0 AND at < :end", None),
    ],
)  # fmt: skip
def test_the_window_without_a_time_in_sql(query: str, made: str | None) -> None:
    null = "CAST(NULL AS date)"
    assert with_null_times(query, "date") == (made and made.format(null, null))
