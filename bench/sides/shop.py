"""A small shop as ten models of DuckDB's and Spark's common SQL, with audits; the same for mere and for dbt.

A peer's environment has no mere, so nothing of it is imported here.
"""

from __future__ import annotations

import csv
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.sides.answer import sized

ROWS = 5_000
COLUMNS = ("order_id", "customer_id", "city", "day", "amount", "status")
CITIES = ("Graz", "Linz", "Wien")
STATUSES = ("open", "paid", "sent")
# What is edited between two runs: a constant in the last model.
EDITED = "gold.summary"

MODELS = {
    "bronze.orders": "SELECT order_id, customer_id, city, CAST(day AS date) AS day, amount, status FROM raw.orders",
    "silver.orders": "SELECT *, amount * 0.2 AS vat FROM bronze.orders WHERE amount > 0",
    "silver.customers": "SELECT customer_id, min(day) AS since, count(*) AS orders FROM bronze.orders"
    " GROUP BY customer_id",
    "silver.paid": "SELECT order_id, customer_id, city, day, amount FROM silver.orders WHERE status <> 'open'",
    "gold.daily": "SELECT day, count(*) AS orders, sum(amount) AS revenue FROM silver.orders GROUP BY day",
    "gold.cities": "SELECT city, count(*) AS orders, sum(amount) AS revenue FROM silver.orders GROUP BY city",
    "gold.loyal": "SELECT customer_id, since, orders FROM silver.customers WHERE orders >= 3",
    "gold.paid_daily": "SELECT day, sum(amount) AS revenue FROM silver.paid GROUP BY day",
    "gold.customers": "SELECT c.customer_id, c.since, sum(o.amount) AS revenue FROM silver.customers AS c"
    " JOIN silver.orders AS o ON o.customer_id = c.customer_id GROUP BY c.customer_id, c.since",
    EDITED: "SELECT d.day, d.revenue, p.revenue AS paid, 0 AS edition FROM gold.daily AS d"
    " LEFT JOIN gold.paid_daily AS p ON p.day = d.day",
}
UNIQUE = {
    "bronze.orders": "order_id",
    "silver.orders": "order_id",
    "silver.customers": "customer_id",
    "silver.paid": "order_id",
    "gold.daily": "day",
    "gold.cities": "city",
    "gold.loyal": "customer_id",
    "gold.paid_daily": "day",
    "gold.customers": "customer_id",
    EDITED: "day",
}
VALUES = {"bronze.orders": ("status", STATUSES), "gold.cities": ("city", CITIES)}


def write_orders(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number in range(sized(ROWS)):
            day = f"2026-01-{number * 5 % 28 + 1:02}"
            writer.writerow((number, number * 31 % 997, CITIES[number % 3], day, number % 89 + 1, STATUSES[number % 3]))


def edited(edition: int) -> str:
    return MODELS[EDITED].replace("0 AS edition", f"{edition} AS edition")


def counts(name: str) -> str:
    return f"SELECT count(*), count(DISTINCT {UNIQUE[name]}) FROM {name}"


def timed(command: list[str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begun


def median_of(count: int, run: Callable[[int], float]) -> float:
    """As a person would see it who does it again and again; all of them are done in one run of the side."""
    return sorted(run(number) for number in range(count))[count // 2]


def models() -> Iterator[tuple[str, str, str]]:
    for name, query in MODELS.items():
        schema, _, table = name.partition(".")
        yield schema, table, query
