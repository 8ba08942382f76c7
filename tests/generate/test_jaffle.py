from __future__ import annotations

import csv
import hashlib
from datetime import date
from pathlib import Path

import pytest

from mere.generate.files import write
from mere.generate.jaffle import Jaffle
from tests.generate import golden

EXPORTS = ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-09"]
TABLES = ["customers", "orders", "payments"]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_there_is_an_export_of_each_month_and_the_state_of_the_last_day(shop: Path) -> None:
    names = {path.relative_to(shop).as_posix() for path in shop.rglob("*.csv")}
    assert names == {f"raw_{table}.csv" for table in TABLES} | {
        f"exports/{table}_{day}.csv" for table in TABLES for day in EXPORTS
    }


def test_the_columns_begin_with_those_of_the_well_known_shop(shop: Path) -> None:
    headers = {table: (shop / f"raw_{table}.csv").read_text().partition("\n")[0] for table in TABLES}
    assert headers == {
        "customers": "id,first_name,last_name,email,city,created_at,updated_at",
        "orders": "id,user_id,order_date,status,updated_at",
        "payments": "id,order_id,payment_method,amount,status,updated_at",
    }


def test_the_rows_of_a_seed_never_change(tmp_path: Path) -> None:
    list(write(Jaffle(customers=30, days=40, seed=7), tmp_path))
    digests = {table: hashlib.sha256((tmp_path / f"raw_{table}.csv").read_bytes()).hexdigest()[:16] for table in TABLES}
    assert digests == {"customers": "144713b15ef706dc", "orders": "d3edeed47f19a180", "payments": "49c75c9ee229c1cb"}


def test_the_last_rows_of_the_exports_are_the_state_of_the_last_day(shop: Path) -> None:
    assert golden.figures(golden.JAFFLE_EXPORTED, shop) == [{"name": table, "differ": 0} for table in TABLES]
    [now] = golden.figures(golden.JAFFLE_NOW, shop)
    exported = {
        table: {row["id"] for day in EXPORTS for row in read(shop / f"exports/{table}_{day}.csv")} for table in TABLES
    }
    assert {table: len(exported[table]) for table in TABLES} == {table: now[table] for table in TABLES}


@pytest.mark.parametrize("table", ["orders", "payments"])
def test_an_export_has_what_is_new_or_changed_in_its_month(table: str, shop: Path) -> None:
    since = "0000"
    for day in EXPORTS:
        times = [row["updated_at"] for row in read(shop / f"exports/{table}_{day}.csv")]
        assert times
        assert since < min(times)
        assert max(times) < f"{day} 24"
        since = f"{day} 24"


def test_orders_get_on_from_one_export_to_the_next(shop: Path) -> None:
    found: dict[str, list[str]] = {}
    for day in EXPORTS:
        for row in read(shop / f"exports/orders_{day}.csv"):
            found.setdefault(row["id"], []).append(row["status"])
    order = ["placed", "shipped", "completed", "return_pending", "returned"]
    several = [each for each in found.values() if len(each) > 1]
    assert len(several) > 50
    assert all([order.index(status) for status in each] == sorted({order.index(s) for s in each}) for each in several)
    assert {row["status"] for row in golden.figures(golden.JAFFLE_STATUSES, shop)} == set(order)


def test_customers_move_and_rename_themselves_and_the_export_says_when(shop: Path) -> None:
    first = {row["id"]: row for row in read(shop / f"exports/customers_{EXPORTS[0]}.csv")}
    last = {row["id"]: row for row in read(shop / f"exports/customers_{EXPORTS[-1]}.csv")}
    assert set(first) < set(last)
    changed = {key for key in first if first[key] != last[key]}
    assert changed == {key for key in first if first[key]["updated_at"] != last[key]["updated_at"]}
    assert any(first[key]["city"] != last[key]["city"] for key in changed)
    assert any(first[key]["last_name"] != last[key]["last_name"] for key in changed)
    for key in changed:
        same = ("first_name", "email", "created_at")
        assert [first[key][name] for name in same] == [last[key][name] for name in same]
        assert first[key]["updated_at"] < f"{EXPORTS[0]} 24" <= last[key]["updated_at"]
    versions = golden.figures(golden.JAFFLE_VERSIONS, shop)
    assert sum(row["versions"] - 1 for row in versions) >= len(changed)


def test_every_order_is_of_a_customer_who_had_joined_and_every_payment_of_an_order(shop: Path) -> None:
    joined = {row["id"]: date.fromisoformat(row["created_at"][:10]) for row in read(shop / "raw_customers.csv")}
    orders = read(shop / "raw_orders.csv")
    assert all(joined[row["user_id"]] < date.fromisoformat(row["order_date"]) for row in orders)
    paid = {row["order_id"] for row in read(shop / "raw_payments.csv")}
    assert paid == {row["id"] for row in orders}
    for table in TABLES:
        ids = [int(row["id"]) for row in read(shop / f"raw_{table}.csv")]
        assert ids == sorted(set(ids))


def test_a_payment_is_given_back_if_its_order_is_returned(shop: Path) -> None:
    returned = {row["id"] for row in read(shop / "raw_orders.csv") if row["status"] == "returned"}
    payments = read(shop / "raw_payments.csv")
    assert returned
    assert {row["order_id"] for row in payments if row["status"] == "refunded"} == returned
    assert all(int(row["amount"]) > 0 for row in payments)
    assert {row["payment_method"] for row in payments} == {"credit_card", "bank_transfer", "gift_card", "coupon"}


def test_some_customers_are_at_risk_and_most_are_not(shop: Path) -> None:
    at_risk = golden.figures(golden.JAFFLE_AT_RISK, shop)
    [now] = golden.figures(golden.JAFFLE_NOW, shop)
    assert 0.02 < len(at_risk) / now["customers"] < 0.3


def test_more_customers_leave_those_that_are_there_as_they_are(tmp_path: Path) -> None:
    """Beyond the size of a chunk, too."""
    for customers in (30, 10_050):
        list(write(Jaffle(customers=customers, days=30), tmp_path / str(customers)))
    few, many = ((tmp_path / name / "raw_customers.csv").read_text().splitlines() for name in ("30", "10050"))
    assert many[: len(few)] == few
    assert int(many[-1].partition(",")[0]) > 10_000
    assert sum(line.startswith("id,") for line in many) == 1
