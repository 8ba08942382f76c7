"""Analysed plans as Spark 4.1 tells them, recorded in plans.txt; live ones: see tests/engine/test_traced.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mere.names import TableName
from mere.sql.lineage.derivation import ColumnName
from mere.sql.lineage.spark_plan import Kept, PlanLineage, lineage_of

PLANS = dict(
    part.split("\n", maxsplit=1)
    for part in re.split(r"^# ", Path(__file__).with_name("plans.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)[
        1:
    ]
)
ORDERS, CITIES, NAMES = (TableName("silver", name) for name in ("orders", "cities", "names"))


def explained(name: str) -> tuple[str, list[str]]:
    """What EXPLAIN EXTENDED says, and the names of the columns."""
    text = PLANS[name]
    columns = re.findall(r"(?:^|, )([^:]+?): [a-z]+(?:<[^>]*>)?", text.split("\n")[0])
    return f"== Parsed …\n\n== Analyzed Logical Plan ==\n{text}\n== Optimized Logical Plan ==\n…", columns


def told(name: str, *inputs: TableName) -> dict[str, str]:
    found = lineage_of(*explained(name), inputs or (ORDERS,))
    if found is None:
        return {}
    return {
        column: " ".join(sorted(f"{each.table.name}.{each.column}" for each in origins))
        for column, origins in {**found.columns, "rows": found.rows}.items()
    }


def test_expressions() -> None:
    assert told("expressions") == {"id": "orders.id", "double": "orders.amount", "f": "orders.st", "rows": ""}
    assert told("lambdas") == {"t": "orders.id orders.items", "rows": ""}
    assert told("a function of Python") == {"u": "orders.city", "rows": ""}


def test_groups() -> None:
    assert told("groups") == {
        "city": "orders.city",
        "total": "orders.amount",
        "n": "",
        "best": "orders.amount orders.id",
        "rows": "orders.amount orders.city",
    }
    assert told("a cube")["rows"] == "orders.city orders.id"
    assert told("a pivot") == {
        "city": "orders.city",
        "1": "orders.amount orders.id",
        "2": "orders.amount orders.id",
        "rows": "orders.city orders.id",
    }
    assert told("an unpivot") == {"id": "orders.id", "k": "", "v": "orders.amount", "rows": ""}


def test_joins() -> None:
    assert told("a join", ORDERS, CITIES) == {
        "id": "orders.id",
        "land": "cities.country",
        "x y": "",
        "rows": "cities.name orders.city",
    }
    assert told("a join with itself") == {"id": "orders.id", "amount": "orders.amount", "rows": "orders.id"}


def test_what_chooses_rows() -> None:
    assert told("a window")["rows"] == "orders.amount orders.city"
    assert told("the first rows") == {"id": "orders.id", "rows": "orders.amount"}
    assert told("a generator") == {"id": "orders.id", "item": "orders.items", "rows": "orders.items"}
    assert told("what another has not", ORDERS, CITIES) == {"city": "orders.city", "rows": "cities.name orders.city"}


def test_unions_go_by_position() -> None:
    assert told("a union", ORDERS, CITIES) == {"id": "orders.id", "city": "cities.name orders.city", "rows": ""}


def test_queries_within_queries() -> None:
    assert told("subqueries", ORDERS, CITIES) == {
        "id": "orders.id",
        "p": "cities.population orders.city",
        "cc": "orders.amount orders.city",
        "rows": "cities.name orders.city",
    }
    assert told("a list from a subquery")["rows"] == "cities.name orders.city orders.id"
    assert told("a CTE over a temporary view") == {"city": "orders.city", "s": "orders.amount", "rows": "orders.city"}


@pytest.mark.parametrize("name", ["list", "exists", "subquery", "scalar-subquery"])
def test_a_column_can_be_called_as_a_query_within_a_query_is(name: str) -> None:
    text, columns = explained("expressions")
    found = lineage_of(text.replace("amount#9", f"{name}#9"), columns, [ORDERS])
    assert found is not None
    assert found.columns["double"] == {ColumnName(ORDERS, name)}


def test_a_view_that_is_an_input_is_not_looked_into() -> None:
    found = told("a view", ORDERS, NAMES)
    assert (found["loud"], found["rows"]) == ("names.loud", "names.loud orders.city")
    assert told("a view", ORDERS, CITIES)["loud"] == "cities.name"


def test_a_function_of_frames_may_make_everything_of_everything() -> None:
    assert told("a function of whole frames") == {"id": "orders.id", "z": "orders.id", "rows": "orders.id"}
    everything = "orders.amount orders.city orders.id orders.items orders.st"
    assert told("a function of groups") == {"a": everything, "rows": everything}
    assert told("rows from elsewhere")["n"] == "orders.*"


def test_what_is_not_understood_is_not_known() -> None:
    assert told("a text that looks like a plan") == {}
    assert told("expressions", ORDERS, CITIES) == {}  # cities were read in some other way
    text, columns = explained("groups")
    assert lineage_of(text, columns[1:], [ORDERS]) is None
    for broken in (
        text.replace("RelationV2[", "Riddle["),
        text.replace("sum(amount#9)", "sum(amount#999)"),
        text.replace("sum(amount#9) AS total#24", "sum(amount#9"),
        text.replace("== Analyzed Logical Plan ==", ""),
        text.replace("count(1) AS n#25L", "... 3 more fields"),
    ):
        assert lineage_of(broken, columns, [ORDERS]) is None


@pytest.mark.parametrize("lineage", [None, PlanLineage({"a b": frozenset({ColumnName(ORDERS, "x.y")})}, frozenset())])
def test_what_is_kept_is_read_again(lineage: PlanLineage | None) -> None:
    kept = Kept("code", lineage)
    assert Kept.from_json(kept.to_json()) == kept
    for other in ("", "{}", "[]", '{"version": 2, "code": "code"}', '{"version": 1}'):
        assert Kept.from_json(other) is None
