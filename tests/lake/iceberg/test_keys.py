"""The key of a table: a property, and Iceberg's identifier fields where these may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType

from mere.lake.iceberg.keys import as_text, names_in
from mere.lake.iceberg.properties import KEY
from mere.lake.iceberg.schema import key_of
from mere.lake.lake import Lake

COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=True),
    NestedField(3, "maybe", LongType()),
    NestedField(4, "price", DoubleType(), required=True),
    NestedField(5, "tags", ListType(6, StringType()), required=True),
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        catalog = lake.pyiceberg("main")
        catalog.create_namespace("gold")
        catalog.create_table("gold.t", COLUMNS)
        yield lake


@pytest.mark.parametrize(
    ("key", "fields"),
    [("id", [1]), ("name, id", [1, 2]), ("maybe", []), ("id,maybe", []), ("price", []), ("tags", []), ("gone", [])],
)
def test_only_required_plain_columns_become_identifier_fields(key: str, fields: list[int], lake: Lake) -> None:
    lake.set_properties({"gold.t": {KEY: key}})
    table = lake.pyiceberg("main").load_table("gold.t")
    assert sorted(table.schema().identifier_field_ids) == fields
    assert [(each.name, each.required) for each in table.schema().fields] == [
        (each.name, each.required) for each in COLUMNS.fields
    ]
    names = [name.strip() for name in key.split(",")]
    assert key_of(lake.at("main").metadata("gold.t")) == (() if key == "gone" else tuple(names))


ODD = ["a,b", 'say "x"', '"all"', " lead", "back`tick", "umläut", "a b", ",", '"', "it's", "{x}"]


def test_a_name_may_have_any_characters() -> None:
    assert names_in(as_text(ODD)) == ODD
    for name in ODD:
        assert names_in(as_text([name])) == [name]
        assert names_in(as_text(["id", name, "b"])) == ["id", name, "b"]
    assert names_in('id , "a,b" ,c') == ["id", "a,b", "c"]
    assert as_text(["id", "Name"]) == "id,Name"


def test_a_key_that_goes_takes_them_along_and_no_schema_is_ever_changed(lake: Lake) -> None:
    lake.set_properties({"gold.t": {KEY: "id"}})
    lake.set_properties({"gold.t": {KEY: None}})
    lake.set_properties({"gold.t": {KEY: "id"}})
    table = lake.pyiceberg("main").load_table("gold.t")
    assert {id_: schema.identifier_field_ids for id_, schema in table.schemas().items()} == {0: [], 1: [1]}
    assert table.schema().schema_id == 1
    lake.set_properties({"gold.t": {KEY: None}})
    assert key_of(lake.at("main").metadata("gold.t")) == ()


def test_another_property_leaves_identifier_fields_of_others_alone(lake: Lake) -> None:
    with lake.pyiceberg("main").load_table("gold.t").update_schema() as update:
        update.set_identifier_fields("name")
    lake.set_properties({"gold.t": {"owner": "ann"}})
    assert key_of(lake.at("main").metadata("gold.t")) == ("name",)
    lake.set_properties({"gold.t": {KEY: "id"}})
    found = lake.show("gold.t")
    assert found.key == ("id",)
    assert KEY not in found.properties
