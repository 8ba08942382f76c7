"""Facts about a ref are read once for each head that it has."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from mere.names import TableName
from mere.pipeline.plan.facts import HeadFacts
from mere.sources.offered import Offers
from tests.lake.iceberg_tables import append, create

NOW = datetime(2024, 6, 1, tzinfo=UTC)
ORDERS = TableName("shop", "orders")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        create(lake, "shop.orders")
        append(lake, "shop.orders", 1, 2)
        yield lake


def rows(lake: Lake, heads: HeadFacts, ref: str = "main") -> int:
    return heads.of(lake, ref, NOW).load(ORDERS, None, None).rows


def test_they_are_kept_as_long_as_the_head_stands(lake: Lake) -> None:
    heads = HeadFacts()
    before = heads.of(lake, "main", NOW)
    assert heads.of(lake, "main", NOW) is before
    append(lake, "shop.orders", 3)
    assert heads.of(lake, "main", NOW) is not before
    assert rows(lake, heads) == 3


def test_each_ref_has_its_own(lake: Lake) -> None:
    heads = HeadFacts()
    lake.branch("dev")
    append(lake, "shop.orders", 3, ref="dev")
    assert [rows(lake, heads, ref) for ref in ("main", "dev", "main")] == [2, 3, 2]


def test_another_time_and_another_look_outside_keep_what_was_read(lake: Lake, tmp_path: Path) -> None:
    heads, offers, later = HeadFacts(), Offers(tmp_path), NOW + timedelta(days=1)
    before = heads.of(lake, "main", NOW)
    points = before.points(ORDERS)
    after = heads.of(lake, "main", later, offers)
    assert (after.now, after.offers) == (later, offers)
    assert after.offers is offers
    assert after.points(ORDERS) is points
    assert (before.now, before.offers) == (NOW, None)
    assert heads.of(lake, "main", later, Offers(tmp_path)).offers is not offers


def test_threads_do_not_share_them(lake: Lake) -> None:
    heads = HeadFacts()
    mine = heads.of(lake, "main", NOW)
    with ThreadPoolExecutor(1) as pool:
        other, again = (pool.submit(heads.of, lake, "main", NOW).result() for _ in range(2))
    assert other is again
    assert other is not mine
