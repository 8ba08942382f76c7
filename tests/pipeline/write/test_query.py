"""What a build makes of the table that stands there: its layout, its columns, its words, and its rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mere.lake.query import show
from mere.names import TableName
from mere.sql.rewrite import with_tables
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, Shop

EVENTS = """
    -- kind: incremental
    -- time_column: at
    -- grain: day
    SELECT id, at, amount FROM landing.events WHERE at >= :start AND at < :end
"""
FILE = "models/silver/events.sql"
LATE = (6, 1, "2024-02-02T05:00", 3)


def described(it: Shop, table: str = "silver.events") -> show.Description:
    return show.describe(it.lake.at("main"), table)


def comments(it: Shop, table: str = "silver.events") -> dict[str, str]:
    return {column.name: column.comment for column in described(it, table).columns if column.comment}


def ids(it: Shop, table: str = "silver.events") -> list[int]:
    return sorted(row[0] for row in it.rows(f"SELECT id FROM {table}"))


def set_up(it: Shop, setting: str, file: str = FILE) -> None:
    """Add a line to the model's settings."""
    it.replace(file, "SELECT", f"-- {setting}\nSELECT")


# how the rows lie


def test_a_table_that_is_cut_coarser_than_its_windows_is_built_window_by_window(shop: MakeShop) -> None:
    """A window is then deleted out of files that keep their other rows, which are no rows of the model's query."""
    it = shop({FILE: EVENTS})
    set_up(it, "partition_by: [month(at)]")
    it.land(*FIRST)
    it("run")
    it.land(LATE)
    assert it.built() == {"silver.events"}
    assert ids(it) == [1, 2, 3, 4, 5, 6]
    assert described(it).partitioning == ("month(at)",)


def test_rows_outside_of_their_windows_are_still_found_in_such_a_table(shop: MakeShop) -> None:
    it = shop({FILE: EVENTS})
    set_up(it, "partition_by: [month(at)]")
    set_up(it, "inputs: {landing.events: {time: at}}")
    it.land(*FIRST)
    it("run")
    before = it.rows("silver.events")
    it.replace(FILE, "id, at,", "id, CASE WHEN id = 6 THEN at - INTERVAL 1 DAY ELSE at END AS at,")
    it.land(LATE)
    _, said = it.failed_run("--forward-only", "silver.events")
    assert "outside of the windows" in said
    assert it.rows("silver.events") == before


@pytest.mark.parametrize(
    ("old", "new", "partitioning"),
    [
        ("-- grain: day", "-- grain: month", ("month(at)",)),
        ("-- grain: day", "-- grain: hour", ("hour(at)",)),
        ("-- grain: day", "-- grain: day\n-- partition_by: [day(at), 'bucket(4, id)']", ("day(at)", "bucket[4](id)")),
    ],
)
def test_a_new_partitioning_holds_for_the_whole_table_and_for_the_next_run(
    shop: MakeShop, old: str, new: str, partitioning: tuple[str, ...]
) -> None:
    it = shop({FILE: EVENTS})
    it.land(*FIRST)
    it("run")
    assert described(it).partitioning == ("day(at)",)
    it.replace(FILE, old, new)
    it("run")
    assert described(it).partitioning == partitioning
    it.land(LATE)
    assert it.built() == {"silver.events"}
    assert ids(it) == [1, 2, 3, 4, 5, 6]


def test_a_model_that_was_full_is_cut_when_it_becomes_incremental(shop: MakeShop) -> None:
    it = shop({FILE: "SELECT id, at, amount FROM landing.events"})
    it.land(*FIRST)
    it("run")
    assert described(it).partitioning == ()
    it.write({FILE: EVENTS})
    it("run")
    assert described(it).partitioning == ("day(at)",)
    it.land(LATE)
    it("run")
    assert ids(it) == [1, 2, 3, 4, 5, 6]


def test_a_table_that_mere_did_not_make_is_built_upon_as_it_is_cut(shop: MakeShop) -> None:
    it = shop({FILE: EVENTS})
    it.lake.pyiceberg().create_namespace("silver")
    it.lake.pyiceberg().create_table(
        "silver.events", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC")), ("amount", pa.int64())])
    )
    it.land(*FIRST)
    it.land(*FIRST, table="silver.events")
    it("plan", "--accept", "silver.events")
    it.land(LATE)
    assert it.built() == {"silver.events"}
    assert ids(it) == [1, 2, 3, 4, 5, 6]
    assert described(it).partitioning == ()


def test_an_unchanged_layout_is_not_replaced(shop: MakeShop) -> None:
    """A replaced table has no way from its old snapshots to the new ones."""
    it = shop({FILE: EVENTS})
    set_up(it, "partition_by: [days(At), 'bucket( 4,id)', amount]")
    set_up(it, "sort_by: [amount desc, 'bucket(4, id), at nulls last']")
    set_up(it, "properties: {write.parquet.compression-codec: gzip, format-version: '2'}")
    set_up(it, "columns: {ID: Counted up.}")
    set_up(it, "description: What happened.")
    it.land(*FIRST)
    it("run")
    before = it.lake.at("main").metadata("silver.events")
    it("run", "--full-refresh", "silver.events")
    after = it.lake.at("main").metadata("silver.events")
    assert before.current
    assert [each.operation for each in after.since(before.current.id) or ()] == ["overwrite"]
    assert after.version - before.version == 2  # the rows and the state, and no statement besides


# what is said of the table


