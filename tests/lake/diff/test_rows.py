"""The rows that differ between two states of a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from mere.errors import MetadataMissing, QueryError, TableNotFound, UsageError
from mere.lake.diff.rows import ChangedRow, Options, RowDiff, compare
from mere.lake.lake import Lake
from mere.lake.query import Limits
from mere.lake.query.tables import TableSet
from mere.names import TableName
from tests.conftest import OpenSession
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign

NAME = TableName("gold", "t")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """`gold.t` in two files on main, and a branch dev."""
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "gold.t")
        iceberg_tables.append(lake, "gold.t", 1, 2, 3)
        iceberg_tables.append(lake, "gold.t", 4, 5)
        lake.branch("dev")
        yield lake


def only(lake: Lake, *key: str, old: str = "main", new: str = "dev", **options: Any) -> RowDiff:
    (found,) = lake.diff(old, new).rows(key=key, **options)
    return found


def test_rows_are_added_and_removed_by_key(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 6, ref="dev")
    iceberg_tables.delete(lake, "gold.t", "id = 1", ref="dev")
    found = only(lake, "id")
    assert (found.added, found.removed, found.changed) == (1, 1, 0)
    assert [row["id"] for row in found.added_rows] == [6]
    assert [row["id"] for row in found.removed_rows] == [1]
    assert found.read == "touched files: 1 of 2 of the old, 2 of 3 of the new"


def test_changed_rows_tell_their_columns(lake: Lake) -> None:
    changed = iceberg_tables.rows_of(2).set_column(1, "name", pa.array(["new"]))
    lake.pyiceberg("dev").load_table("gold.t").overwrite(changed, "id = 2")
    found = only(lake, "id")
    assert (found.added, found.removed, found.changed, found.by_column) == (0, 0, 1, {"name": 1})
    assert found.changed_rows == (ChangedRow({"id": 2}, {"name": "plain"}, {"name": "new"}),)


def test_a_key_may_be_all_columns(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 6, ref="dev")
    found = only(lake, "id", "name", "day")
    assert (found.added, found.removed, found.changed, found.by_column) == (1, 0, 0, {})


def test_rewritten_rows_are_no_difference(lake: Lake) -> None:
    iceberg_tables.overwrite(lake, "gold.t", 5, 4, 3, 2, 1, ref="dev")
    assert lake.diff("main", "dev")
    assert not only(lake, "id")
    assert not only(lake)


def test_without_a_key_rows_are_counted(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 1, 1, 7, ref="dev")
    iceberg_tables.delete(lake, "gold.t", "id = 4", ref="dev")
    found = only(lake)
    assert (found.added, found.removed, found.changed, found.key) == (3, 1, 0, ())
    assert [row["id"] for row in found.added_rows] == [1, 7]


def test_the_key_of_the_table_is_taken_if_it_has_one(lake: Lake) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "n", LongType()), identifier_field_ids=[1]
    )
    table = lake.pyiceberg().create_table("gold.keyed", schema)
    table.append(pa.table({"id": [1], "n": [1]}, schema.as_arrow()))
    lake.branch("next")
    lake.pyiceberg("next").load_table("gold.keyed").overwrite(pa.table({"id": [1], "n": [2]}, schema.as_arrow()))
    (found,) = lake.diff("main", "next").rows()
    assert (found.key, found.changed) == (("id",), 1)
    (found,) = lake.diff("main", "next").rows(key=[])
    assert (found.key, found.added, found.removed) == ((), 1, 1)


def test_a_key_that_is_not_unique_is_an_error_that_shows_some(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 6, 6, 7, ref="dev")
    with pytest.raises(QueryError, match="cannot be matched by id, which is not unique") as caught:
        only(lake, "id")
    assert "on dev: 6: 2 rows" in caught.value.message
    with pytest.raises(QueryError, match=r"on main~1: 'a:b/c': 2 rows"):
        only(lake, "name", old="main~2", new="main~1")


def test_duplicates_are_found_whether_they_match_or_not(lake: Lake) -> None:
    iceberg_tables.overwrite(lake, "gold.t", 1, 1, 2, 3, 4, 5, ref="dev")
    for old, new in (("main", "dev"), ("dev", "main")):
        with pytest.raises(QueryError, match="not unique"):
            only(lake, "id", old=old, new=new)


def test_a_wrong_key_or_table_is_told(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 6, ref="dev")
    iceberg_tables.create(lake, "gold.new", "dev")
    with pytest.raises(UsageError, match=r"no column 'nmae' on both sides to be a key. Did you mean name\?"):
        only(lake, "nmae")
    with pytest.raises(TableNotFound, match=r"gold\.new is not on main"):
        only(lake, tables=["gold.new"])
    with pytest.raises(TableNotFound, match=r"There is no table gold\.tt on dev"):
        only(lake, tables=["gold.tt"])


def test_a_table_that_is_the_same_is_not_read(lake: Lake) -> None:
    for path in Path(lake.warehouse).rglob("*.parquet"):
        path.unlink()
    found = only(lake, tables=["gold.t"])
    assert not found
    assert found.read.startswith("nothing")


def test_only_touched_files_are_read(lake: Lake) -> None:
    before = set(Path(lake.warehouse).rglob("*.parquet"))
    iceberg_tables.append(lake, "gold.t", 6, ref="dev")
    for path in before:
        path.unlink()
    assert only(lake, "id").added == 1
    iceberg_tables.append(lake, "gold.t", 7, ref="dev")
    for path in set(Path(lake.warehouse).rglob("*.parquet")):
        path.unlink()
    with pytest.raises(MetadataMissing, match=r"gold\.t cannot be read: its file"):
        only(lake, "id")


def test_nothing_is_left_behind(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    iceberg_tables.append(lake, "gold.t", 6, ref="dev")
    files = iceberg_tables.files(lake)
    only(lake, "id")
    assert iceberg_tables.files(lake) == files
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]


def test_another_table_of_the_same_name_is_compared_by_name(lake: Lake) -> None:
    lake.drop("gold.t", on="dev")
    catalog = lake.pyiceberg("dev")
    rows = pa.table({"name": ["a:b/c", "plain"], "extra": [1, 2], "id": ["1", "9"]})
    catalog.create_table("gold.t", rows.schema).append(rows)
    found = only(lake, "id")
    assert (found.added, found.removed, found.changed) == (1, 4, 0)
    assert (found.only_old, found.only_new) == (("day",), ("extra",))
    assert found.read == "all files: they are two tables of one name"


def test_a_renamed_table_is_compared_with_what_it_was(lake: Lake) -> None:
    Foreign(lake).rename("dev", "gold.t", "gold.u")
    iceberg_tables.append(lake, "gold.u", 6, ref="dev")
    found = only(lake, "id")
    assert (found.table, found.added, found.removed) == (TableName("gold", "u"), 1, 0)


def test_limits_bound_samples_and_memory(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", *range(10, 40), ref="dev")
    found = only(lake, "id", samples=2, limits=Limits(memory="200MB", threads=1))
    assert (found.added, [row["id"] for row in found.added_rows]) == (30, [10, 11])
    assert only(lake, "id", samples=0).added_rows == ()


def test_an_emptied_table_has_lost_its_rows(lake: Lake) -> None:
    iceberg_tables.delete(lake, "gold.t", "id > 0", ref="dev")
    for key in (["id"], []):
        found = only(lake, *key)
        assert (found.added, found.removed) == (0, 5)
    assert only(lake, "id", old="dev", new="main").added == 5
    assert only(lake, "id", old="main~2", new="dev").added == 0


def test_merge_on_read_deletes_are_applied_and_the_rest_is_left_out(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "main")
    sql = session.spark.sql
    modes = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
    sql(f"create table gold.m (id bigint, v string) tblproperties ({modes})")
    for start in (0, 100, 200):
        sql(f"insert into gold.m select /*+ coalesce(1) */ id, 'x' from range({start}, {start} + 100)")
    sql("delete from gold.m where id = 5")
    lake.branch("next")
    session.use("next")
    sql("update gold.m set v = 'y' where id = 110")
    sql("delete from gold.m where id = 111")
    (found,) = lake.diff("main", "next").rows(key=["id"], tables=["gold.m"])
    assert (found.added, found.removed, found.changed, found.by_column) == (0, 1, 1, {"v": 1})
    assert found.read == "touched files: 1 of 3 of the old, 2 of 4 of the new"
    (whole,) = lake.diff("main", "next").rows(key=[], tables=["gold.m"])
    assert (whole.added, whole.removed) == (1, 2)
    (back,) = lake.diff("next", "main").rows(key=["id"], tables=["gold.m"])
    assert (back.added, back.removed, back.changed) == (1, 0, 1)
    # The same file lost one row more.
    sql("delete from gold.m where id = 6")
    (found,) = lake.diff("main", "next").rows(key=["id"], tables=["gold.m"])
    assert (found.removed, [row["id"] for row in found.removed_rows]) == (2, [6, 111])


def test_a_delete_file_may_be_for_several_data_files(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "main")
    sql = session.spark.sql
    sql(
        "create table gold.m (id bigint) tblproperties"
        " ('write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition')"
    )
    for start in (0, 100, 200):
        sql(f"insert into gold.m select /*+ coalesce(1) */ id from range({start}, {start} + 100)")
    lake.branch("next")
    session.use("next")
    sql("delete from gold.m where id in (1, 101, 102)")
    lake.branch("later", "next")
    session.use("later")
    sql("delete from gold.m where id in (2, 201)")
    for old, new, removed in (("main", "next", [1, 101, 102]), ("next", "later", [2, 201])):
        (found,) = lake.diff(old, new).rows(key=["id"], tables=["gold.m"])
        assert (found.added, [row["id"] for row in found.removed_rows]) == (0, removed)
        (found,) = lake.diff(new, old).rows(key=[], tables=["gold.m"])
        assert ([row["id"] for row in found.added_rows], found.removed) == (removed, 0)


def test_deletion_vectors_and_views_are_compared(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "main")
    sql = session.spark.sql
    sql(
        "create table gold.m (id bigint, v string)"
        " tblproperties ('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    for start in (0, 100):
        sql(f"insert into gold.m select /*+ coalesce(1) */ id, 'x' from range({start}, {start} + 100)")
    sql("create view gold.v as select v, count(*) as n from gold.m group by v")
    lake.branch("next")
    session.use("next")
    sql("delete from gold.m where id in (3, 103)")
    (found,) = lake.diff("main", "next").rows(key=["id"], tables=["gold.m"])
    assert (found.added, found.removed, found.changed) == (0, 2, 0)
    (view,) = lake.diff("main", "next").rows(key=["v"], tables=["gold.v"])
    assert view.changed_rows == (ChangedRow({"v": "x"}, {"n": 200}, {"n": 198}),)
    assert view.read == "all files: a view is read whole"


# Against a diff by hand, on generated tables

# The ids are those that PyIceberg gives to a new table: outer fields first.
START = Schema(
    NestedField(1, "k", LongType()),
    NestedField(2, "n", IntegerType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "f", DoubleType()),
    NestedField(5, "s", StructType(NestedField(9, "a", IntegerType()), NestedField(10, "b", StringType()))),
    NestedField(6, "tags", ListType(11, StringType(), element_required=False)),
    NestedField(7, "m", MapType(12, StringType(), 13, IntegerType(), value_required=False)),
    NestedField(8, "deep", ListType(14, StructType(NestedField(15, "x", IntegerType())), element_required=False)),
)
WORDS = st.sampled_from(["", "a", "b"])
SMALL = st.integers(0, 2)
VALUES = {
    2: st.none() | SMALL,
    3: st.none() | st.sampled_from([Decimal("0.00"), Decimal("1.10"), Decimal("-1.10")]),
    4: st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    5: st.none() | st.tuples(st.none() | SMALL, st.none() | WORDS),
    6: st.none() | st.lists(st.none() | WORDS, max_size=2),
    7: st.none() | st.dictionaries(WORDS, st.none() | SMALL, max_size=2),
    8: st.none() | st.lists(st.none() | SMALL, max_size=2),
}
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 5), st.fixed_dictionaries(VALUES)), max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("delete"), st.lists(st.none() | st.integers(0, 5), min_size=1, max_size=3)),
    st.tuples(st.just("alter"), st.sampled_from(["add", "rename", "drop", "widen", "inner", "inner rename", "readd"])),
)


def as_value(type_: IcebergType, id_: int, drawn: Any) -> Any:
    """What was drawn for a column of the first schema, in the shape that the column has now."""
    if drawn is None:
        return None
    if isinstance(type_, StructType):
        parts = dict(zip((9, 10), drawn, strict=True)) if id_ == 5 else {15: drawn}
        return {field.name: parts.get(field.field_id) for field in type_.fields}
    if isinstance(type_, ListType):
        return [as_value(type_.element_type, 14, each) for each in drawn]
    return list(drawn.items()) if isinstance(type_, MapType) else drawn


def append(table: Table, rows: list[tuple[int | None, dict[int, Any]]]) -> None:
    fields = table.schema().fields
    drawn = [{1: key, **values} for key, values in rows]
    made = [
        {each.name: as_value(each.field_type, each.field_id, row.get(each.field_id)) for each in fields}
        for row in drawn
    ]
    table.append(pa.Table.from_pylist(made, table.schema().as_arrow()))


def delete(table: Table, keys: list[int | None]) -> None:
    table.refresh()
    numbers = ", ".join(str(key) for key in keys if key is not None)
    conditions = [f"k in ({numbers})"] * bool(numbers) + ["k is null"] * (None in keys)
    if table.current_snapshot() is not None:
        table.delete(" or ".join(conditions))


def alter(table: Table, what: str) -> None:
    names = {field.field_id: field.name for field in table.schema().fields}
    inner = set(table.schema().column_names)
    with table.update_schema(allow_incompatible_changes=True) as update:
        if what == "add" and "more" not in inner:
            update.add_column("more", StringType())
        elif what == "rename" and 4 in names:
            update.rename_column(names[4], f"{names[4]}_")
        elif what == "drop" and 6 in names:
            update.delete_column(names[6])
        elif what == "readd" and 6 not in names and "tags" not in inner:
            update.add_column("tags", ListType(99, StringType(), element_required=False))
        elif what == "widen" and 2 in names:
            update.update_column(names[2], field_type=LongType())
        elif what == "inner" and "s.c" not in inner:
            update.add_column(("s", "c"), StringType())
        elif what == "inner rename" and "s.b" in inner:
            update.rename_column("s.b", "z")


def step(table: Table, kind: str, what: Any, unique: bool) -> None:
    if kind == "alter":
        alter(table, what)
    elif kind == "delete":
        delete(table, what)
    elif what:
        rows = list(dict(what).items()) if unique else what
        if unique:
            delete(table, [key for key, _ in rows])
        append(table, rows)


def plain(value: Any, old: IcebergType, new: IcebergType, mine: IcebergType) -> Any:
    """A value by what both types have in common, as something that Python compares and hashes."""
    if value is None:
        return None
    if isinstance(old, StructType) and isinstance(new, StructType) and isinstance(mine, StructType):
        common = [(a, b) for b in new.fields for a in old.fields if a.field_id == b.field_id]
        names = {field.field_id: field for field in mine.fields}
        return tuple(
            plain(value[names[b.field_id].name], a.field_type, b.field_type, names[b.field_id].field_type)
            for a, b in common
        )
    if isinstance(old, ListType) and isinstance(new, ListType) and isinstance(mine, ListType):
        return tuple(plain(each, old.element_type, new.element_type, mine.element_type) for each in value)
    if isinstance(old, MapType):
        return frozenset(value)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def by_hand(before: TableSet, after: TableSet) -> tuple[list[Any], list[Any], list[str]]:
    """The rows of both sides by the columns that both have, read by PyIceberg, and the columns' new names."""
    tables = [StaticTable.from_metadata(side.pointer(NAME)) for side in (before, after)]
    old, new = (table.schema().as_struct() for table in tables)
    read = [table.scan().to_arrow().to_pylist() for table in tables]
    rows = [[plain(row, old, new, mine) for row in each] for each, mine in zip(read, (old, new), strict=True)]
    ids = {field.field_id for field in old.fields}
    return rows[0], rows[1], [field.name for field in new.fields if field.field_id in ids]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("rowdiff") / "lake") as lake:
        lake.pyiceberg().create_namespace("gold")
        yield lake


