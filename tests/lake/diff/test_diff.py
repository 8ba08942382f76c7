"""What leads from one ref to another, told by metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from mere.errors import RefNotFound, UsageError
from mere.lake.diff.diff import Amounts, ColumnChange, Diff, Setting, TableDiff, Verb, parent_of
from mere.lake.lake import Lake
from mere.names import TableName
from tests.conftest import OpenSession
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """`gold.t` with three rows on main, and a branch dev."""
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "gold.t")
        iceberg_tables.append(lake, "gold.t", 1, 2, 3)
        lake.branch("dev")
        yield lake


def only(diff: Diff) -> TableDiff:
    (table,) = diff.tables
    return table


def rows(diff: Diff) -> tuple[int, int, int, int]:
    amounts = only(diff).amounts
    assert amounts
    return amounts[:4]


def test_equal_refs_have_no_difference(lake: Lake) -> None:
    assert not lake.diff("main", "dev")
    assert not lake.diff("dev", "dev")


def test_tables_are_created_dropped_and_changed(lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.old")
    lake.branch("next")
    lake.drop("gold.old", on="next")
    iceberg_tables.create(lake, "silver.new", "next")
    iceberg_tables.append(lake, "gold.t", 4, ref="next")
    found = lake.diff("main", "next")
    assert [(str(table.table), table.verb) for table in found.tables] == [
        ("gold.old", Verb.DROPPED),
        ("gold.t", Verb.CHANGED),
        ("silver.new", Verb.CREATED),
    ]
    assert [setting.name for setting in found.namespaces] == ["namespace silver"]


def test_the_way_back_takes_away_what_the_way_there_adds(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 4, 5, ref="dev")
    there, back = only(lake.diff("main", "dev")).amounts, only(lake.diff("dev", "main")).amounts
    assert there
    assert there[:4] == (2, 0, 1, 0)
    assert there.bytes_added > 0
    assert back == there.inverse()


def test_branches_that_came_apart_differ_by_what_each_did_since(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 4, ref="main")
    iceberg_tables.append(lake, "gold.t", 5, 6, ref="dev")
    assert rows(lake.diff("main", "dev")) == (2, 1, 1, 1)
    iceberg_tables.delete(lake, "gold.t", "id = 1", ref="dev")
    assert rows(lake.diff("main", "dev")) == (4, 4, 2, 2)


def test_another_table_of_the_same_name_is_told_apart(lake: Lake) -> None:
    lake.drop("gold.t", on="dev")
    iceberg_tables.create(lake, "gold.t", "dev")
    iceberg_tables.append(lake, "gold.t", 7, ref="dev")
    found = only(lake.diff("main", "dev"))
    assert found.replaced
    assert found.amounts
    assert found.amounts[:4] == (1, 3, 1, 1)
    assert found.columns == ()
    assert [setting.name for setting in found.settings] == ["location"]


def test_a_renamed_table_is_one_table_even_if_it_was_written_to(lake: Lake) -> None:
    Foreign(lake).rename("dev", "gold.t", "gold.u")
    found = only(lake.diff("main", "dev"))
    assert (found.verb, found.was, found.table) == (Verb.RENAMED, TableName("gold", "t"), TableName("gold", "u"))
    assert found.amounts == Amounts()
    iceberg_tables.append(lake, "gold.u", 4, ref="dev")
    found = only(lake.diff("main", "dev"))
    assert (found.verb, found.old_name) == (Verb.RENAMED, TableName("gold", "t"))
    assert rows(lake.diff("main", "dev")) == (1, 0, 1, 0)


def test_columns_are_told_apart_by_their_ids(lake: Lake) -> None:
    with lake.pyiceberg("dev").load_table("gold.t").update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("name", "title")
        update.update_column("id", doc="of the row")
        update.add_column("address", StructType(NestedField(9, "city", StringType())))
        update.delete_column("day")
    with lake.pyiceberg("dev").load_table("gold.t").update_schema() as update:
        update.add_column("day", StringType())
        update.move_first("title")
    assert only(lake.diff("main", "dev")).columns == (
        ColumnChange("dropped", "day", old="date"),
        ColumnChange("renamed", "title", "name", "title"),
        ColumnChange("comment", "id", None, "of the row"),
        ColumnChange("added", "address", new="struct<city: string>"),
        ColumnChange("added", "day", new="string"),
        ColumnChange("order", "", "id, name", "title, id"),
    )


def test_types_nullability_and_inner_fields_may_change(lake: Lake) -> None:
    schema = (NestedField(1, "n", IntegerType()), NestedField(2, "s", StructType(NestedField(3, "a", IntegerType()))))
    catalog = lake.pyiceberg("main")
    catalog.create_table("gold.deep", type(iceberg_tables.SCHEMA)(*schema))
    lake.branch("deep")
    with lake.pyiceberg("deep").load_table("gold.deep").update_schema(allow_incompatible_changes=True) as update:
        update.update_column("n", field_type=LongType(), required=True)
        update.add_column(("s", "b"), StringType())
        update.rename_column("s.a", "z")
    assert only(lake.diff("main", "deep")).columns == (
        ColumnChange("type", "n", "int", "long"),
        ColumnChange("nullability", "n", "optional", "required"),
        ColumnChange("renamed", "s.z", "s.a", "s.z"),
        ColumnChange("added", "s.b", new="string"),
    )


def test_partitioning_order_and_properties_are_compared(lake: Lake) -> None:
    table = lake.pyiceberg("dev").load_table("gold.t")
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform(), "day")
    with table.update_sort_order() as order:
        order.asc("id", IdentityTransform())
    with table.transaction() as transaction:
        transaction.set_properties(owner="ann")
    found = only(lake.diff("main", "dev"))
    assert found.settings == (
        Setting("partitioning", None, "day"),
        Setting("sort order", None, "id asc nulls last"),
    )
    assert found.properties == (Setting("owner", None, "ann"),)
    assert found.amounts == Amounts()


def test_neither_manifests_nor_data_are_read(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 4, ref="dev")
    for path in Path(lake.warehouse).rglob("*"):
        if path.suffix in (".avro", ".parquet"):
            path.unlink()
    assert rows(lake.diff("main", "dev")) == (1, 0, 1, 0)


def test_a_metadata_file_that_is_gone_is_named_and_the_rest_is_compared(lake: Lake) -> None:
    iceberg_tables.append(lake, "gold.t", 4, ref="dev")
    iceberg_tables.create(lake, "gold.u", "dev")
    Path(lake.at("dev").pointer("gold.t")).unlink()
    found = lake.diff("main", "dev")
    assert [(table.verb, bool(table.unreadable)) for table in found.tables] == [
        (Verb.CHANGED, True),
        (Verb.CREATED, False),
    ]


def test_a_ref_is_compared_with_the_branch_it_was_forked_from(lake: Lake) -> None:
    lake.branch("fix", "dev")
    assert parent_of(lake, "fix") == "dev"
    assert parent_of(lake, "dev~1") == "main"
    lake.delete("dev")
    with pytest.raises(RefNotFound, match="which is gone"):
        parent_of(lake, "fix")
    with pytest.raises(UsageError, match="not forked"):
        parent_of(lake, "main")


def test_the_sql_of_a_view_is_compared(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "main")
    session.spark.sql("create view gold.v as select id from gold.t")
    lake.branch("views")
    session.use("views")
    session.spark.sql("create or replace view gold.v as select id, name from gold.t")
    found = only(lake.diff("main", "views"))
    assert (found.verb, found.amounts) == (Verb.CHANGED, None)
    assert found.settings == (Setting("sql", "select id from gold.t", "select id, name from gold.t"),)
    assert found.columns == (ColumnChange("added", "name", new="string"),)
