"""The example jaffle, on two days: what is in the lake, against what DuckDB makes of its CSV files by itself."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.examples.readers import totals_by_duckdb, totals_by_pyiceberg
from tests.examples.samples import Sample, assert_all_shown

README = Path(__file__).resolve().parents[2] / "examples" / "jaffle" / "README.md"

# The rules of the README once more, in other words than the models', over the files as they are.
GOLDEN = """
CREATE TABLE customers AS
SELECT id::bigint AS c, trim(first_name) AS first_name, trim(last_name) AS last_name FROM raw_customers;

CREATE TABLE known AS
SELECT id::bigint AS o, user_id::bigint AS c, order_date::date AS d, lower(trim(status)) AS s FROM raw_orders
WHERE regexp_full_match(lower(trim(status)), 'placed|shipped|completed|return(ed|_pending)');

CREATE TABLE payments AS
SELECT id::bigint AS p, order_id::bigint AS o, lower(trim(payment_method)) AS m, (amount || 'e-2')::decimal(12, 2) AS a
FROM raw_payments
WHERE amount::bigint >= 0 AND order_id::bigint IN (SELECT o FROM known)
  AND regexp_full_match(lower(trim(payment_method)), 'credit_card|bank_transfer|gift_card|coupon');

CREATE TABLE orders AS
SELECT o, c, d, s, s != 'returned' AS bought,
  coalesce((SELECT sum(a) FROM payments WHERE payments.o = known.o), 0)::decimal(12, 2) AS amount,
  coalesce((SELECT sum(a) FROM payments WHERE payments.o = known.o AND m != 'coupon' AND bought), 0)::decimal(12, 2)
    AS revenue
FROM known;

CREATE TABLE segments AS
SELECT c, first_name, last_name, ['prospect', 'buyer', 'regular'][1 + least(2, n)] AS segment, n
FROM (FROM customers SELECT *, (SELECT count(*) FROM orders WHERE orders.c = customers.c AND bought) AS n);

