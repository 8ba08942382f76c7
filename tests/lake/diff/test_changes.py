"""Which windows of a table changed, against a comparison of all its rows."""

from __future__ import annotations

import datetime as dt
import secrets
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, PrimitiveType, StringType, TimestampType, TimestamptzType

from mere.engine.session import Session
from mere.errors import LakeError, UsageError
from mere.lake.diff.changes import Added, Changes, added, changes, extent, touched, weight
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.timeline import File, TimeColumn, Timeline
from mere.lake.iceberg.times import FileTimes
from mere.lake.lake import Lake
from mere.lake.refs.history import lost_snapshot
from mere.lake.storage.port import LocalStorage
from mere.lake.storage.s3 import S3Storage
from mere.names import TableName
from mere.windows import Grain, Span, Spans, instant
from tests.conftest import OpenSession
from tests.lake import iceberg_tables
from tests.lake.places import S3, place

T = "gold.t"
MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


# a table that PyIceberg writes


def at(day: int, hour: int = 0, month: int = 3) -> dt.datetime:
    return dt.datetime(2024, month, day, hour)


def create(
    lake: Lake,
    type_: PrimitiveType | None = None,
    *,
    partitioned: bool = False,
    properties: Mapping[str, str] | None = None,
) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "at", type_ or TimestampType()),
        NestedField(3, "city", StringType()),
    )
    by_time = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    catalog = lake.pyiceberg()
    catalog.create_namespace_if_not_exists("gold")
    catalog.create_table(
        T, schema, partition_spec=by_time if partitioned else PartitionSpec(), properties=dict(properties or {})
    )


def rows(lake: Lake, times: Sequence[dt.datetime | None], first: int = 0) -> pa.Table:
    schema = lake.pyiceberg().load_table(T).schema().as_arrow()
    values: list[Any] = list(times)
    if pa.types.is_date(schema.field("at").type):
        values = [each and each.date() for each in values]
    elif schema.field("at").type.tz:
        values = [each and each.replace(tzinfo=dt.UTC) for each in values]
    ids = list(range(first, first + len(values)))
    columns = {"id": ids, "at": values, "city": [f"c{id_ % 2}" for id_ in ids]}
    return pa.table({name: columns[name] for name in schema.names if name in columns}, schema)


def append(lake: Lake, *times: dt.datetime | None, first: int = 0) -> int:
    lake.pyiceberg().load_table(T).append(rows(lake, times, first))
    return snapshot(lake)


def snapshot(lake: Lake) -> int:
    current = metadata(lake).current
    assert current
    return current.id


def metadata(lake: Lake) -> Metadata:
    return lake.at().metadata(T)


def timeline(lake: Lake, column: str | None = "at") -> Timeline:
    return Timeline(T, metadata(lake), column, lake.storage)


def since(lake: Lake, old: int | None, grain: Grain | None = Grain.DAY, **options: Any) -> Changes:
    return changes(timeline(lake), old, grain, **options)


def added_since(lake: Lake, old: int) -> Added:
    found = timeline(lake)
    way = found.metadata.since(old)
    assert way is not None
    return added(found, way)


def spans(*pairs: tuple[str, str]) -> Spans:
    return Spans.of(Span(instant(start), instant(end)) for start, end in pairs)


def days(*numbers: int) -> Spans:
    return Spans.of(Span(instant(at(day)), instant(at(day)) + dt.timedelta(days=1)) for day in numbers)


# the oracle


def windows(lake: Lake, at: int | None, grain: Grain, column: str = "at") -> dict[dt.datetime, Counter[str]]:
    """All rows of a snapshot, by window."""
    found: dict[dt.datetime, Counter[str]] = defaultdict(Counter)
    if at is not None:
        for row in StaticTable.from_metadata(metadata(lake).location).scan(snapshot_id=at).to_arrow().to_pylist():
            if row[column] is not None:
                found[grain.floor(instant(row[column]))][str(sorted(row.items()))] += 1
    return found


