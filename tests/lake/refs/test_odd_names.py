"""Engines put any name into the catalog. Whatever is there is seen and dropped; only plain names are published."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from mere.errors import InvalidName, QueryError, Unguarded
from mere.lake.lake import Lake
from mere.names import TableName
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign
from tests.lake.places import LOCAL, POSTGRES, Place, place

ODD = [
    TableName("", "orders_snap__dbt_tmp"),
    TableName("", "a.b"),
    TableName("gold", ""),
    TableName("gold", "a.b"),
    TableName("a..b", "c"),
    TableName("gold", " padded "),
    TableName("gold", "two\nlines"),
    TableName("gold", "\u202eorders"),
]
PLAIN = [
    TableName("a.b.c", "deep"),
    TableName("Gold", "Orders"),
    TableName("gold", 'q"uote'),
    TableName("gold", '"quoted"'),
    TableName("gold", "it's `one`"),
    TableName("größe", "ünï🦆"),
]


@pytest.fixture(params=[LOCAL, POSTGRES])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def test_what_has_an_odd_name_is_shown_and_dropped_by_it(lake: Lake, engine: Foreign) -> None:
    for table in ODD + PLAIN:
        engine.append("main", str(table), 3)
    assert set(lake.at()) == {*ODD, *PLAIN}
    for table in ODD + PLAIN:
        assert lake.at().metadata(str(table)).rows == 3
        (made,) = lake.log(table=str(table))
        assert [change.key.table for change in made.changes] == [table]
    lake.drop(*map(str, ODD + PLAIN))
    assert list(lake.at()) == []


@pytest.mark.parametrize("table", ODD, ids=repr)
def test_a_name_that_no_query_can_spell_is_not_published(tmp_path: Path, table: TableName) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        engine = Foreign(lake)
        lake.branch("dev")
        engine.append("dev", "gold.orders")
        engine.append("dev", str(table))
        with pytest.raises(Unguarded, match="no query, model or engine can spell") as refused:
            lake.publish("dev")
        assert str(refused.value.message).startswith(f"{table} on dev")
        assert list(lake.at()) == []
        with pytest.raises(InvalidName, match="Nothing was renamed"):
            lake.rename("gold.orders", str(table), on="dev")
        typed = str(refused.value.remedy).rpartition("mere drop ")[2]
        name, _, branch = shlex.split(typed)
        lake.drop(name, on=branch)
        lake.publish("dev")
        assert list(lake.at()) == [TableName("gold", "orders")]


def test_what_is_on_main_already_can_be_renamed_or_dropped_by_publishing(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        for table in ODD[:2]:
            Foreign(lake).append("main", str(table), 3)
        lake.branch("dev")
        lake.drop(str(ODD[0]), on="dev")
        lake.rename(str(ODD[1]), "gold.found", on="dev")
        lake.publish("dev")
        assert list(lake.at()) == [TableName("gold", "found")]


def test_queries_go_on_beside_a_name_that_duckdb_cannot_have(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "gold.base")
        iceberg_tables.append(lake, "gold.base", 1, 2)
        for table in ODD + PLAIN:
            Foreign(lake).put("main", str(table), None, lake.at().pointer("gold.base"))
        with lake.sql("SELECT count(*) FROM information_schema.tables WHERE table_schema <> 'mere'") as result:
            assert list(result.rows()) == [(len(PLAIN) + 1,)]
        for table in PLAIN:
            assert lake.at().table(table).arrow().num_rows == 2
        for table in ODD + PLAIN:
            assert (lake.show(str(table)).table, lake.show(str(table)).rows) == (str(table), 2)
        root = list(lake.log())[-1].id
        assert {each.table for each in lake.diff(root, "main").tables} >= {*ODD, *PLAIN}
        with pytest.raises(QueryError, match="has an empty name"):
            lake.at().table(ODD[0]).arrow()
        before = iceberg_tables.files(lake)
        assert lake.gc().deleted == ()
        assert iceberg_tables.files(lake) == before
