"""What a table is, told by its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    DecimalType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from mere.errors import TableNotFound
from mere.lake.lake import Lake
from mere.lake.log.commits import Kind, Stats
from mere.lake.query.show import history
from tests.conftest import OpenSession
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign

RICH = Schema(
    NestedField(1, "id", LongType(), required=True, doc="of the order"),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "address", StructType(NestedField(4, "city", StringType(), doc="without its postcode"))),
    NestedField(5, "tags", ListType(6, StringType(), element_required=False)),
    NestedField(7, "prices", MapType(8, StringType(), 9, DecimalType(9, 2), value_required=True)),
    identifier_field_ids=[1],
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


def test_columns_partitioning_order_and_properties_are_told_in_words(lake: Lake) -> None:
    catalog = lake.pyiceberg()
    catalog.create_namespace("gold")
    spec = PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "at_day"), PartitionField(1, 1001, BucketTransform(16), "id_bucket")
    )
    order = SortOrder(SortField(1, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))
    catalog.create_table("gold.rich", RICH, None, spec, order, {"owner": "ann", "mere.state": '{"code": "f00"}'})
    found = lake.show("gold.rich")
    assert [(c.name, c.type, c.required, c.comment) for c in found.columns] == [
        ("id", "long", True, "of the order"),
        ("at", "timestamp", False, None),
        ("address", "struct<city: string>", False, None),
        ("address.city", "string", False, "without its postcode"),
        ("tags", "list<string>", False, None),
        ("tags.element", "string", False, None),
        ("prices", "map<string, decimal(9, 2)>", False, None),
        ("prices.key", "string", True, None),
        ("prices.value", "decimal(9, 2)", True, None),
    ]
    assert found.key == ("id",)
    assert found.partitioning == ("day(at)", "bucket[16](id)")
    assert found.sort_order == ("id desc nulls last",)
    assert found.properties["owner"] == "ann"
    assert found.state == '{"code": "f00"}'
    assert "mere.state" not in found.properties
    assert (found.rows, found.size, found.data_files, found.delete_files, found.snapshots) == (0, 0, 0, 0, ())


def test_snapshots_tell_what_each_operation_added_and_removed(lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.t")
    iceberg_tables.append(lake, "gold.t", 1, 2, 3)
    iceberg_tables.delete(lake, "gold.t", "id = 1")
    found = lake.show("gold.t")
    assert (found.rows, found.data_files, found.kind) == (2, 1, Kind.TABLE)
    assert found.size
    assert [(line.operation, line.rows, line.current) for line in found.snapshots] == [
        ("overwrite", 2, True),
        ("append", 3, False),
    ]
    assert found.snapshots[1].growth == Stats(rows_added=3, files_added=1)


def test_a_table_is_shown_as_it_was_at_any_ref(lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.t")
    iceberg_tables.append(lake, "gold.t", 1)
    lake.branch("dev")
    iceberg_tables.append(lake, "gold.t", 2, 3, ref="dev")
    assert [lake.show("gold.t", at).rows for at in ("main", "dev", "dev~1", "main~1")] == [1, 3, 1, 0]
    with pytest.raises(TableNotFound, match=r"Did you mean gold\.t\?"):
        lake.show("gold.tt")


def test_the_history_of_a_table_is_its_commits_with_growth_and_schema(lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.t")
    iceberg_tables.create(lake, "gold.other")
    iceberg_tables.append(lake, "gold.t", 1, 2)
    with lake.pyiceberg().load_table("gold.t").update_schema() as update:
        update.add_column("note", StringType())
    lake.drop("gold.t", message="no longer needed")
    found = list(history(lake, "gold.t", "main"))
    assert [(each.change.verb, each.rows, each.schema_changed) for each in found] == [
        ("dropped", None, True),
        ("changed", 2, True),
        ("changed", 2, False),
        ("created", 0, True),
    ]
    assert found[0].commit.message == "no longer needed"
    assert found[2].change.stats == Stats(rows_added=2, files_added=1)


def test_the_history_is_told_where_files_are_gone(lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.t")
    first = lake.at().pointer("gold.t")
    iceberg_tables.append(lake, "gold.t", 1)
    lake.reader._known.clear()
    Path(first).unlink()
    assert [(each.rows, each.schema_changed) for each in history(lake, "gold.t", "main")] == [(1, None), (None, None)]


def test_metadata_that_says_little_is_shown_as_far_as_it_goes(lake: Lake) -> None:
    Foreign(lake).append("main", "gold.t", 3)
    found = lake.show("gold.t")
    assert (found.rows, found.columns, found.partitioning, found.location) == (3, (), (), None)


def test_a_view_has_sql_and_merge_on_read_has_delete_files(lake: Lake, spark_on: OpenSession) -> None:
    spark = spark_on(lake, "main").spark
    spark.sql("create namespace gold")
    spark.sql(
        "create table gold.t (id bigint, name string comment 'of a person')"
        " tblproperties ('write.delete.mode'='merge-on-read')"
    )
    spark.sql("insert into gold.t select /*+ coalesce(1) */ id, 'x' from range(10)")
    spark.sql("delete from gold.t where id = 4")
    spark.sql("create view gold.v as select name, count(*) as n from gold.t group by name")
    table, view = lake.show("gold.t"), lake.show("gold.v")
    assert (table.rows, table.data_files, table.delete_files) == (9, 1, 1)
    assert table.columns[1].comment == "of a person"
    assert (view.kind, view.dialect) == (Kind.VIEW, "spark")
    assert view.sql == "select name, count(*) as n from gold.t group by name"
    assert [(column.name, column.type) for column in view.columns] == [("name", "string"), ("n", "long")]
    assert (view.rows, view.snapshots) == (None, ())
