"""Which windows of a rewritten table have other rows than before, against a comparison in Python."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from mere.lake.diff.changes import Changes, changes
from mere.lake.diff.contents import by_rows, hour_of
from mere.lake.iceberg.timeline import Timeline
from mere.lake.lake import Lake
from mere.windows import Grain, Span, Spans, instant

T = "gold.t"
Row = dict[str, Any]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


def create(lake: Lake, type_: IcebergType | None = None) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "at", type_ or TimestampType()),
        NestedField(3, 'the "name"', StringType()),
        NestedField(4, "price", DecimalType(12, 2)),
        NestedField(5, "rate", DoubleType()),
        NestedField(6, "raw", BinaryType()),
        NestedField(7, "tags", ListType(20, StringType(), element_required=False)),
        NestedField(8, "counts", MapType(21, StringType(), 22, LongType(), value_required=False)),
        NestedField(9, "who", StructType(NestedField(23, "name", StringType()), NestedField(24, "age", LongType()))),
    )
    catalog = lake.pyiceberg()
    catalog.create_namespace_if_not_exists("gold")
    catalog.create_table(T, schema)


def row(id_: int, at: dt.datetime | None, **values: Any) -> Row:
    return {"id": id_, "at": at, **values}


def at(day: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(2024, 2, 28, hour) + dt.timedelta(days=day)


def overwrite(lake: Lake, rows: Sequence[Row]) -> int:
    table = lake.pyiceberg().load_table(T)
    schema = table.schema().as_arrow()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyIceberg warns when there was nothing to delete
        table.overwrite(pa.Table.from_pylist([fitting(each, schema) for each in rows], schema))
    return snapshot(lake)


def fitting(row: Row, schema: pa.Schema) -> Row:
    time, type_ = row["at"], schema.field("at").type
    if time is None:
        return row
    if pa.types.is_date(type_):
        return {**row, "at": time.date()}
    return {**row, "at": time.replace(tzinfo=dt.UTC)} if type_.tz else row


def snapshot(lake: Lake) -> int:
    current = lake.at().metadata(T).current
    assert current
    return current.id


def timeline(lake: Lake, column: str | None = "at") -> Timeline:
    return Timeline(T, lake.at().metadata(T), column, lake.storage)


def compared(lake: Lake, since: int, grain: Grain = Grain.DAY, column: str | None = "at", **options: Any) -> Changes:
    line = timeline(lake, column)
    return by_rows(changes(line, since, grain), line, since, grain, **options)


def days(*numbers: int) -> Spans:
    return Spans.of(Span(instant(at(day)), instant(at(day + 1))) for day in numbers)


ORDERS = [row(1, at(0, 3)), row(2, at(0, 23)), row(3, at(1)), row(4, at(5))]


@pytest.mark.parametrize(
    ("time", "ticks", "hour"),
    [
        ("TIMESTAMP_NS '1969-12-31 22:59:59.999999999'", 1000, "1969-12-31T22:00"),
        ("TIMESTAMP_NS '1969-12-31 23:00:00.000000000'", 1000, "1969-12-31T23:00"),
        ("TIMESTAMP_NS '2024-02-28 10:59:59.999999999'", 1000, "2024-02-28T10:00"),
        ("TIMESTAMP '1969-12-31 22:59:59.999999'", 1, "1969-12-31T22:00"),
        ("TIMESTAMP '0001-01-01 00:30:00'", 1, "0001-01-01T00:00"),
        ("DATE '1969-12-31'", 1, "1969-12-31T00:00"),
    ],
)
def test_the_hour_of_an_instant_is_exact_before_1970_too(time: str, ticks: int, hour: str) -> None:
    """Of nanoseconds only here: neither PyIceberg nor Spark writes them into a table."""
    (found,) = duckdb.execute(f"SELECT {hour_of('t', ticks)} FROM (SELECT {time} AS t)").fetchall()
    since_1970 = instant(hour) - instant("1970-01-01")
    assert found == (since_1970 // dt.timedelta(microseconds=1),)


def test_a_table_rewritten_with_the_same_rows_did_not_change(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    overwrite(lake, ORDERS[::-1])
    assert changes(timeline(lake), first, Grain.DAY).spans == days(0, 1, 5)
    for column in ("at", None):
        found = compared(lake, first, column=column)
        assert not found
        assert (found.spans, found.why, found.appends_only) == (Spans(), "", False)


def test_only_windows_with_other_rows_count(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    overwrite(lake, [*ORDERS[:2], row(3, at(1, 1)), ORDERS[3], row(9, at(7))])
    found = compared(lake, first)
    assert (found.spans, found.why, found.rows_added, found.rows_removed) == (days(1, 7), "rows replaced", 2, 1)
    assert compared(lake, first, Grain.HOUR).spans == Spans.of(
        Span(instant(each), instant(each) + dt.timedelta(hours=1)) for each in (at(1), at(1, 1), at(7))
    )
    whole = compared(lake, first, column=None)
    assert (whole.spans, whole.why, whole.nulls) == (None, "rows replaced", None)


def test_a_rewrite_with_more_rows_brought_new_rows_and_is_still_not_an_append(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    overwrite(lake, [*ORDERS, ORDERS[0]])
    found = compared(lake, first)
    assert (found.spans, found.why, found.appends_only, found.rows_added) == (days(0), "new rows", False, 1)


def test_what_was_taken_away_and_brought_back_did_not_change(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    lake.pyiceberg().load_table(T).delete("id >= 3")
    between = compared(lake, first)
    assert (between.spans, between.why, between.rows_removed) == (days(1, 5), "rows deleted", 2)
    table = lake.pyiceberg().load_table(T)
    table.append(pa.Table.from_pylist(ORDERS[2:], table.schema().as_arrow()))
    assert not compared(lake, first)


def test_rows_without_a_time_are_in_no_window_and_yet_a_change(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    overwrite(lake, [*ORDERS, row(5, None), row(6, None)])
    found = compared(lake, first)
    assert (found.spans, found.nulls, found.rows_added) == (Spans(), 2, 2)
    assert found


def test_a_table_that_was_emptied_lost_its_windows(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    second = overwrite(lake, [])
    assert compared(lake, first).spans == days(0, 1, 5)
    overwrite(lake, ORDERS)
    assert compared(lake, second).spans == days(0, 1, 5)
    assert not compared(lake, first)


def test_the_columns_are_those_of_now(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    with lake.pyiceberg().load_table(T).update_schema() as schema:
        schema.rename_column("id", "number")
        schema.add_column("note", StringType())
    renamed = [{"number": each["id"], "at": each["at"]} for each in ORDERS]
    overwrite(lake, renamed)
    assert not compared(lake, first)
    overwrite(lake, [*renamed[:3], {**renamed[3], "note": "new"}])
    assert compared(lake, first).spans == days(5)


def test_files_tell_where_rows_cannot(lake: Lake) -> None:
    """Too much to read, a snapshot or a file that is gone, a time that Python does not have."""
    create(lake)
    first = overwrite(lake, ORDERS)
    (file,) = (path for path in Path(lake.warehouse).rglob("*.parquet"))
    second = overwrite(lake, ORDERS)
    by_files = changes(timeline(lake), first, Grain.DAY)
    assert compared(lake, first, limit=1000) == by_files
    assert compared(lake, 4711).spans is None
    file.unlink()
    gone = compared(lake, first).spans
    assert gone is not None
    assert gone == changes(timeline(lake), first, Grain.DAY).spans != Spans()
    overwrite(lake, [*ORDERS, row(9, dt.datetime(9999, 12, 31))])
    assert compared(lake, second).spans is None


def test_appends_and_no_change_need_no_duckdb(lake: Lake) -> None:
    create(lake)
    first = overwrite(lake, ORDERS)
    table = lake.pyiceberg().load_table(T)
    table.append(pa.Table.from_pylist(ORDERS, table.schema().as_arrow()))
    script = f"""
