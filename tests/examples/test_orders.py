"""examples/orders, compared with what plain Python makes of its CSV files."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.examples.readers import totals_by_duckdb, totals_by_pyiceberg
from tests.examples.samples import assert_all_shown

ROOT = Path(__file__).resolve().parents[2]
ORDERS = "seeds/raw/orders.csv"
VAT = Decimal("0.20")
CENT = Decimal("0.01")

LATE = (
    "201,4,2024-02-11 16:30:00,-31.90,completed\n"
    "202,4,2024-02-12 09:05:00,12.60,completed\n"
)  # fmt: skip

# Of each table a column, to compare its sum.
SUMS = {
    "raw.orders": "amount",
    "raw.cities": "population",
    "bronze.orders": "amount",
    "silver.orders": "amount",
    "gold.daily_revenue": "revenue",
    "gold.city_stats": "population",
}


class Orders(Shell):
    def __init__(self, folder: Path) -> None:
        Shell(folder.parent)("init", folder.name, "--example", "orders")
        super().__init__(folder)

    def reach_over_rest(self) -> None:
        """From here on, Spark knows no database."""
        file = self.folder / "mere.yaml"
        text = file.read_text(encoding="utf-8")
        assert "    spark:\n" in text
        file.write_text(text.replace("    spark:\n", "    spark:\n      catalog: rest\n"), encoding="utf-8")

    def rows(self, table: str, at: str = "main") -> list[tuple[Any, ...]]:
        with Lake.open(self.folder / "lake") as lake, lake.sql(f"select * from {table}", at) as result:
            return sorted(map(tuple, result.rows()), key=repr)

    def events(self, *arguments: str, exit_code: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("run", *arguments, "--json", exit_code=exit_code).stdout.splitlines()]

    def seed(self, name: str) -> list[dict[str, str]]:
        with (self.folder / "seeds" / "raw" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Orders:
    """After its first run, for tests that only look."""
    orders = Orders(tmp_path_factory.mktemp("orders") / "shop")
    orders("run")
    return orders


def silver(orders: Orders) -> list[tuple[Any, ...]]:
    cities = {city["city_id"]: city for city in orders.seed("cities")}
    unknown = {"name": "unknown", "continent": "unknown"}
    lines = {tuple(line.items()) for line in orders.seed("orders")}
    found = []
    for line in map(dict, lines):
        if line["status"].strip().lower() == "completed" and line["amount"]:
            city = cities.get(line["city_id"], unknown)
            day = datetime.fromisoformat(line["ordered_at"]).date()
            id_ = int(line["city_id"]) if line["city_id"] else None
            found.append((int(line["order_id"]), day, id_, city["name"], city["continent"], Decimal(line["amount"])))
    return sorted(found, key=repr)


def daily_revenue(orders: Orders) -> list[tuple[Any, ...]]:
    amounts: dict[date, list[Decimal]] = defaultdict(list)
    for _, day, _, _, _, amount in silver(orders):
        amounts[day].append(amount)
    nets = {day: (sum(each) / (1 + VAT)).quantize(CENT, ROUND_HALF_UP) for day, each in amounts.items()}
    return sorted(((day, len(each), sum(each), nets[day]) for day, each in amounts.items()), key=repr)


def city_stats(orders: Orders) -> list[tuple[Any, ...]]:
    by_continent: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for city in orders.seed("cities"):
        by_continent[city["continent"]].append((int(city["population"]), city["name"]))
    return sorted(
        (
            (continent, len(each), sum(population for population, _ in each), max(each)[1])
            for continent, each in by_continent.items()
        ),
        key=repr,
    )


def test_the_first_run_makes_what_the_files_say(built: Orders) -> None:
    assert len(built.rows("bronze.orders")) == len(built.seed("orders"))
    assert built.rows("silver.orders") == silver(built)
    assert built.rows("gold.daily_revenue") == daily_revenue(built)
    assert built.rows("gold.city_stats") == city_stats(built)
    assert built.rows("staging.hello") == [(1, "hello", datetime(2024, 2, 1, 9, tzinfo=UTC))]
    assert len(built.rows("staging.city_names")) == len(built.seed("cities"))


def test_the_files_have_the_dirt_that_silver_is_about(built: Orders) -> None:
    lines = built.seed("orders")
    assert {line["status"].strip().lower() for line in lines} == {"completed", "cancelled", "open"}
    assert any(line["status"] != line["status"].strip() for line in lines)
    assert any(not line["amount"] and line["status"].strip().lower() == "completed" for line in lines)
    assert any(not line["city_id"] for line in lines)
    assert len({line["order_id"] for line in lines}) < len(lines)


def test_nothing_is_wrong_with_it(built: Orders) -> None:
    checked = built.json("check")
    assert checked["findings"] == []
    audited = built.json("audit")
    assert {finding["state"] for finding in audited["findings"]} == {"ok"}
    kinds = {finding["audit"].partition("(")[0] for finding in audited["findings"]}
    assert kinds == {
        *("key", "not_null", "accepted_values", "relationships", "assert", "row_count", "max_change", "no_gaps")
    }
    assert "nothing to do: 8 models up to date" in built("plan").stdout


def test_its_unit_tests_pass(built: Orders) -> None:
    found = built.json("test")
    assert (found["passed"], found["failed"]) == (6, 0), found
    assert {each["model"] for each in found["tests"]} == {"silver.orders", "gold.daily_revenue", "gold.city_stats"}


def test_other_readers_find_the_same_rows_and_sums_without_spark(built: Orders) -> None:
    by_pyiceberg = totals_by_pyiceberg(built.folder, SUMS)
    assert totals_by_duckdb(built.folder, SUMS) == by_pyiceberg
    assert by_pyiceberg["gold.daily_revenue"] == (14, sum(amount for *_, amount in silver(built)))


def test_the_readme_shows_what_comes_out(built: Orders) -> None:
    assert_all_shown("orders", lambda sample: built(*shlex.split(sample.command)[1:]).stdout)


@pytest.mark.parametrize("way", ["jdbc", "rest"])
def test_a_bad_row_stops_on_the_branch_and_the_mended_one_builds_its_days_alone(
    tmp_path: Path, warm_jvm: None, way: str
) -> None:
    orders = Orders(tmp_path / "shop")
    if way == "rest":
        orders.reach_over_rest()
    orders("run")
    before = orders.rows("gold.daily_revenue")
    file = orders.folder / ORDERS
    file.write_text(file.read_text(encoding="utf-8") + LATE, encoding="utf-8")

    failed = orders("run", exit_code=1)
    run = orders.json("runs")[0]
    assert run["status"] == "failed"
    assert (
        "✗ silver.orders  3 audits passed, 1 failed\n    failed: assert(amount > 0): 1 of 28 rows is bad"
        in failed.stdout
    )
    assert f"all of them: mere sql --at {run['branch']}" in failed.stdout
    assert "not built because of that: gold.daily_revenue\nmain was left as it was." in failed.stderr
    assert f"mere run --resume {run['id']}" in failed.stderr
    assert orders.rows("gold.daily_revenue") == before
    assert (201, Decimal("-31.90")) in {(row[0], row[-1]) for row in orders.rows("silver.orders", run["branch"])}

    file.write_text(file.read_text(encoding="utf-8").replace("-31.90", "31.90"), encoding="utf-8")
    built = {event["model"]: event for event in orders.events("--resume", run["id"]) if event["event"] == "built"}
    assert set(built) == {"raw.orders", "bronze.orders", "silver.orders", "gold.daily_revenue"}
    assert built["silver.orders"]["reasons"] == ["2 days: 2024-02-11, 2024-02-12: late rows in bronze.orders"]
    assert (built["gold.daily_revenue"]["rows_added"], built["gold.daily_revenue"]["rows_removed"]) == (2, 2)
    assert orders.rows("silver.orders") == silver(orders)
    assert orders.rows("gold.daily_revenue") == daily_revenue(orders)
    assert set(before) - set(orders.rows("gold.daily_revenue")) == {
        row for row in before if row[0] in (date(2024, 2, 11), date(2024, 2, 12))
    }


@pytest.mark.long
def test_the_demo_tells_all_of_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "orders_demo.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "main was left as it was" in done.stdout
    assert done.stdout.count("published commit") == 2