CREATE TABLE silence AS
SELECT c, max(d) AS latest, median(gap) AS usual, as_of, as_of - latest AS silent
FROM (SELECT c, d, d - lag(d) OVER (PARTITION BY c ORDER BY d) AS gap FROM orders WHERE bought GROUP BY c, d)
CROSS JOIN (SELECT max(d) AS as_of FROM orders)
GROUP BY c, as_of HAVING count(*) > 2 AND silent / 2 > usual AND silent > 13;
"""

# Of each table what it should hold, and the columns of it that this is compared with.
EXPECTED = {
    "staging.stg_customers": "SELECT c AS customer_id, first_name, last_name FROM customers",
    "staging.stg_orders": "SELECT o AS order_id, c AS customer_id, d AS order_date, s AS status FROM known",
    "staging.stg_payments": "SELECT p AS payment_id, o AS order_id, m AS payment_method, a AS amount FROM payments",
    "staging.stg_orders__quarantine": """
        SELECT id::bigint AS order_id, user_id::bigint AS customer_id FROM raw_orders
        WHERE id::bigint NOT IN (SELECT o FROM known)""",
    "staging.stg_payments__quarantine": """
        SELECT id::bigint AS payment_id, order_id::bigint AS order_id, (amount || 'e-2')::decimal(12, 2) AS amount
        FROM raw_payments WHERE id::bigint NOT IN (SELECT p FROM payments)""",
    "marts.orders": """
        SELECT o AS order_id, c AS customer_id, d AS order_date, s AS status, bought AS is_purchase,
          coalesce((SELECT sum(a) FROM payments x WHERE x.o = q.o AND m = 'credit_card'), 0) AS credit_card_amount,
          coalesce((SELECT sum(a) FROM payments x WHERE x.o = q.o AND m = 'coupon'), 0) AS coupon_amount,
          coalesce((SELECT sum(a) FROM payments x WHERE x.o = q.o AND m = 'bank_transfer'), 0) AS bank_transfer_amount,
          coalesce((SELECT sum(a) FROM payments x WHERE x.o = q.o AND m = 'gift_card'), 0) AS gift_card_amount,
          amount, revenue
        FROM orders AS q""",
    "marts.customers": """
        SELECT c AS customer_id, first_name, last_name, segment,
          (SELECT min(d) FROM orders WHERE orders.c = segments.c) AS first_order,
          (SELECT max(d) FROM orders WHERE orders.c = segments.c) AS most_recent_order,
          (SELECT count(*) FROM orders WHERE orders.c = segments.c) AS number_of_orders, n AS purchases,
          coalesce((SELECT sum(a) FROM payments JOIN orders USING (o) WHERE orders.c = segments.c), 0)
            AS customer_lifetime_value,
          (SELECT min(d) FROM orders WHERE orders.c = segments.c AND bought) AS first_purchase,
          (SELECT max(d) FROM orders WHERE orders.c = segments.c AND bought) AS last_purchase,
          coalesce((SELECT sum(revenue) FROM orders WHERE orders.c = segments.c), 0) AS revenue
        FROM segments""",
    "ddi.at_risk_customers": """
        SELECT c AS customer_id, first_name, last_name, latest AS last_purchase, usual AS usual_gap,
          silent AS silent_days, as_of, (SELECT sum(revenue) FROM orders WHERE orders.c = silence.c) AS revenue
        FROM silence JOIN customers USING (c)""",
    "ddi.rolling_30_day_orders": """
        SELECT days.d AS order_date, count(*) FILTER (orders.d = days.d) AS orders,
          sum(revenue) FILTER (orders.d = days.d) AS revenue,
          count(*) AS orders_30_days, sum(revenue) AS revenue_30_days
        FROM (SELECT DISTINCT d FROM orders) AS days JOIN orders ON days.d - orders.d BETWEEN 0 AND 29
        GROUP BY days.d""",
}
# A column of each table, to compare its sum.
SUMS = {
    "seeds.raw_customers": "id",
    "seeds.raw_orders": "user_id",
    "seeds.raw_payments": "amount",
    "staging.stg_customers": "customer_id",
    "staging.stg_orders": "customer_id",
    "staging.stg_payments": "amount",
    "staging.stg_orders__quarantine": "customer_id",
    "staging.stg_payments__quarantine": "amount",
    "marts.orders": "revenue",
    "marts.customers": "revenue",
    "marts.customer_history": "customer_id",
    "ddi.at_risk_customers": "revenue",
    "ddi.rolling_30_day_orders": "revenue_30_days",
}


class Golden:
    """What the CSV files of a day say."""

    def __init__(self, seeds: Path) -> None:
        self.database = duckdb.connect()
        for file in seeds.glob("*.csv"):
            self.database.execute(f"CREATE TABLE {file.stem} AS FROM read_csv('{file}', all_varchar=true)")
        self.database.execute(GOLDEN)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(self.database.execute(query).fetchall(), key=lambda row: row[0])

    def columns(self, query: str) -> list[str]:
        return [column[0] for column in self.database.execute(query).description]

    def versions(self) -> set[tuple[Any, ...]]:
        return set(self.rows("SELECT c, first_name, last_name, segment FROM segments"))

    def total(self, table: str) -> tuple[int, Decimal]:
        schema, _, name = table.partition(".")
        rows = name if schema == "seeds" else f"({EXPECTED[table]})"
        ((count, total),) = self.rows(f"SELECT count(*), sum({SUMS[table]}::decimal(18, 2))::varchar FROM {rows}")
        return count, Decimal(total)


class Jaffle(Shell):
    """The example after its first day, which is `main~1`, and its second."""

    def __init__(self, folder: Path) -> None:
        Shell(folder.parent)("init", folder.name, "--example", "jaffle")
        super().__init__(folder)
        shutil.copytree(folder / "seeds", folder.parent / "first")
        self.days = {"main~1": folder.parent / "first", "main": folder / "seeds"}
        self("run")
        subprocess.run(["bash", "-e"], cwd=folder, check=True, input=second_day(), text=True)
        self.second = [json.loads(line) for line in self("run", "--json").stdout.splitlines()]

    @cached_property
    def golden(self) -> dict[str, Golden]:
        return {ref: Golden(seeds) for ref, seeds in self.days.items()}

    def rows(self, query: str, at: str = "main") -> list[tuple[Any, ...]]:
        with Lake.open(self.folder / "lake") as lake, lake.sql(query, at) as result:
            return sorted(map(tuple, result.rows()), key=lambda row: row[0])

    def built(self) -> dict[str, tuple[int, int]]:
        """The rows that the second run added and removed, by model."""
        return {
            each["model"]: (each["rows_added"], each["rows_removed"])
            for each in self.second
            if each["event"] == "built"
        }


def second_day() -> str:
    """What the README tells to type before the second run."""
    block = re.search(r"## The second day.*?```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block
    commands, run = block[1].rsplit("\n", 2)[:2]
    assert run.startswith("mere run")
    return commands


@pytest.fixture(scope="module")
def jaffle(tmp_path_factory: pytest.TempPathFactory, warm_jvm: None) -> Jaffle:
    return Jaffle(tmp_path_factory.mktemp("jaffle") / "shop")


@pytest.mark.parametrize("day", ["main~1", "main"])
@pytest.mark.parametrize("table", EXPECTED)
def test_each_table_holds_what_the_files_of_the_day_say(jaffle: Jaffle, day: str, table: str) -> None:
    golden, query = jaffle.golden[day], EXPECTED[table]
    expected = golden.rows(query)
    assert expected
    assert jaffle.rows(f"SELECT {', '.join(golden.columns(query))} FROM {table}", day) == expected


def test_the_history_has_a_version_for_each_name_and_segment_that_a_customer_had(jaffle: Jaffle) -> None:
    first, second = (jaffle.golden[day].versions() for day in ("main~1", "main"))
    query = "SELECT customer_id, first_name, last_name, segment, is_current FROM marts.customer_history"
    assert set(jaffle.rows(query, "main~1")) == {(*version, True) for version in first}
    found = jaffle.rows(query)
    assert len(found) == len(first | second)
    assert set(found) == {(*version, version in second) for version in first | second}
    changed = {version[0] for version in first ^ second}
    assert len(changed) == 4  # another name, another segment, one who came, one who went
    closed = "SELECT customer_id, valid_to FROM marts.customer_history WHERE NOT is_current"
    opened = "SELECT customer_id, valid_from FROM marts.customer_history WHERE is_current"
    after = dict(jaffle.rows(opened))
    assert all(after[key] == end for key, end in jaffle.rows(closed) if key in after)


def test_the_second_run_writes_only_what_changed(jaffle: Jaffle) -> None:
    first, second = (set(jaffle.golden[day].rows(EXPECTED["marts.orders"])) for day in ("main~1", "main"))
    assert jaffle.built()["marts.orders"] == (len(second - first), len(first - second)) == (5, 1)
    first, second = (set(jaffle.golden[day].rows(EXPECTED["marts.customers"])) for day in ("main~1", "main"))
    assert jaffle.built()["marts.customers"] == (len(second - first), len(first - second))
    assert len(second - first) < 10


def test_other_readers_find_the_same_rows_and_sums_without_spark(jaffle: Jaffle) -> None:
    golden = jaffle.golden
    versions = golden["main~1"].versions() | golden["main"].versions()
    expected = {table: golden["main"].total(table) for table in SUMS if table != "marts.customer_history"}
    expected["marts.customer_history"] = len(versions), Decimal(sum(version[0] for version in versions))
    assert totals_by_pyiceberg(jaffle.folder, SUMS) == expected
    assert totals_by_duckdb(jaffle.folder, SUMS) == expected


def test_nothing_is_wrong_with_it(jaffle: Jaffle) -> None:
    assert jaffle.json("check")["findings"] == []
    audited = jaffle.json("audit")
    assert {finding["state"] for finding in audited["findings"]} == {"ok"}
    kinds = {finding["audit"].partition("(")[0] for finding in audited["findings"]}
    assert kinds == {
        *("key", "not_null", "accepted_values", "relationships", "assert", "row_count"),
        *("same_total", "no_overlap"),
    }
    assert "nothing to do: 11 models up to date" in jaffle("plan").stdout


@pytest.mark.long
def test_its_unit_tests_pass_and_every_rule_has_one(jaffle: Jaffle) -> None:
    found = jaffle.json("test")
    assert found["failed"] == 0, found
    tested = {each["name"] for each in found["tests"]}
    rules = re.search(r"## The rules(.*?)\n## ", README.read_text(encoding="utf-8"), re.DOTALL)
    assert rules
    assert set(re.findall(r"`(\w+_\w+_\w+_\w+)`", rules[1])) == tested


def test_what_the_readme_says_to_look_at_can_be_looked_at(jaffle: Jaffle) -> None:
    lines = re.findall(r"^mere ((?:sql|quarantine|lineage|diff).*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 6
    for line in lines:
        assert jaffle(*shlex.split(line, comments=True)).stdout


def test_the_readme_shows_what_comes_out(jaffle: Jaffle) -> None:
    def printed(sample: Sample) -> str:
        day = "main" if sample.heading == "The second day" else "main~1"
        return jaffle(*shlex.split(sample.command, comments=True)[1:], "--at", day).stdout.replace(day, "main")

    assert_all_shown("jaffle", printed)


def test_lineage_leads_from_the_marts_to_the_files(jaffle: Jaffle) -> None:
    def made_of(column: str) -> set[str]:
        found = jaffle.json("lineage", column, "--up")
        return {f"{node['table']}.{node['column']}" for node in found["nodes"]}

    assert {"seeds.raw_payments.amount", "seeds.raw_orders.status"} <= made_of("marts.customers.revenue")
    assert "seeds.raw_orders.order_date" in made_of("ddi.at_risk_customers.silent_days")
    assert "seeds.raw_customers.last_name" not in made_of("ddi.at_risk_customers.silent_days")