import sys
from mere.lake.diff.changes import changes
from mere.lake.diff.contents import by_rows, hour_of
from mere.lake.lake import Lake
from mere.lake.iceberg.timeline import Timeline
from mere.windows import Grain
with Lake.open({str(lake.root)!r}) as lake:
    line = Timeline({T!r}, lake.at().metadata({T!r}), "at", lake.storage)
    for since in ({first}, {snapshot(lake)}):
        found = changes(line, since, Grain.DAY)
        assert by_rows(found, line, since, Grain.DAY) is found
print("duckdb" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# against a comparison in Python

VALUES = st.fixed_dictionaries(
    {},
    optional={
        'the "name"': st.sampled_from([None, "", "a", "A", "ä"]),
        "price": st.sampled_from([None, Decimal("0.00"), Decimal("0.01"), Decimal("9999999999.99")]),
        "rate": st.sampled_from([None, 0.1, math.nan, math.inf]),
        "raw": st.sampled_from([None, b"", b"\x00"]),
        "tags": st.sampled_from([None, [], [None], ["a", "b"], ["b", "a"]]),
        "counts": st.sampled_from([None, [], [("a", 1)], [("a", None), ("b", 2)]]),
        "who": st.sampled_from([None, {"name": None, "age": None}, {"name": "ann", "age": 3}]),
    },
)
ROWS = st.lists(
    st.builds(
        lambda id_, time, values: row(id_, time, **values),
        st.integers(0, 2),
        st.none() | st.builds(at, st.integers(-2, 3), st.sampled_from([0, 5, 23])),
        VALUES,
    ),
    max_size=6,
)
EDITS = st.lists(st.tuples(st.integers(0, 9), st.none() | ROWS.filter(bool)), max_size=3)


def edited(rows: Sequence[Row], edits: Sequence[tuple[int, list[Row] | None]]) -> list[Row]:
    """The same rows in another order, some of them gone, replaced or twice."""
    found = list(reversed(rows))
    for place, others in edits:
        if found:
            place %= len(found)
            found[place : place + 1] = others or []
    return found


def windows(lake: Lake, rows: Sequence[Row], grain: Grain) -> dict[dt.datetime | None, Counter[str]]:
    schema = lake.pyiceberg().load_table(T).schema().as_arrow()
    found: dict[dt.datetime | None, Counter[str]] = defaultdict(Counter)
    for each in pa.Table.from_pylist([fitting(row, schema) for row in rows], schema).to_pylist():
        window = None if each["at"] is None else grain.floor(instant(each["at"]))
        found[window][str(each)] += 1
    return found


TIMES = [DateType(), TimestampType(), TimestamptzType()]


@pytest.mark.parametrize("type_", TIMES, ids=str)
def test_rows_are_compared_as_python_would(lake: Lake, type_: IcebergType) -> None:
    compare(lake, type_, 6)


@pytest.mark.long
@pytest.mark.parametrize("type_", TIMES, ids=str)
def test_rows_are_compared_as_python_would_for_long(lake: Lake, type_: IcebergType) -> None:
    compare(lake, type_, 100)


def compare(lake: Lake, type_: IcebergType, examples: int) -> None:
    create(lake, type_)

    @settings(max_examples=examples)
    @given(before=ROWS, edits=EDITS, grain=st.sampled_from(Grain))
    def check(before: list[Row], edits: list[tuple[int, list[Row] | None]], grain: Grain) -> None:
        after = edited(before, edits)
        first = overwrite(lake, before)
        overwrite(lake, after)
        found = compared(lake, first, grain)
        old, new = windows(lake, before, grain), windows(lake, after, grain)
        differing = {start for start in old.keys() | new.keys() if old[start] != new[start]}
        assert found.spans == Spans.of(Span(start, grain.next(start)) for start in differing if start is not None)
        assert bool(found) is bool(differing)
        assert bool(compared(lake, first, grain, column=None)) is bool(differing)
        assert found.rows_added == sum((new[start] - old[start]).total() for start in differing)
        assert found.rows_removed == sum((old[start] - new[start]).total() for start in differing)

    check()