def truly_changed(lake: Lake, old: int | None, grain: Grain, column: str = "at") -> Spans:
    current = metadata(lake).current
    before, after = (windows(lake, each, grain, column) for each in (old, current.id if current else None))
    starts = [start for start in before.keys() | after.keys() if before[start] != after[start]]
    return Spans.of(Span(start, grain.next(start)) for start in starts)


def assert_found(lake: Lake, old: int | None, grain: Grain, found: Changes, column: str = "at") -> None:
    if found.spans is not None:
        assert truly_changed(lake, old, grain, column) - found.spans.widened(grain) == Spans()


# appends, by types and partitions


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("type_", [DateType(), TimestampType(), TimestamptzType()], ids=str)
def test_appended_rows_change_their_own_windows_and_no_others(
    lake: Lake, type_: PrimitiveType, partitioned: bool
) -> None:
    create(lake, type_, partitioned=partitioned)
    first = append(lake, at(1, 5), at(2), at(1, month=4))
    append(lake, at(7, 3), at(8, 23))
    append(lake, at(1, month=11), first=100)
    for grain in Grain:
        found = since(lake, first, grain)
        assert found.spans is not None
        assert found.spans.widened(grain) == truly_changed(lake, first, grain)
        assert (found.why, found.appends_only, found.rows_added, found.rows_removed) == ("new rows", True, 3, 0)
        everything = since(lake, None, grain)
        assert everything.spans is not None
        assert everything.spans.widened(grain) == truly_changed(lake, None, grain)
    assert since(lake, snapshot(lake)) == Changes(Spans())
    assert not since(lake, snapshot(lake))


def test_times_before_1970_are_found(lake: Lake) -> None:
    create(lake, partitioned=True)
    first = append(lake, at(1))
    append(lake, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1901, 5, 6))
    assert since(lake, first).spans == spans(
        ("1901-05-06", "1901-05-06T00:00:00.000001"), ("1969-12-31T23:59:59.999999", "1970-01-01")
    )


def test_bounds_and_partitions_tell_without_a_data_file(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    append(lake, at(7, 3), at(20, 4))
    for file in Path(lake.warehouse).rglob("*.parquet"):
        file.unlink()
    assert since(lake, first).spans == spans(("2024-03-07T03:00", "2024-03-20T04:00:00.000001"))


# files that span many windows


def test_a_file_that_spans_many_windows_is_asked_for_those_it_has_rows_in(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    append(lake, at(2, 3), at(9, 4), at(9, 5), at(30))
    assert since(lake, first, Grain.DAY).spans == days(2, 9, 30)
    assert since(lake, first, Grain.MONTH).spans == spans(("2024-03-02T03:00", "2024-03-30T00:00:00.000001"))
    assert since(lake, first, None).spans == since(lake, first, Grain.MONTH).spans
    assert since(lake, first, Grain.DAY, limit=10).spans == since(lake, first, Grain.MONTH).spans


def test_row_groups_in_order_need_not_be_read(lake: Lake) -> None:
    create(lake, DateType(), properties={"write.parquet.row-group-limit": "2"})
    first = append(lake, at(1))
    append(lake, at(2), at(3), at(20), at(20))
    assert since(lake, first, limit=0).spans == days(2, 3, 20)


@pytest.mark.parametrize("type_", ["timestamp[ns]", "timestamp[ns, tz=UTC]", "timestamp[us, tz=UTC]", "timestamp[us]"])
@pytest.mark.parametrize("grain", [Grain.HOUR, Grain.DAY, Grain.WEEK])
def test_every_kind_of_stamp_is_read_into_its_window(tmp_path: Path, type_: str, grain: Grain) -> None:
    ticks = [-1, 5 * 86_400 * 10**6 + 1, 30 * 86_400 * 10**6]
    kind = pa.timestamp("ns" if "[ns" in type_ else "us", tz="UTC" if "UTC" in type_ else None)
    values = pa.array([each * (1000 if kind.unit == "ns" else 1) for each in ticks], kind)
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"at": values}), path)
    unknown = File((str(path), 1, None), 0, "PARQUET", (0, ()), 3, path.stat().st_size, None, 0)
    column = TimeColumn(1, "at", "timestamp_ns" if kind.unit == "ns" else "timestamp")
    found = FileTimes(column, grain, LocalStorage()).narrowed(unknown)
    starts = [grain.floor(dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=each)) for each in ticks]
    assert found.times == Spans.of(Span(start, grain.next(start)) for start in starts)


