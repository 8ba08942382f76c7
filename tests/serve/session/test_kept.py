"""A small answer is given again as long as it cannot be another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.serve.engine.engine import Engine
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve import shop
from tests.serve.asking import declared, failure, rows


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        yield lake


@pytest.fixture
def backend(lake: Lake) -> Iterator[LakeBackend]:
    backend = LakeBackend(lake)
    yield backend
    backend.close()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each statement that DuckDB got."""
    found: list[str] = []
    lend = Engine.lend

    def counted(self: Engine, zone: str) -> Any:
        found.append(zone)
        return lend(self, zone)

    monkeypatch.setattr(Engine, "lend", counted)
    return found


KEPT = [
    "select 1",
    "select * from gold.orders where id = 2",
    "select lower(customer) || 'x', id / 2, amount::int from gold.orders order by 1",
    "select customer, count(*), sum(amount) from gold.orders group by 1 order by 1",
    "select lpad(customer, 5), id between 1 and 2, customer like 'a%' from orders order by 1, 2",
]


@pytest.mark.parametrize("sql", KEPT)
def test_a_small_answer_is_kept(backend: LakeBackend, runs: list[str], sql: str) -> None:
    first, second = backend.connect("ann", "main", {}), backend.connect("ann", "main", {})
    found = rows(first, sql)
    ran = len(runs)
    assert rows(second, sql) == rows(first, sql) == found
    assert len(runs) == ran


VARYING = [
    "select now() is not null",
    "select current_date is not null",
    "select current_time is not null",
    "select localtimestamp is not null",
    "select clock_timestamp() is not null",
    "select random() < 2",
    "select gen_random_uuid() is not null",
    "select age(timestamp '2020-01-01') is not null",
    "select count(*) from gold.orders where random() < 2",
    "select set_config('a.b', customer, false) from gold.orders",
    "select pg_cancel_backend(0)",
    "select current_user",
    "select count(*) from pg_class",
    "select count(*) from gold.seen",
    "select id, lpad('', 1000, customer) from gold.orders, generate_series(1, 99)",
    "select n from generate_series(1, 101) n",
]


@pytest.mark.parametrize("sql", VARYING)
def test_what_varies_or_is_large_or_not_of_the_lakes_tables_is_computed_again(
    backend: LakeBackend, lake: Lake, runs: list[str], sql: str
) -> None:
    shop.view(lake, "gold.seen", "SELECT id FROM orders WHERE id < 3", {}, id="long")
    session = backend.connect("ann", "main", {})
    found = rows(session, sql)
    ran = len(runs)
    assert rows(session, sql) == found
    assert len(runs) == ran + 1


def test_values_are_told_apart_by_how_they_are_spelled(backend: LakeBackend) -> None:
    session = backend.connect("ann", "main", {})
    for _ in range(2):
        assert rows(session, "select $1::float8::text", [0.0], [701]) == [("0",)]
        assert rows(session, "select $1::float8::text", [-0.0], [701]) == [("-0",)]
        assert rows(session, "select $1::text", ["1"], [25]) == [("1",)]
        assert rows(session, "select $1::text", [None], [25]) == [(None,)]
    sql = "select timestamptz '2024-07-01 12:00:00+00'::text"
    for zone, shown in [("UTC", "12:00:00+00"), ("Europe/Vienna", "14:00:00+02")] * 2:
        session.set("TimeZone", zone, False)
        assert rows(session, sql) == [(f"2024-07-01 {shown}",)]


def test_an_answer_is_that_of_the_commit_and_of_the_rights(lake: Lake) -> None:
    roles = {
        "own": {"tables": "*", "rows": {"gold.orders": "customer = current_user"}},
        "few": {"tables": "*", "max_rows": 1},
        "all": {"tables": "*"},
    }
    backend = LakeBackend(lake, declared(roles, {"ann": "own", "bob": "own", "cy": "few", "dan": "all"}))
    ann, bob, cy, dan = (backend.connect(user, "main", {}) for user in ("ann", "bob", "cy", "dan"))
    sql = "select id from gold.orders order by 1"
    for _ in range(2):
        assert rows(ann, sql) == [("1",), ("3",)]
        assert rows(bob, sql) == [("2",)]
        assert rows(dan, sql) == [("1",), ("2",), ("3",)]
        assert failure(cy, sql).sqlstate == "53400"
    orders.write(lake, "gold.orders", pa.table({"id": [4], "customer": ["bob"], "amount": [1.0]}))
    assert rows(bob, sql) == [("2",), ("4",)]
    backend.close()


def test_what_is_kept_is_bounded_and_takes_no_more_than_its_rows(backend: LakeBackend) -> None:
    session = backend.connect("ann", "main", {})
    for number in range(300):
        rows(session, "select $1::text, id from gold.orders", ["x" * 900 + str(number)], [25])
    kept = backend.answers._kept
    assert 0 < kept.weight / len(kept) < 6000
    before = len(kept)
    rows(session, "select $1::text", ["x" * 2000], [25])
    assert len(kept) == before