@pytest.mark.filterwarnings("ignore")  # PyIceberg warns of deletes that match nothing
@settings(max_examples=25)
@given(
    unique=st.booleans(),
    first=st.lists(STEPS, min_size=1, max_size=3),
    second=st.lists(STEPS, min_size=1, max_size=4),
)
def test_it_finds_what_a_diff_by_hand_finds(workshop: Lake, unique: bool, first: list[Any], second: list[Any]) -> None:
    if NAME in workshop.at():
        workshop.drop(str(NAME))
    table = workshop.pyiceberg().create_table(str(NAME), START)
    for kind, what in first:
        step(table, kind, what, unique)
    before = workshop.at()
    for kind, what in second:
        step(table, kind, what, unique)
    after = workshop.at()
    for sides in ((before, after), (after, before)):
        check_by_row(*sides)
        if unique:
            check_by_key(*sides)


def check_by_row(before: TableSet, after: TableSet) -> None:
    old, new, _ = by_hand(before, after)
    found = compare(before, after, NAME, NAME, Options(key=[]))
    assert found.added == (Counter(new) - Counter(old)).total()
    assert found.removed == (Counter(old) - Counter(new)).total()


def check_by_key(before: TableSet, after: TableSet) -> None:
    old_rows, new_rows, names = by_hand(before, after)
    old, new = ({row[names.index("k")]: row for row in rows} for rows in (old_rows, new_rows))
    found = compare(before, after, NAME, NAME, Options(key=["k"], samples=100))
    assert found.added == len(new.keys() - old.keys())
    assert found.removed == len(old.keys() - new.keys())
    changed = {key: (old[key], new[key]) for key in old.keys() & new.keys() if old[key] != new[key]}
    assert found.changed == len(changed)
    assert {row.key["k"] for row in found.changed_rows} == changed.keys()
    counts = Counter(name for a, b in changed.values() for name, x, y in zip(names, a, b, strict=True) if x != y)
    assert found.by_column == counts
    assert {row["k"] for row in found.added_rows} == new.keys() - old.keys()