def test_words_and_properties_follow_the_model_at_its_next_build(shop: MakeShop) -> None:
    it = shop({FILE: EVENTS})
    it.land(*FIRST)
    it("run")
    set_up(it, "description: What happened, where it's known.")
    set_up(it, "columns: {AMOUNT: In cents., id: Counted up.}")
    set_up(it, "properties: {write.parquet.compression-codec: gzip}")
    assert it.plan() == {}
    it.land(LATE)
    assert it.plan()["silver.events"]["action"] == "windows"
    it("run")
    table = described(it)
    assert table.properties["comment"] == "What happened, where it's known."
    assert table.properties["write.parquet.compression-codec"] == "gzip"
    assert comments(it) == {"id": "Counted up.", "amount": "In cents."}
    assert ids(it) == [1, 2, 3, 4, 5, 6]


def test_what_the_model_no_longer_says_goes_when_the_table_is_built_anew(shop: MakeShop) -> None:
    it = shop({FILE: EVENTS})
    set_up(it, "description: What happened.")
    set_up(it, "columns: {amount: In cents.}")
    it.land(*FIRST)
    it("run")
    it.write({FILE: EVENTS})
    it.land(LATE)
    it("run")
    assert (described(it).properties["comment"], comments(it)) == ("What happened.", {"amount": "In cents."})
    it("run", "--full-refresh", "silver.events")
    assert ("comment" in described(it).properties, comments(it)) == (False, {})


# its columns


def test_a_full_model_takes_the_types_that_its_input_has_now_if_it_may(shop: MakeShop) -> None:
    it = shop({"seeds/raw/prices.csv": "id,price\n1,3\n2,4\n", "models/gold/prices.sql": "SELECT * FROM raw.prices"})
    it("run")
    it.write({"seeds/raw/prices.csv": "id,price\n1,3.5\n2,4\n"})
    assert "raw.prices makes price a double: it is a bigint, read by gold.prices" in it.failed_run()[1]
    assert it.built("--allow-breaking") == {"raw.prices", "gold.prices"}
    assert it.rows("gold.prices") == [(1, 3.5), (2, 4.0)]
    it.write({"seeds/raw/prices.csv": "id,cost\n1,3\n"})
    it("run", "--allow-breaking")
    assert [column.name for column in described(it, "gold.prices").columns] == ["id", "cost"]
    assert it.rows("gold.prices") == [(1, 3)]


@pytest.mark.parametrize("how", ["sql", "python"])
def test_the_case_of_a_time_column_does_not_matter(shop: MakeShop, how: str) -> None:
    python = """
        from mere import model, table

        @model("silver.events", kind="incremental", time_column="at", grain="day")
        def events(raw=table("landing.events", time="AT")):
            return raw.select("id", raw.at.alias("At"))
    """
    sql = EVENTS.replace("at, amount", "at AS At").replace("at >=", "AT >=").replace("at <", "AT <")
    it = shop({FILE: sql} if how == "sql" else {"models/silver/events.py": python})
    it.land(*FIRST)
    it("run")
    it.land(LATE)
    it("run")
    assert ids(it) == [1, 2, 3, 4, 5, 6]
    assert described(it).partitioning == ("day(At)",)
    assert described(it).properties["write.metadata.metrics.column.At"] == "full"


# its rows


def test_inputs_whose_names_look_alike_are_sampled_apart(shop: MakeShop) -> None:
    it = shop(
        {
            "models/gold/both.sql": """
                SELECT count(a.x) AS a, count(b.y) AS b
                FROM raw_shop.orders AS a FULL JOIN raw.shop_orders AS b ON a.x = b.y
            """
        }
    )
    for name, column, rows in (("raw_shop.orders", "x", 3), ("raw.shop_orders", "y", 5)):
        schema = pa.schema([(column, pa.int64())])
        it.lake.pyiceberg().create_namespace(name.partition(".")[0])
        it.lake.pyiceberg().create_table(name, schema).append(pa.table({column: list(range(rows))}, schema))
    it.lake.branch("dev")
    it("run", "--on", "dev", "--sample", "100%")
    assert it.rows("gold.both", at="dev") == [(3, 5)]


def test_columns_that_are_called_by_their_schema_are_found_in_new_rows(shop: MakeShop) -> None:
    it = shop({FILE: "-- kind: append\nSELECT landing.events.id FROM landing.events WHERE Landing.Events.amount > 1"})
    it.land(*FIRST)
    it("run")
    it.land(LATE, (7, 1, "2024-02-02T05:00", 1))
    it("run")
    assert ids(it) == [1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    ("query", "rewritten"),
    [
        ("SELECT a.t.x, a.t.* FROM a.t", "SELECT `t`.x, `t`.* FROM `n` AS `t`"),
        ("SELECT u.t.x FROM a.t AS u", "SELECT u.t.x FROM `n` AS u"),
        ("SELECT `a`.`t`.x.y.z.w FROM a.t", "SELECT `t`.x.y.z.w FROM `n` AS `t`"),
        (
            "SELECT a.t.x, b.t.x FROM a.t JOIN b.t ON a.t.x = b.t.x",
            "SELECT `n`.x, b.t.x FROM `n` AS `n` JOIN b.t ON `n`.x = b.t.x",
        ),
        (
            "SELECT t.y FROM a.t WHERE EXISTS (SELECT 1 FROM b.t WHERE t.x = a.t.x)",
            "SELECT `n`.y FROM `n` AS `n` WHERE EXISTS (SELECT 1 FROM b.t WHERE t.x = `n`.x)",
        ),
        (
            "WITH c AS (SELECT a.t.x FROM a.t) SELECT t.x FROM c AS t",
            "WITH c AS (SELECT `t`.x FROM `n` AS `t`) SELECT t.x FROM c AS t",
        ),
    ],
)
def test_another_table_is_read_in_place_of_one(query: str, rewritten: str) -> None:
    assert with_tables(query, {TableName("a", "t"): "n"}) == rewritten
