"""FOR VERSION AS OF and FOR TIMESTAMP AS OF in `mere sql`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from tests.lake import iceberg_tables, orders
from tests.lake.orders import ONE_MORE, failure, rows, write


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with orders.create(tmp_path_factory.mktemp("lake")) as lake:
        lake.branch("dev")
        write(lake, "gold.orders", ONE_MORE)
        write(lake, "gold.orders", ONE_MORE, "dev")
        write(lake, "gold.orders", ONE_MORE, "dev")
        lake.tag("v1")
        yield lake


def test_each_snapshot_has_the_rows_that_mere_show_counts(lake: Lake) -> None:
    for each in lake.show("gold.orders").snapshots:
        assert rows(lake, f"select count(*) from gold.orders for version as of {each.id}") == [(each.rows,)]
        assert rows(lake, f"select count(*) from gold.orders for version as of '{each.id}'") == [(each.rows,)]
        assert rows(lake, f"FROM gold.orders FOR VERSION AS OF {each.id} AS o SELECT max(o.id)") == [(each.rows,)]


def test_a_version_is_any_ref(lake: Lake) -> None:
    commit = lake.resolve("dev~1").commit.id
    for ref, count in (("dev", 5), ("v1", 4), ("main~1", 3), (commit, 4), (commit[:6], 4), ("dev@0s", 5)):
        assert rows(lake, f"select count(*) from gold.orders for version as of '{ref}'") == [(count,)]


def test_a_time_is_when_the_ref_was_there(lake: Lake) -> None:
    at = lake.resolve("main~1").commit.at
    for time in (f"'{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000 + 0:03}'", "'0s'"):
        assert rows(lake, f"select count(*) >= 3 from gold.orders for timestamp as of {time}") == [(True,)]
    assert rows(lake, "select count(*) from dev.gold.orders for timestamp as of '0s'") == [(5,)]
    assert "no commit as old as" in failure(lake, "from gold.orders for timestamp as of date '2001-01-01'")


def test_versions_of_one_table_are_joined(lake: Lake) -> None:
    sql = """select n.id from gold.orders for version as of 'dev' as n
        left join gold.orders for version as of 'main~1' as o on n.id = o.id
        left join gold.orders on gold.orders.id = n.id where o.id is null"""
    assert rows(lake, sql) == [(4,)] * 2


def test_a_version_has_the_columns_that_the_table_had(lake: Lake) -> None:
    lake.branch("renamed")
    iceberg_tables.create(lake, "gold.t", "renamed")
    iceberg_tables.append(lake, "gold.t", 1, 2, ref="renamed")
    first = lake.show("gold.t", "renamed").snapshots[0].id
    table = lake.pyiceberg("renamed").load_table("gold.t")
    with table.update_schema() as update:
        update.rename_column("name", "label")
        update.delete_column("day")
    lake.pyiceberg("renamed").load_table("gold.t").append(
        iceberg_tables.rows_of(3).rename_columns(["id", "label", "day"]).select(["id", "label"])
    )
    with lake.sql(f"from gold.t for version as of {first} order by id", "renamed") as found:
        assert [each.name for each in found.columns] == ["id", "name", "day"]
        assert [row[:2] for row in found] == [(1, "a:b/c"), (2, "plain")]
    assert rows(lake, "select label from gold.t order by id", "renamed")[2] == ("a:b/c",)


def test_rows_that_were_deleted_since_are_there(lake: Lake) -> None:
    lake.branch("deleted")
    iceberg_tables.create(lake, "gold.t", "deleted")
    iceberg_tables.append(lake, "gold.t", 1, 2, ref="deleted")
    iceberg_tables.delete(lake, "gold.t", "id = 1", "deleted")
    newest, first = lake.show("gold.t", "deleted").snapshots[0].id, lake.show("gold.t", "deleted").snapshots[-1].id
    assert rows(lake, f"select id from gold.t for version as of {newest}", "deleted") == [(2,)]
    assert rows(lake, f"select id from gold.t for version as of {first} order by id", "deleted") == [(1,), (2,)]


def test_the_files_of_a_snapshot_are_listed(lake: Lake) -> None:
    first = lake.show("gold.orders").snapshots[-1].id
    for kind, count in (("files", 1), ("manifests", 1), ("partitions", 1)):
        assert rows(lake, f'select count(*) from gold."orders${kind}" for version as of {first}') == [(count,)]
    assert "not at a snapshot" in failure(lake, f'from gold."orders$snapshots" for version as of {first}')
    assert "not at a snapshot" in failure(lake, f"from mere.commits for version as of {first}")
    assert rows(lake, "select count(*) from mere.commits for version as of 'main~1'") == rows(
        lake, "select count(*) - 1 from mere.commits"
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("from gold.orders for version as of 12", "gold.orders on main has no snapshot 12"),
        ("from gold.orders for version as of 'nothing'", "no branch, tag or commit 'nothing'"),
        ("from gold.orders for timestamp as of 'soon'", "soon"),
        ("from gold.nothing for version as of 'dev'", "no table gold.nothing on dev"),
        ("from gold.nothing for version as of 12", "no table gold.nothing on main"),
        ("from gold.orders for version as of now()", "not followed by a value"),
        ("from gold.orders for version as of 1.5", "not followed by a value"),
        ("from gold.orders for timestamp as of 1700000000", "not followed by a value"),
        ("from (select 1) for version as of 12", "does not stand after the name of a table"),
        ("with c as (select 1) select * from c for version as of 12", "does not stand after the name of a table"),
        ("from gold.orders o for version as of 12", "does not stand after the name of a table"),
        ("from gold.orders for version as of 'dev' for version as of 12", "does not stand after the name of a table"),
    ],
)
def test_a_version_that_is_none_is_an_error_that_says_so(lake: Lake, sql: str, expected: str) -> None:
    assert expected in failure(lake, sql)


def test_an_error_elsewhere_points_into_the_text_as_it_was_written(lake: Lake) -> None:
    sql = "select läk from gold.orders for version as of 'dev' as o where o.id = nothing"
    told = failure(lake, sql)
    assert "as of 'dev' as o where o.id = nothing" in told
    assert told.splitlines()[1].index("nothing") == told.splitlines()[2].index("^")


def test_words_in_texts_are_no_versions(lake: Lake) -> None:
    assert rows(lake, "select 'for version as of 12' from gold.orders limit 1") == [("for version as of 12",)]


def test_an_expired_snapshot_is_gone(tmp_path: Path) -> None:
    with orders.create(tmp_path) as lake:
        write(lake, "gold.orders", ONE_MORE)
        first = lake.show("gold.orders").snapshots[-1].id
        lake.pyiceberg().load_table("gold.orders").maintenance.expire_snapshots().by_id(first).commit()
        assert f"has no snapshot {first}" in failure(lake, f"from gold.orders for version as of {first}")
        assert rows(lake, "select count(*) from gold.orders for version as of 'main~1'") == [(4,)]
        assert len(rows(lake, 'from gold."orders$history"')) >= 1
