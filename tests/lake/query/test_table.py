"""One table of a ref as Arrow, Polars, pandas or a relation of DuckDB."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from mere.errors import MetadataMissing, QueryError, TableNotFound, UsageError
from mere.lake.lake import Lake
from mere.lake.query import Limits
from tests.conftest import OpenSession
from tests.lake import orders
from tests.lake.orders import ONE_MORE, ORDERS, write


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


def test_a_table_is_read_into_arrow(lake: Lake) -> None:
    table = lake.at().table("gold.orders")
    assert table.arrow().to_pylist() == ORDERS.to_pylist()
    assert table.schema == ORDERS.schema
    assert "gold.orders on main" in repr(table)
    assert table.description.rows == 3


def test_columns_and_rows_are_chosen(lake: Lake) -> None:
    table = lake.at().table("gold.orders")
    assert table.arrow(["amount", "id"], "customer = 'ann' and id > 1").to_pylist() == [{"amount": None, "id": 3}]
    assert table.arrow(where="id = 9").num_rows == 0
    assert list(table.read(["id"], "amount is not null -- and nothing else")) == [(1,), (2,)]


def test_a_filter_is_pushed_down_to_the_scan(lake: Lake) -> None:
    relation = lake.at().table("gold.orders").duckdb(["customer"], "id > 2")
    plan = relation.explain()
    assert "Filters" in plan
    assert "FILTER" not in plan
    assert "amount" not in plan


def test_batches_come_as_they_are_taken(lake: Lake) -> None:
    batches = list(lake.at().table("gold.orders").batches(["id"], size=2))
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert sorted(id_ for batch in batches for id_ in batch.column("id").to_pylist()) == [1, 2, 3]


def test_a_table_stays_at_its_commit(lake: Lake) -> None:
    table = lake.at().table("gold.orders")
    write(lake, "gold.orders", ONE_MORE)
    assert table.arrow().num_rows == 3
    assert lake.at("main").table("gold.orders").arrow().num_rows == 4
    assert lake.at("main~1").table("gold.orders").arrow().num_rows == 3


def test_a_relation_lives_on_its_own(lake: Lake) -> None:
    relation = lake.at().table("gold.orders").duckdb()
    assert relation.aggregate("customer, count(*) as n").order("customer").fetchall() == [("ann", 2), ("bob", 1)]


def test_a_view_is_read_like_a_table(lake: Lake, spark_on: OpenSession) -> None:
    spark_on(lake, "main").spark.sql("create view gold.v as select customer, count(*) as n from gold.orders group by 1")
    found = lake.at().table("gold.v").arrow(["n"], "customer = 'ann'")
    assert found.to_pylist() == [{"n": 2}]


def test_what_is_wrong_is_said_in_a_sentence(lake: Lake) -> None:
    table = lake.at().table("gold.orders")
    with pytest.raises(TableNotFound, match=r"Did you mean gold\.orders"):
        lake.at().table("gold.order")
    with pytest.raises(QueryError, match=r"no column 'amuont'. Did you mean amount\?"):
        table.arrow(["amuont"])
    with pytest.raises(QueryError, match="amuont"):
        table.arrow(where="amuont > 1")
    with pytest.raises(QueryError, match="amuont"):
        table.duckdb(where="amuont > 1")
    with pytest.raises(UsageError, match="list of names"):
        table.arrow("id")
    with pytest.raises(UsageError, match="is empty"):
        table.arrow([])
    with pytest.raises(QueryError, match="Memory must"):
        lake.at().table("gold.orders", Limits(memory="much")).arrow()


def test_a_file_that_is_gone_is_named(lake: Lake) -> None:
    table = lake.at().table("gold.orders")
    for path in Path(lake.warehouse, "gold").glob("orders-*/data/*.parquet"):
        path.unlink()
    with pytest.raises(MetadataMissing, match=r"gold\.orders cannot be read: its file .* is gone"):
        table.arrow()


@pytest.mark.parametrize(("method", "name"), [("polars", "Polars"), ("pandas", "pandas")])
def test_a_frame_wants_its_library(lake: Lake, method: str, name: str) -> None:
    table = lake.at().table("gold.orders")
    if importlib.util.find_spec(method):
        assert getattr(table, method)(["id"]).shape == (3, 1)
    else:
        with pytest.raises(QueryError, match=f"{name} is not installed"):
            getattr(table, method)()


def test_polars_gets_arrow(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda table: ("frame", table.num_rows)))
    assert lake.at().table("gold.orders").polars(where="id > 1") == ("frame", 2)
