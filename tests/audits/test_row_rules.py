"""Rules that put rows aside: which can, by which condition, and what is made of the numbers."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mere.audits.audit import Allowed, Audit, parse
from mere.audits.builtin import question
from mere.audits.engines import duckdb_sql
from mere.audits.evaluate import State
from mere.audits.quarantine import Counts, broken_rules, judged, row_rules
from mere.entries import parse as yaml
from mere.names import TableName

TABLE = TableName("silver", "orders")


def audit(text: str) -> Audit:
    return parse(yaml(f"{text}\nquarantine: true", Path("models/silver/orders.sql")), {})


RULES = [
    "not_null: [city, amount]",
    "accepted_values: {column: city, values: [Rom, Wien]}",
    "assert: amount >= 0",
    "assert: amount >= 0 OR city = 'Rom'",
    "assert: amount < 100\nwhere: city = 'Rom'",
    "not_null: amount\nwhere: city <> 'Rom'",
    "assert: 10 / amount > 1\nwhere: amount <> 0",
]
VALUES = ["NULL", "'NaN'::DOUBLE", "0.0", "-1.0", "5.0", "100.0"]


def orders(_: object) -> list[tuple[str, str]]:
    return [("city", "string"), ("amount", "double")]


@pytest.mark.parametrize("text", RULES)
def test_a_row_is_put_aside_if_and_only_if_the_audit_would_find_it(text: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA silver; CREATE TABLE silver.orders (city VARCHAR, amount DOUBLE)")
        values = ", ".join(f"({city}, {amount})" for city in ("NULL", "'Rom'", "'Oslo'") for amount in VALUES)
        connection.execute(f"INSERT INTO silver.orders VALUES {values}")
        found = connection.sql(duckdb_sql(question(audit(text), TABLE, None).bad_rows, orders)).fetchall()
        (rule,) = row_rules([audit(text)], None)
        put_aside = duckdb_sql(f"SELECT *, CASE WHEN {rule.bad} THEN 1 END AS bad FROM silver.orders", orders)
        rows: list[Any] = connection.sql(put_aside).fetchall()
    assert sorted(map(repr, found)) == sorted(repr(row[:-1]) for row in rows if row[-1])
    assert 0 < len(found) < len(rows)


def test_a_row_without_a_time_breaks_a_rule_of_its_own_if_any_rule_puts_rows_aside() -> None:
    rules = row_rules([audit("not_null: city"), parse(yaml("not_null: id", Path("x.sql")), {})], "at")
    assert [(rule.name, rule.bad) for rule in rules] == [
        ("not_null(city)", "`city` IS NULL"),
        ("time", "`at` IS NULL"),
    ]
    assert row_rules([parse(yaml("not_null: id", Path("x.sql")), {})], "at") == []


def test_names_of_rules_are_texts_whatever_they_hold() -> None:
    rules = row_rules([audit("assert: city <> 'x'")], None)
    assert "THEN array('assert(city <> \\'x\\')') ELSE" in broken_rules(rules)


def test_keys_of_another_table_are_looked_up_by_names_that_no_column_has() -> None:
    (rule,) = row_rules([audit("relationships: {column: [a, b], to: raw.t, key: [c, d]}\nwhere: a > 'x'")], None)
    assert rule.lookup
    assert rule.lookup.keys == ["`c` AS `_mere_key_0_0`", "`d` AS `_mere_key_0_1`"]
    assert rule.lookup.condition == "`a` = `_mere_key_0_0` AND `b` = `_mere_key_0_1`"
    assert rule.bad == ("CASE WHEN a > 'x' THEN `a` IS NOT NULL AND `b` IS NOT NULL AND `_mere_found_0` IS NULL END")


def test_counts_add_up() -> None:
    both = Counts(10, 2, {"a": 2, "b": 1}) + Counts(5, 1, {"b": 1})
    assert both == Counts(15, 3, {"a": 2, "b": 2})
    assert both.good == 12
    assert Counts.from_json(both.to_json()) == both


@pytest.mark.parametrize(
    ("limit", "bad", "rows", "state"),
    [
        ("", 100, 100, State.OK),
        ("\nmax_bad: 1%", 1, 100, State.OK),
        ("\nmax_bad: 1%", 11, 1099, State.FAILED),
        ("\nmax_bad: 1%", 11, 1100, State.OK),
        ("\nmax_bad: 1%", 1, 2, State.OK),  # a share says little about a few rows
        ("\nmax_bad: 1%", 10, 20, State.OK),
        ("\nmax_bad: 1%", 10, 19, State.FAILED),  # more than half of them: something else is wrong
        ("\nmax_bad: 1%", 1, 1, State.FAILED),
        ("\nmax_bad: {share: 1%, floor: 3}", 3, 10, State.OK),
        ("\nmax_bad: {share: 1%, floor: 3}", 4, 10, State.FAILED),
        ("\nmax_bad: {share: 1%, floor: 0}", 2, 199, State.FAILED),
        ("\nmax_bad: 2", 2, 2, State.OK),
        ("\nmax_bad: 2", 3, 1_000_000, State.FAILED),
        ("\nmax_bad: 0", 0, 0, State.OK),
        ("\nmax_bad: 0%", 1, 10, State.FAILED),
    ],
)
def test_more_bad_rows_than_allowed_fail(limit: str, bad: int, rows: int, state: State) -> None:
    asked: list[str] = []

    def sample(sql: str) -> list[dict[str, Any]]:
        asked.append(sql)
        return [{"id": 1}]

    rule = audit(f"not_null: id{limit}")
    found = judged(TABLE, rule, Counts(rows, bad, {rule.name: bad}), "1a2b", sample)
    assert (found.state, found.bad, found.checked, found.blocks) == (state, bad, rows, state is State.FAILED)
    assert ("`max_bad`" in found.message) == found.blocks
    assert len(asked) == len(found.sample) == int(found.blocks)
    assert found.query == (
        "SELECT * FROM `silver`.`orders__quarantine` WHERE `_run` = '1a2b' AND array_contains(`_rules`, 'not_null(id)')"
    )


def test_the_options_are_read() -> None:
    found = audit("assert: a > 1\nmax_bad: 0.5%")
    assert (found.quarantine, found.max_bad) == (True, Allowed(Decimal("0.5"), True, 10))
    assert not parse(yaml("assert: a > 1\nquarantine: false", Path("x.sql")), {}).quarantine
