"""Results and tables as frames, in types that are calculated with and drawn without a warning."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from mere.errors import QueryError
from mere.installing import pip_install
from mere.lake.lake import Lake
from tests.lake import orders

TYPES = (
    "select date '2026-11-14' as day, 12.50::decimal(10, 2) as price, sum(i) as total, count(*) as n, "
    "timestamp '2026-11-14 10:00:00' as at, 'Bern' as city from range(10) t(i)"
)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


def test_arrow_is_exact(lake: Lake) -> None:
    found = lake.sql(TYPES).arrow()
    assert found.schema.field("day").type == pa.date32()
    assert found.column("price").to_pylist() == [Decimal("12.50")]


def test_pandas_has_numbers_and_times(lake: Lake) -> None:
    found = lake.sql(TYPES).pandas()
    kinds = {name: dtype.kind for name, dtype in found.dtypes.items()}
    assert kinds == {"day": "M", "price": "f", "total": "i", "n": "i", "at": "M", "city": "O"}
    assert found["total"][0] == 45
    assert found["day"][0].isoformat() == "2026-11-14T00:00:00"
    assert lake.sql(TYPES).df().equals(found)


def test_a_sum_that_no_whole_number_holds_is_a_float(lake: Lake) -> None:
    found = lake.sql("select 170141183460469231731687303715884105727::hugeint as most").pandas()
    assert found["most"].dtype.kind == "f"


def test_a_table_gives_the_same_frames(lake: Lake) -> None:
    table = lake.at("main").table("gold.orders")
    assert table.df(["id"]).equals(table.pandas(["id"]))
    assert list(table.pandas(columns=["id"], where="id > 1")["id"]) == [2, 3]


def test_a_library_that_is_missing_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(QueryError, match="Polars is not installed") as error:
        lake.sql("select 1").polars()
    assert error.value.remedy == f"Install it: {pip_install('polars')}"
