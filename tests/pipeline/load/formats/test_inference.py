"""A new column of text has the type that all of its values say, and later ones are held to it."""

from __future__ import annotations

import json

import pytest

from mere import Session
from mere.lake.lake import Lake
from mere.pipeline.load.formats.inference import kinds_of
from tests.conftest import OpenSession
from tests.pipeline.conftest import MakeShop
from tests.pipeline.load.test_load import put
from tests.pipeline.shop import Shop

SOURCE, TABLE = "sources/bronze/orders.yaml", "bronze.orders"

VALUES = {
    "boolean": ["true", "FALSE", " false "],
    "bigint": ["0", "-12", "999999999999999999"],
    "double": ["1", "2.50", "-0.125", "1e3", "123456789.012345"],
    "date": ["2024-02-29", "1999-12-31"],
    "timestamp": ["2024-02-29T10:00:00Z", "2024-02-29 10:00:00.5+02:00"],
    "timestamp_ntz": ["2024-02-29 10:00", "2024-02-29T10:00:00.123456"],
    "string": ["1", "a"],
    "zeros": ["007", "12"],
    "plus": ["+1", "2"],
    "too_long": ["1234567890123456789"],
    "too_fine": ["1.234567890123456"],
    "no_day": ["2023-02-29", "2024-01-01"],
    "zones": ["2024-02-29T10:00:00Z", "2024-02-29T10:00:00"],
    "days_and_times": ["2024-02-29", "2024-02-29 10:00"],
    "words": ["NaN", "1.5"],
    "huge": ["1e400"],
}


@pytest.fixture
def spark(tmp_path_factory: pytest.TempPathFactory, spark_on: OpenSession) -> Session:
    return spark_on(Lake.create(tmp_path_factory.mktemp("inference") / "lake"), "main")


def test_the_type_is_that_of_all_values_if_it_keeps_what_they_say(spark: Session) -> None:
    most = max(map(len, VALUES.values()))
    rows = [
        {name: values[at] if at < len(values) else ("" if at % 2 else None) for name, values in VALUES.items()}
        | {"nothing": ""}
        for at in range(most + 1)
    ]
    frame = spark.spark.createDataFrame(rows, ", ".join(f"{name} string" for name in rows[0]))
    found = kinds_of([frame.where("true"), frame.select("string")], list(rows[0]))
    kinds = ("boolean", "bigint", "double", "date", "timestamp", "timestamp_ntz")
    assert found == {name: name if name in kinds else None if name == "nothing" else "string" for name in rows[0]}
    assert kinds_of([], ["a"]) == {"a": None}


def types(it: Shop) -> dict[str, str]:
    schema = it.lake.at("main").table(TABLE).arrow().schema
    return {field.name: str(field.type) for field in schema if not field.name.startswith("_")}


def test_a_new_column_of_csv_is_inferred_and_held_to_its_type(shop: MakeShop) -> None:
    it = shop({SOURCE: "files: data/*.csv\ncolumns: {id: bigint, note: {optional: true}}\n"})
    put(it, "1", "1,5", header="id,note")
    it("run")
    put(it, "2", "2,6,1.5,", "3,6,2,", header="id,note,vwap,empty")
    put(it, "3", "4,6,0.25,x,007", header="id,note,vwap,empty,code")
    it("run")
    assert types(it) == {"id": "int64", "note": "string", "vwap": "double", "empty": "string", "code": "string"}
    assert it.rows(f"select avg(vwap), count(vwap) from {TABLE}") == [(1.25, 3)]
    put(it, "4", "5,6,oops", "6,6,7", header="id,note,vwap")
    it("run")
    assert it.rows(f"select id, vwap from {TABLE} where id > 4") == [(6, 7.0)]
    assert it.rows(f"select _rules, _raw from {TABLE}__quarantine") == [(["readable", "type of vwap"], "5,6,oops")]
    it("run", "--full-refresh", TABLE, exit_code=1)  # with all its values it is text now
    it("run", "--full-refresh", "--allow-breaking", TABLE)
    assert types(it)["vwap"] == "string"


def test_a_new_key_of_json_is_inferred(shop: MakeShop) -> None:
    it = shop({SOURCE: "files: data/*.jsonl\ncolumns: {id: bigint}\n"})
    folder = it.folder / "data"
    folder.mkdir()
    (folder / "1.jsonl").write_text(json.dumps({"id": 1}) + "\n")
    it("run")
    records = [{"id": 2, "price": 1.5, "on": "2024-01-31", "tags": ["a"]}, {"id": 3, "price": None, "void": None}]
    (folder / "2.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    it("run")
    assert types(it) == {"id": "int64", "price": "double", "on": "date32[day]", "tags": "string"}
