"""A table that is cut or sorted otherwise from some day on: files stay as they are, and every window stays right."""

from __future__ import annotations

import pytest

from mere.lake.iceberg import schema
from mere.lake.query import show
from mere.names import TableName
from mere.pipeline.state.layout import Layout, Part, are_cut_at_windows, layout_of
from mere.project.kinds import Kind
from mere.project.model import Model, Sql, Time
from mere.windows import Grain
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, Row, Shop

FILE = "models/silver/events.sql"
EVENTS = """
    -- kind: incremental
    -- time_column: at
    -- grain: {grain}
    -- partition_by: [{parts}]
    SELECT id, at, amount FROM landing.events WHERE at >= :start AND at < :end
"""
LATE: tuple[Row, ...] = (
    (6, 1, "2024-02-02T05:00", 3),
    (7, 1, "2024-03-09T05:00", 9),
    (8, 1, "2024-02-03T05:00", 2),
)


def model(grain: Grain = Grain.DAY, parts: tuple[str, ...] = (), order: tuple[str, ...] = ()) -> Model:
    body, time = Sql("SELECT 1", 1), Time("at", grain)
    return Model(TableName("s", "t"), Kind.INCREMENTAL, "t.sql", body, time=time, partition_by=parts, sort_by=order)


def test_the_same_layout_in_other_words_is_no_change() -> None:
    declared = layout_of(model(parts=("days(At)", "bucket( 4,id)"), order=("amount DESC", "at")))
    assert declared == layout_of(model(parts=("day(at)", "bucket(4, id)"), order=("amount desc, at nulls first",)))
    assert Layout.from_json(declared.to_json()) == declared
    assert declared.parts == ("day(at)", "bucket(4, id)")


def test_a_change_is_told() -> None:
    day, month = layout_of(model()), layout_of(model(parts=("month(at)",), order=("id",)))
    assert month.since(day) == ["partitioned by month(at)", "sorted by id asc nulls first"]
    assert day.since(month) == ["partitioned by day(at)", "not sorted"]


@pytest.mark.parametrize("text", ["bucket(4, id)", "bucket[4](id)", "truncate(10, city)", "months(at)", "city"])
def test_a_part_is_read_as_the_model_and_as_the_metadata_write_it(text: str) -> None:
    assert Part.parse(str(Part.parse(text))) == Part.parse(text)


@pytest.mark.parametrize(
    ("grain", "parts", "cut"),
    [
        (Grain.DAY, ["day(at)"], True),
        (Grain.DAY, ["hour(At)", "city"], True),
        (Grain.DAY, ["month(at)"], False),
        (Grain.MONTH, ["day(at)"], True),
        (Grain.WEEK, ["month(at)"], False),
        (Grain.DAY, ["at"], True),
        (Grain.DAY, [], False),
        (Grain.DAY, ["day(other)"], False),
    ],
)
def test_files_that_lie_in_one_window(grain: Grain, parts: list[str], cut: bool) -> None:
    assert are_cut_at_windows(model(grain), parts) is cut


def described(it: Shop) -> show.Description:
    return show.describe(it.lake.at("main"), "silver.events")


def rows(it: Shop) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in it.rows("SELECT id, amount FROM silver.events")]


@pytest.mark.parametrize(
    ("grain", "before", "after"),
    [
        ("day", "day(at)", "month(at)"),
        ("day", "month(at)", "day(at)"),
        ("month", "day(at)", "month(at), 'bucket(2, id)'"),
    ],
)
def test_windows_are_right_over_files_of_another_cut(shop: MakeShop, grain: str, before: str, after: str) -> None:
    it = shop({FILE: EVENTS.format(grain=grain, parts=before)})
    it.land(*FIRST)
    it("run")
    files = described(it).data_files
    it.write({FILE: EVENTS.format(grain=grain, parts=after)})
    planned = it.plan()["silver.events"]
    words = f"partitioned by {after.replace(chr(39), '')} from now on; files stay as they are"
    assert (planned["action"], planned["reasons"], planned["windows"]) == ("alter", [words], [])
    done = it("run")
    assert f"✓ silver.events  {words}" in done.output
    assert (described(it).data_files, len(described(it).snapshots)) == (files, 1)
    assert it.plan() == {}

    it.land(*LATE)  # into two windows of old files that lie side by side, and into a new one
    it("run")
    landed = {id_: amount for id_, _, _, amount in (*FIRST, *LATE)}
    assert dict(rows(it)) == landed
    it.delete("landing.events", "id = 4")  # of one of the two
    it("run")
    del landed[4]
    assert dict(rows(it)) == landed
    assert it.plan() == {}
    changed = it.lake.at("main").metadata("silver.events")
    assert len(schema.partitionings(changed)) > 1


def test_a_layout_changes_with_what_is_due(shop: MakeShop) -> None:
    it = shop({FILE: EVENTS.format(grain="day", parts="")})
    it.land(*FIRST)
    it("run")
    it.write(
        {
            FILE: EVENTS.format(grain="day", parts="month(at)").replace(
                "-- grain", "-- sort_by: [amount desc]\n    -- grain"
            )
        }
    )
    it.land(*LATE)
    planned = it.plan()["silver.events"]
    words = "partitioned by month(at), sorted by amount desc nulls last from now on; files stay as they are"
    assert (planned["action"], planned["notes"]) == ("windows", [words])
    it("run")
    assert (described(it).partitioning, described(it).sort_order) == (("month(at)",), ("amount desc nulls last",))
    assert rows(it) == [(id_, amount) for id_, _, _, amount in (*FIRST, *LATE)]
    it.write({FILE: EVENTS.format(grain="day", parts="month(at)")})
    assert it.plan()["silver.events"]["reasons"] == ["not sorted from now on; files stay as they are"]
    it("run")
    assert described(it).sort_order == ()


def test_downstream_of_an_altered_table_nothing_is_due(shop: MakeShop) -> None:
    it = shop(
        {
            FILE: EVENTS.format(grain="day", parts=""),
            "models/gold/total.sql": "SELECT sum(amount) AS x FROM silver.events",
        }
    )
    it.land(*FIRST)
    it("run")
    it.replace(FILE, "partition_by: []", "partition_by: [month(at)]")
    assert it.plan().keys() == {"silver.events"}
    assert it.built() == {"silver.events"}
    assert it.plan() == {}


def test_what_somebody_else_made_of_the_layout_stays(shop: MakeShop) -> None:
    """Until the model says something else than it did."""
    it = shop({FILE: "SELECT id, at, amount FROM landing.events"})
    it.land(*FIRST)
    it("run")
    with it.lake.pyiceberg().load_table("silver.events").update_spec() as spec:
        spec.add_identity("id")
    assert it.plan() == {}
    it.write({FILE: "-- partition_by: [amount]\nSELECT id, at, amount FROM landing.events"})
    it("run")
    assert described(it).partitioning == ("amount",)