def test_a_column_without_bounds_is_read_and_without_a_file_everything_counts(lake: Lake) -> None:
    create(lake, properties={"write.metadata.metrics.column.at": "none"})
    first = append(lake, at(1))
    append(lake, at(2), at(9), None)
    found = since(lake, first)
    assert (found.spans, found.nulls) == (days(2, 9), None)
    assert added_since(lake, first).times is None
    unknown = since(lake, first, limit=0)
    assert unknown.spans is None
    assert "has no bounds for at" in unknown.why
    with pytest.raises(LakeError, match="does not say which times of at are in it"):
        extent(timeline(lake))


@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_without_a_time_are_counted(lake: Lake, partitioned: bool) -> None:
    create(lake, partitioned=partitioned)
    first = append(lake, at(1))
    append(lake, None, None)
    found = since(lake, first)
    assert (found.spans, found.nulls, found.rows_added) == (Spans(), 2, 2)
    assert found
    append(lake, at(2), None)
    assert since(lake, first).nulls == 3
    assert added_since(lake, first).nulls == 3
    tick = dt.timedelta(microseconds=1)
    assert extent(timeline(lake)) == Spans.of(Span(instant(at(n)), instant(at(n)) + tick) for n in (1, 2))


def test_a_time_at_the_end_of_the_calendar_counts_as_any(lake: Lake) -> None:
    create(lake, DateType())
    first = append(lake, at(1))
    append(lake, dt.datetime(9999, 12, 31))
    assert since(lake, first).spans is None


# what else a snapshot may do


def test_an_overwritten_window_is_the_one_that_changed(lake: Lake) -> None:
    create(lake, DateType(), partitioned=True)
    append(lake, at(1), at(2), at(3))
    first = append(lake, at(2), first=10)
    table = lake.pyiceberg().load_table(T)
    table.overwrite(rows(lake, [at(2)], 50), overwrite_filter="at >= '2024-03-02' and at < '2024-03-03'")
    found = since(lake, first)
    assert found.spans is not None
    assert found.spans.widened(Grain.DAY) == truly_changed(lake, first, Grain.DAY) == days(2)
    assert (found.why, found.appends_only, found.rows_added, found.rows_removed) == ("rows replaced", False, 1, 2)
    assert added_since(lake, first).times == days(2)


def test_deleted_rows_change_the_windows_of_their_files(lake: Lake) -> None:
    create(lake, DateType(), partitioned=True)
    first = append(lake, at(1), at(2), at(3))
    iceberg_tables.delete(lake, T, "at < '2024-03-02'")
    found = since(lake, first)
    assert found.spans is not None
    assert found.spans.widened(Grain.DAY) == days(1)
    assert (found.why, found.rows_removed) == ("rows deleted", 1)


