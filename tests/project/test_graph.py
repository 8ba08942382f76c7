from __future__ import annotations

import pytest

from mere.errors import UsageError
from mere.names import TableName
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Sql


def model(name: str, *reads: str, tags: tuple[str, ...] = ()) -> Model:
    inputs = tuple(Input(TableName.parse(each), 1) for each in reads)
    return Model(TableName.parse(name), Kind.FULL, f"{name}.sql", Sql("", 1), inputs, tags=tags)


GRAPH = Graph.of(
    [
        model("gold.revenue", "silver.orders", tags=("nightly",)),
        model("gold.customers", "silver.customers", "silver.orders"),
        model("silver.orders", "bronze.orders"),
        model("silver.customers", "bronze.customers", tags=("nightly", "people")),
        model("bi.report", "gold.revenue"),
    ]
)


def names(*patterns: str, changed: tuple[str, ...] = ()) -> list[str]:
    return sorted(map(str, GRAPH.select(patterns, [TableName.parse(each) for each in changed])))


def test_the_order_is_by_dependency_then_by_name() -> None:
    assert [str(name) for name in GRAPH.models] == [
        "silver.customers", "silver.orders", "gold.customers", "gold.revenue", "bi.report",
    ]  # fmt: skip


def test_upstream_and_downstream_are_models_only() -> None:
    assert GRAPH.externals == (TableName("bronze", "customers"), TableName("bronze", "orders"))
    assert sorted(map(str, GRAPH.upstream([TableName("bi", "report")]))) == [
        "bi.report", "gold.revenue", "silver.orders",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        ((), ["bi.report", "gold.customers", "gold.revenue", "silver.customers", "silver.orders"]),
        (("gold.revenue",), ["gold.revenue"]),
        (("gold.*",), ["gold.customers", "gold.revenue"]),
        (("*.customers", "bi.report"), ["bi.report", "gold.customers", "silver.customers"]),
        (("+gold.revenue",), ["gold.revenue", "silver.orders"]),
        (("gold.revenue+",), ["bi.report", "gold.revenue"]),
        (("+gold.revenue+",), ["bi.report", "gold.revenue", "silver.orders"]),
        (("tag:nightly",), ["gold.revenue", "silver.customers"]),
        (("tag:people+",), ["gold.customers", "silver.customers"]),
        (("+gold.*",), ["gold.customers", "gold.revenue", "silver.customers", "silver.orders"]),
    ],
)
def test_selection(patterns: tuple[str, ...], selected: list[str]) -> None:
    assert names(*patterns) == selected


def test_changed_models_are_those_the_caller_knows() -> None:
    assert names("changed", changed=("gold.revenue", "gone.model")) == ["gold.revenue"]
    assert names("changed+", changed=("gold.revenue",)) == ["bi.report", "gold.revenue"]
    assert names("changed") == []
    with pytest.raises(UsageError, match="known only to plan and run"):
        GRAPH.select(["changed"])


@pytest.mark.parametrize(
    ("pattern", "guess"), [("gold.revenu", "gold.revenue"), ("tag:nightli", "tag:nightly"), ("bronze.orders", "")]
)
def test_a_pattern_that_matches_nothing_is_a_mistake(pattern: str, guess: str) -> None:
    with pytest.raises(UsageError, match=f"No model matches {pattern}") as caught:
        GRAPH.select(["gold.*", pattern])
    assert guess in caught.value.message
