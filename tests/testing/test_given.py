"""From where the types of given rows come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from mere import Lake, entries
from mere.errors import ConfigError, RunFailed
from mere.names import TableName
from mere.project.cases import Rows
from mere.project.load import load
from mere.project.model import Model
from mere.testing.given import Columns, Schemas, arrow, columns_of

SEED, BRONZE, SILVER, GOLD = (TableName.parse(text) for text in ("raw.a", "bronze.a", "silver.a", "gold.a"))
FILES = {
    "seeds/raw/a.csv": "id,price,at\n1,2.5,2024-01-01\n",
    "seeds/raw/a.yaml": "types: {price: 'decimal(9, 2)'}\n",
    "models/bronze/a.sql": "SELECT id FROM raw.a\n",
    "models/silver/a.sql": "-- contract: {id: int, name: string}\nSELECT id, name FROM bronze.a\n",
    "models/gold/a.sql": "SELECT id FROM far.away\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def analysed(model: Model, inputs: Mapping[TableName, Columns]) -> Columns:
    """In place of Spark: it copies the first column."""
    name, kind = next(iter(next(iter(inputs.values())).items()))
    return {name: kind, f"of_{model.name.namespace}": pa.string()}


def failing(model: Model, inputs: Mapping[TableName, Columns]) -> Columns:
    raise RunFailed("the query is wrong")


def test_without_a_lake_the_project_itself_says_it(folder: Path) -> None:
    schemas = Schemas(load(folder), folder, None, analysed)
    assert schemas.of(SEED) == {"id": pa.int64(), "price": pa.decimal128(9, 2), "at": pa.date32()}
    assert schemas.of(BRONZE) == {"id": pa.int64(), "of_bronze": pa.string()}
    assert schemas.of(SILVER) == {"id": pa.int32(), "name": pa.string()}
    assert schemas.of(GOLD) == {}
    assert Schemas(load(folder), folder, None, failing).of(BRONZE) == {}


def test_a_source_has_the_types_that_it_declares(folder: Path) -> None:
    (folder / "sources").mkdir()
    declared = "columns: {id: int, at: {type: timestamp_ntz, from: When}, note: {optional: true}}"
    (folder / "sources" / "b.yaml").write_text(f"files: data/*.csv\n{declared}\n", encoding="utf-8")
    found = Schemas(load(folder), folder, None, analysed).of(TableName("bronze", "b"))
    assert found == {"id": pa.int32(), "at": pa.timestamp("us")}


def test_a_table_on_the_ref_goes_before_all_but_a_contract(folder: Path) -> None:
    with Lake.create(folder / "lake") as lake:
        catalog = lake.pyiceberg()
        for table in (SEED, SILVER, TableName("far", "away")):
            catalog.create_namespace(table.namespace)
            catalog.create_table(str(table), pa.schema([("id", pa.float64())]))
        schemas = Schemas(load(folder), folder, lake.at("main"), analysed)
        assert schemas.of(SEED) == {"id": pa.float64()}
        assert schemas.of(SILVER) == {"id": pa.int32(), "name": pa.string()}
        assert schemas.of(GOLD) == {"id": pa.float64(), "of_gold": pa.string()}


def rows(text: str) -> Rows:
    entry = entries.parse(text, Path("tests/x.yaml"))
    return Rows(entry, tuple(each.entries() for each in entry.items()))


def test_columns_that_are_not_given_are_null_and_those_not_known_are_inferred(folder: Path) -> None:
    schemas = Schemas(load(folder), folder, None, analysed)
    given = rows("[{ID: 1, new: 2024-01-01}, {}]")
    found = arrow(given, columns_of(BRONZE, [given], schemas, "tests/x.yaml:1"))
    assert found.schema == pa.schema([("id", pa.int64()), ("of_bronze", pa.string()), ("new", pa.date32())])
    assert found.num_rows == 2
    assert found.column("id").to_pylist() == [1, None]
    assert found.column("of_bronze").null_count == 2


def test_a_table_that_nobody_here_makes_gets_no_new_columns(folder: Path) -> None:
    with Lake.create(folder / "lake") as lake:
        lake.pyiceberg().create_namespace("far")
        lake.pyiceberg().create_table("far.away", pa.schema([("id", pa.int64())]))
        schemas = Schemas(load(folder), folder, lake.at("main"), analysed)
        with pytest.raises(ConfigError, match=r"^tests/x.yaml:1: far.away has no column `ids`. Did you mean id\?"):
            columns_of(TableName("far", "away"), [rows("[{ids: 1}]")], schemas, "")


def test_a_table_of_which_nothing_is_known_needs_rows(folder: Path) -> None:
    schemas = Schemas(load(folder), folder, None, analysed)
    with pytest.raises(ConfigError, match=r"^tests/x.yaml:7: which columns far.away has is not known"):
        columns_of(TableName("far", "away"), [], schemas, "tests/x.yaml:7")
    assert columns_of(TableName("far", "away"), [rows("[{id: 1}]")], schemas, "") == {"id": pa.int64()}