def test_a_rolled_back_table_is_compared_with_what_it_was(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    second = append(lake, at(7))
    lake.pyiceberg().load_table(T).manage_snapshots().rollback_to_snapshot(first).commit()
    append(lake, at(9))
    found = since(lake, second)
    assert found.spans is not None
    assert found.spans.widened(Grain.DAY) == truly_changed(lake, second, Grain.DAY) == days(7, 9)
    assert (found.why, found.appends_only, found.rows_added, found.rows_removed) == ("rows replaced", False, 1, 1)
    assert since(lake, first).appends_only


def test_a_snapshot_that_a_revert_took_away_is_found_in_the_log(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    second = append(lake, at(7))
    lake.revert("main")
    append(lake, at(9))
    assert since(lake, second).why == f"snapshot {second} is gone"

    def lost(snapshot: int) -> Metadata | None:
        return lost_snapshot(lake.store, lake.reader, lake.resolve("main").commit, TableName.parse(T), snapshot)

    found = since(lake, second, lost=lost)
    assert found.spans is not None
    assert found.spans.widened(Grain.DAY) == days(7, 9)
    assert (found.why, found.appends_only, found.rows_added, found.rows_removed) == ("rows replaced", False, 1, 1)
    assert since(lake, first).appends_only
    assert since(lake, 4711, lost=lost).spans is None
    with lake.pyiceberg().load_table(T).update_schema() as schema:
        schema.rename_column("at", "happened")
    line = Timeline(T, metadata(lake), "happened", lake.storage)
    assert "happened was not the column that it is" in changes(line, second, lost=lost).why


def test_everything_counts_if_the_snapshot_is_gone_or_the_table_is_another(lake: Lake) -> None:
    create(lake)
    append(lake, at(1))
    assert since(lake, 4711).why == "snapshot 4711 is gone"
    assert since(lake, 4711).spans is None
    other = since(lake, snapshot(lake), uuid="another")
    assert (other.spans, other.why, other.rows_added) == (None, "it is another table of that name", 1)
    assert since(lake, snapshot(lake), uuid=metadata(lake).uuid) == Changes(Spans())


def test_without_a_time_column_it_is_told_whether_and_how_a_table_changed(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    assert not changes(timeline(lake, None), first)
    append(lake, at(2))
    found = changes(timeline(lake, None), first)
    assert (found.spans, found.why, found.appends_only, found.rows_added) == (None, "new rows", True, 1)


def test_an_empty_table_has_no_extent_and_no_weight(lake: Lake) -> None:
    create(lake)
    assert extent(timeline(lake)) == Spans()
    assert weight(timeline(lake)) == (0, 0)
    assert since(lake, None) == Changes(Spans(), nulls=0)


def test_the_weight_is_that_of_the_files_which_overlap(lake: Lake) -> None:
    create(lake, DateType(), partitioned=True)
    append(lake, at(1), at(2), at(2))
    append(lake, at(2))
    line = timeline(lake)
    assert weight(line, days(2))[0] == 3
    assert weight(line, days(5)) == (0, 0)
    rows_, size = weight(line)
    assert (rows_, size) == (4, metadata(lake).size)
    assert weight(timeline(lake, None)) == (rows_, size)


def test_the_column_goes_by_its_present_name(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    with lake.pyiceberg().load_table(T).update_schema() as schema:
        schema.rename_column("at", "happened_at")
    line = Timeline(T, metadata(lake), "Happened_At", lake.storage)
    assert changes(line, None).spans == spans(("2024-03-01", "2024-03-01T00:00:00.000001"))
    assert not changes(line, first)
    for name, message in (
        ("at", "no column at"),
        ("city", "cannot be a time column: it is a string"),
        ("a.b", "no column"),
    ):
        with pytest.raises(UsageError, match=message):
            Timeline(T, metadata(lake), name, lake.storage)


def test_a_column_of_the_same_name_that_was_dropped_is_another(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    append(lake, at(2), at(5), at(9))
    with lake.pyiceberg().load_table(T).update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("at")
    with lake.pyiceberg().load_table(T).update_schema() as schema:
        schema.add_column("at", TimestampType())
    assert since(lake, first).spans is None


def with_summary(told: Metadata, number: int, **changed: str) -> Metadata:
    snapshots = list(told.raw["snapshots"])
    summary = snapshots[number]["summary"] | {name.replace("_", "-"): value for name, value in changed.items()}
    snapshots[number] = snapshots[number] | {"summary": summary}
    return Metadata(told.location, told.raw | {"snapshots": snapshots})


def test_where_a_snapshot_does_not_say_all_it_did_the_files_are_compared(lake: Lake) -> None:
    create(lake)
    first = append(lake, at(1))
    append(lake, at(5))
    append(lake, at(7))
    told = with_summary(metadata(lake), 1, operation="replace")
    passed_over = changes(Timeline(T, told, "at", lake.storage), first).spans
    assert passed_over is not None
    assert passed_over.widened(Grain.DAY) == days(7)
    told = with_summary(told, 2, deleted_data_files="1")
    compared = changes(Timeline(T, told, "at", lake.storage), first).spans
    assert compared is not None
    assert compared.widened(Grain.DAY) == days(5, 7)


def file(path: str, *numbers: int, content: int = 0, city: str = "c0", known: bool = True, **more: Any) -> File:
    return File((path, 1, None), content, "PARQUET", (1, (city,)), 1, 1, days(*numbers) if known else None, 0, **more)


@pytest.mark.parametrize(
    ("delete", "expected"),
    [
        (file("d", known=False, content=1, first=b"b", last=b"b"), days(2)),
        (file("d", known=False, content=1, first=b"a", last=b"b"), days(1, 2)),
        (file("d", known=False, content=1), days(1, 3)),
        (file("d", known=False, content=2), days(1, 3)),
        (file("d", 3, content=2), days(3)),
        (replace(file("d", known=False, content=2), partition=(0, ())), days(1, 2, 3)),
    ],
    ids=["one path", "paths", "no paths", "by value", "by value of the time", "by value everywhere"],
)
def test_a_delete_file_counts_as_the_data_files_that_it_may_touch(delete: File, expected: Spans) -> None:
    data = [file("c", 3), file("a", 1), file("b", 2, city="c1")]
    found = touched([delete], [*data, delete], unpartitioned={0})
    assert Spans.of(span for each in found for span in each.times or ()) == expected


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "overwrite", "delete", "rollback"]),
        st.lists(st.tuples(st.integers(1, 28), st.integers(1, 4)), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25)
@given(operations=OPERATIONS, partitioned=st.booleans(), start=st.integers(0, 3))
def test_every_window_that_changed_is_found(
    operations: list[tuple[str, list[tuple[int, int]]]], partitioned: bool, start: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, Lake.create(Path(folder, "lake")) as lake:
        create(lake, DateType(), partitioned=partitioned)
        seen = [append(lake, at(1), at(15, month=2))]
        for number, (operation, places) in enumerate(operations):
            times = [at(day, month=month) for day, month in places]
            if operation == "append":
                append(lake, *times, first=100 * number)
            elif operation == "overwrite":
                low, high = min(times), max(times) + dt.timedelta(days=1)
                condition = f"at >= '{low.date()}' and at < '{high.date()}'"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # PyIceberg warns when there was nothing to overwrite
                    lake.pyiceberg().load_table(T).overwrite(rows(lake, times, 100 * number), condition)
            elif operation == "delete":
                iceberg_tables.delete(lake, T, f"at = '{times[0].date()}'")
            else:
                target = seen[number % len(seen)]
                lake.pyiceberg().load_table(T).manage_snapshots().set_current_snapshot(target).commit()
            seen.append(snapshot(lake))
        old = seen[start % len(seen)]
        for grain in (Grain.DAY, Grain.MONTH):
            found = since(lake, old, grain)
            assert found.spans is not None
            assert_found(lake, old, grain, found)
            if {operation for operation, _ in operations} == {"append"}:
                assert found.spans.widened(grain) == truly_changed(lake, old, grain)


# a table that Spark writes


@pytest.fixture
def spark(lake: Lake, spark_on: OpenSession) -> Session:
    session = spark_on(lake, "main")
    session.spark.sql("CREATE NAMESPACE gold")
    return session


def run(session: Session, *statements: str) -> None:
    for statement in statements:
        session.spark.sql(statement)


def spark_table(session: Session, partitioned: str = "days(at)", properties: str = "'format-version'='2'") -> None:
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    run(
        session,
        f"CREATE TABLE {T} (id bigint, at timestamp_ntz, city string) USING iceberg {by} TBLPROPERTIES ({properties})",
        f"INSERT INTO {T} SELECT id, timestamp_ntz'2024-03-01 00:00:00' + make_interval(0, 0, 0, CAST(id % 9 AS int)),"
        f" concat('c', id % 2) FROM range(36)",
        f"INSERT INTO {T} VALUES (100, timestamp_ntz'2024-03-04 05:00:00', 'c0')",
    )


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamp_ntz"])
def test_every_partitioning_by_time_tells_the_windows(lake: Lake, spark: Session, type_: str) -> None:
    for transform in ("years", "months", "days", "hours")[: 3 if type_ == "date" else 4]:
        run(
            spark,
            f"CREATE TABLE gold.{transform} (id int, at {type_}) USING iceberg PARTITIONED BY ({transform}(at))"
            " TBLPROPERTIES ('write.metadata.metrics.default'='none')",
            f"INSERT INTO gold.{transform} VALUES (1, {type_}'1969-12-31'), (2, {type_}'2024-02-29'), (3, null)",
        )
        line = Timeline(transform, lake.at().metadata(f"gold.{transform}"), "at", lake.storage)
        grain = Grain(transform.removesuffix("s"))
        starts = [grain.floor(instant(day)) for day in ("1969-12-31", "2024-02-29")]
        assert changes(line, None).spans == Spans.of(Span(start, grain.next(start)) for start in starts)
        assert changes(line, None).nulls == 1
        # The files are asked where a partition is more than a window.
        fine = changes(line, None, Grain.DAY).spans
        assert fine is not None
        assert {window.start for window in fine.windows(Grain.DAY)} >= {instant("1969-12-31"), instant("2024-02-29")}
        if transform != "hours":
            assert len(fine.windows(Grain.DAY)) == 2


STATEMENTS = {
    "delete": f"DELETE FROM {T} WHERE id IN (3, 4, 100)",
    "delete of a day": f"DELETE FROM {T} WHERE at >= '2024-03-05' AND at < '2024-03-06'",
    "update": f"UPDATE {T} SET city = 'x' WHERE id = 7",
    "update of the time": f"UPDATE {T} SET at = timestamp_ntz'2024-05-06 00:00:00' WHERE id = 7",
    "merge": f"MERGE INTO {T} t USING (SELECT 5 AS id UNION ALL SELECT 500) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET city = 'm'"
    " WHEN NOT MATCHED THEN INSERT (id, at, city) VALUES (500, timestamp_ntz'2024-03-20 00:00:00', 'm')",
    "overwrite": f"INSERT OVERWRITE {T} VALUES (1, timestamp_ntz'2024-03-02 00:00:00', 'c')",
}


@pytest.mark.parametrize(
    "properties",
    ["'format-version'='2'", f"'format-version'='2', {MERGE_ON_READ}", f"'format-version'='3', {MERGE_ON_READ}"],
    ids=["copy on write", "position deletes", "deletion vectors"],
)
def test_what_spark_changes_is_found(lake: Lake, spark: Session, properties: str) -> None:
    """Row by row, and after a compaction the same; partitioned by day, the windows are exact."""
    spark_table(spark, "days(at)", properties)
    for name, statement in STATEMENTS.items():
        old = snapshot(lake)
        run(spark, statement)
        found = since(lake, old)
        assert found.spans is not None, name
        true = truly_changed(lake, old, Grain.DAY)
        assert true, name
        assert found.spans.widened(Grain.DAY) == true, name
        assert not found.appends_only
        compact(spark)
        assert since(lake, old) == found, name
        again = snapshot(lake)
        run(spark, f"INSERT INTO {T} VALUES (9, timestamp_ntz'2024-03-09 00:00:00', 'late')")
        assert since(lake, again).appends_only


def compact(session: Session) -> None:
    run(session, f"CALL main.system.rewrite_data_files(table => '{T}', options => map('rewrite-all', 'true'))")


@pytest.mark.parametrize("partitioned", ["", "city", "months(at)"])
def test_deletes_of_coarse_files_are_within_what_is_found(lake: Lake, spark: Session, partitioned: str) -> None:
    spark_table(spark, partitioned, f"'format-version'='2', {MERGE_ON_READ}, 'write.delete.granularity'='partition'")
    for name, statement in STATEMENTS.items():
        old = snapshot(lake)
        run(spark, statement)
        found = since(lake, old)
        assert found.spans is not None, name
        assert_found(lake, old, Grain.DAY, found)


def test_compaction_changes_nothing(lake: Lake, spark: Session) -> None:
    spark_table(spark, "", f"'format-version'='2', {MERGE_ON_READ}")
    run(spark, STATEMENTS["delete"])
    old = snapshot(lake)
    compact(spark)
    run(
        spark,
        f"CALL main.system.rewrite_manifests('{T}')",
        f"CALL main.system.rewrite_position_delete_files(table => '{T}', options => map('rewrite-all', 'true'))",
    )
    assert snapshot(lake) != old
    assert since(lake, old) == Changes(Spans())
    run(spark, f"INSERT INTO {T} VALUES (9, timestamp_ntz'2024-03-02 00:00:00', 'late')")
    late = since(lake, old)
    assert late.spans is not None
    assert (late.spans.widened(Grain.DAY), late.appends_only) == (days(2), True)


def test_partitions_may_change_on_the_way(lake: Lake, spark: Session) -> None:
    spark_table(spark, "months(at)", f"'format-version'='2', {MERGE_ON_READ}")
    old = snapshot(lake)
    run(
        spark,
        f"ALTER TABLE {T} REPLACE PARTITION FIELD months(at) WITH days(at)",
        f"INSERT INTO {T} VALUES (9, timestamp_ntz'2024-07-02 00:00:00', 'new')",
        f"ALTER TABLE {T} DROP PARTITION FIELD days(at)",
        f"INSERT INTO {T} VALUES (9, timestamp_ntz'2024-07-05 00:00:00', 'new')",
    )
    found = since(lake, old)
    assert found.spans is not None
    assert found.spans.widened(Grain.DAY) == truly_changed(lake, old, Grain.DAY)
    run(spark, STATEMENTS["delete"])
    assert_found(lake, old, Grain.DAY, since(lake, old))
    assert since(lake, old).spans is not None


def test_a_column_behind_the_first_hundred_has_its_times_read(lake: Lake, spark: Session) -> None:
    wide = ", ".join(f"c{n} int" for n in range(101))
    run(spark, f"CREATE TABLE {T} ({wide}, at date) USING iceberg")
    for day in ("2024-03-01", "2024-03-02"):
        run(spark, f"INSERT INTO {T} (c0, at) VALUES (1, date'{day}'), (2, date'2024-03-09')")
    first = metadata(lake).snapshots[0].id
    found = since(lake, first)
    assert found.spans == days(2, 9)
    assert found.nulls is None


@pytest.mark.service
def test_on_s3_only_the_column_is_fetched(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int] = []
    read_range = S3Storage.read_range

    def counted(self: S3Storage, location: str, start: int, length: int) -> bytes:
        fetched.append(length)
        return read_range(self, location, start, length)

    monkeypatch.setattr(S3Storage, "read_range", counted)
    with place(S3, tmp_path, request).create() as lake:
        lake.pyiceberg().create_namespace("gold")
        times = [at(2), *[at(9)] * 20_000, at(30)]
        table = pa.table({"noise": [secrets.token_hex(16) for _ in times], "at": times})
        lake.pyiceberg().create_table(T, table.schema).append(table)
        assert since(lake, None).spans == days(2, 9, 30)
        assert 0 < sum(fetched) < metadata(lake).size / 4
