"""Metadata tables as Spark has them: the same columns, in the same order, with the same values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mere.lake.lake import Lake
from mere.lake.metadata_tables.tables import OF_TABLE
from tests.conftest import OpenSession
from tests.lake.orders import failure, rows

# Bounds are bytes there, and there is a column more for their values.
_OTHERWISE = {"lower_bounds", "upper_bounds", "readable_metrics", "partition_summaries", "key_metadata", "first_row_id"}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


def _plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return _plain(value.asDict())
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return list(map(_plain, value)) if isinstance(value, list) else value


def _sorted(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=str)


def test_they_are_the_same_as_in_spark(lake: Lake, spark_on: OpenSession) -> None:
    spark = spark_on(lake, "main").spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sql("create namespace gold")
    spark.sql(
        "create table gold.t (id bigint, day date, name string) partitioned by (months(day), bucket(4, id))"
        " tblproperties ('write.delete.mode'='merge-on-read')"
    )
    values = "id, date_add(date '2026-01-31', cast(id as int)), concat('n', id)"
    spark.sql(f"insert into gold.t select {values} from range(10)")
    spark.sql("delete from gold.t where id in (4, 5)")
    spark.sql("alter table gold.t replace partition field months(day) with days(day)")
    spark.sql("alter table gold.t rename column name to label")
    spark.sql(f"insert into gold.t select {values} from range(10, 12)")
    for kind in OF_TABLE:
        theirs = spark.sql(f"select * from main.gold.t.{kind}")
        ours = lake.at().table(f"gold.t${kind}").arrow()
        same = [name for name in theirs.columns if name not in _OTHERWISE]
        assert [name for name in ours.column_names if name not in _OTHERWISE] == same, kind
        found = [_plain(row) for row in theirs.select(*same).collect()]
        assert _sorted(list(map(_plain, ours.select(same).to_pylist(maps_as_pydicts="strict")))) == _sorted(found), kind
    assert rows(lake, 'select count(*) from gold."t$files" where content = 1')[0][0] >= 1
    for each in lake.show("gold.t").snapshots:
        theirs_then = spark.sql(f"select * from gold.t version as of {each.id} order by id").collect()
        with lake.sql(f"from gold.t for version as of {each.id} order by id") as ours_then:
            assert [column.name for column in ours_then.columns] == theirs_then[0].__fields__
            assert list(ours_then) == [tuple(row) for row in theirs_then]
    spark.sql("create view gold.v as select id from gold.t")
    assert rows(lake, "select count(*) from gold.v for version as of 'main'") == [(10,)]
    newest = lake.show("gold.t").snapshots[0].id
    assert "has no snapshot" in failure(lake, f"from gold.v for version as of {newest}")
    assert "position deletes" in str(lake.at().table("gold.t").tree())
    assert lake.at().table("gold.v").tree().root.inside[0].facts["snapshots"] == 0
