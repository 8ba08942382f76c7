"""Models whose rules put rows aside: what they read because of it, and what cannot be."""

from __future__ import annotations

import pytest

from mere.names import TableName
from mere.project.model import OnChange
from tests.project.conftest import MakeProject

RULE = "-- audits:\n--   - {rule}\n--     quarantine: true\n"
CITIES = "relationships: {column: city_id, to: raw.cities}"
QUERY = "SELECT id, city_id, at FROM bronze.orders"
WINDOW = " WHERE at >= :start AND at < :end"


def sql(rule: str, header: str = "", query: str = QUERY) -> dict[str, str]:
    return {"models/silver/orders.sql": header + RULE.replace("{rule}", rule) + query}


def test_a_table_in_which_keys_are_looked_up_is_an_input(project: MakeProject) -> None:
    model = project(sql(CITIES)).model("silver.orders")
    assert [(str(each.table), each.line, each.lookup) for each in model.inputs] == [
        ("bronze.orders", 4, False),
        ("raw.cities", 2, True),
    ]
    assert model.quarantines
    assert model.writes == (TableName("silver", "orders"), TableName("silver", "orders__quarantine"))


def test_an_append_model_takes_the_new_rows_of_its_query_alone(project: MakeProject) -> None:
    orders, cities = project(sql(CITIES, "-- kind: append\n")).model("silver.orders").inputs
    assert (orders.new_rows, cities.new_rows) == (True, False)


def test_an_incremental_model_says_what_a_change_there_means(project: MakeProject) -> None:
    header = "-- kind: incremental\n-- time_column: at\n"
    problem = project(sql(CITIES, header, QUERY + WINDOW)).problem()
    assert "it is not known which windows a change of raw.cities touches" in problem.problem
    assert problem.line == 4
    declared = header + "-- inputs: {raw.cities: {on_change: ignore}}\n"
    model = project(sql(CITIES, declared, QUERY + WINDOW)).model("silver.orders")
    assert [each.on_change for each in model.inputs] == [None, OnChange.IGNORE]


def test_what_a_model_reads_in_part_cannot_be_looked_up(project: MakeProject) -> None:
    rule = "relationships: {column: id, to: bronze.orders}"
    problem = project(sql(rule, "-- kind: incremental\n-- time_column: at\n", QUERY + WINDOW)).problem()
    assert "cannot quarantine: the model does not read bronze.orders whole" in problem.problem
    assert problem.line == 4
    by_key = project(sql(rule, "-- kind: merge\n-- key: id\n")).problem()
    assert "cannot quarantine" in by_key.problem


CHANGES = """
from mere import changes, model, table

@model("gold.m", kind="merge", key="id", {settings})
def m(a={read}):
    return a
"""
BY_RULE = 'audits=[{"not_null": "n", "quarantine": True}]'


def test_changes_cannot_compete_with_rows_that_were_put_aside(project: MakeProject) -> None:
    def written(settings: str, read: str = 'changes("s.a")') -> dict[str, str]:
        return {"models/gold/m.py": CHANGES.replace("{settings}", settings).replace("{read}", read)}

    problem = project(written(f'latest_by="at", {BY_RULE}')).problem()
    assert "changes of s.a cannot be taken by `latest_by` while a rule puts rows aside" in problem.problem
    assert (problem.file, problem.line, problem.remedy) == ("models/gold/m.py", 4, "Read the table with `table(…)`.")
    for settings in (BY_RULE, 'latest_by="at"'):
        assert project(written(settings)).model("gold.m").inputs[0].changes
    assert project(written(f'latest_by="at", {BY_RULE}', 'table("s.a", key="id")')).model("gold.m").quarantines


def test_python_models_and_seeds_look_up_keys_too(project: MakeProject) -> None:
    folder = project(
        {
            "models/silver/orders.py": """
            from mere import model, table

            @model("silver.orders", audits=[{"relationships": {"column": "c", "to": "raw.cities"}, "quarantine": True}])
            def orders(raw=table("bronze.orders")):
                return raw
            """,
            "seeds/raw/shops.csv": "city_id\n1\n",
            "seeds/raw/shops.yaml": f"audits: [{{{CITIES}, quarantine: true, max_bad: 5}}]\n",
        }
    )
    for name in ("silver.orders", "raw.shops"):
        assert folder.model(name).inputs[-1].lookup


@pytest.mark.parametrize(
    ("files", "line", "what"),
    [
        (sql("unique: id"), 3, "unique cannot quarantine"),
        (sql("not_null: id", "-- kind: view\n"), 3, "a model of kind view cannot quarantine rows"),
        (sql("not_null: id", "-- kind: scd2\n-- key: id\n"), 4, "a model of kind scd2 cannot quarantine rows"),
        (
            sql("not_null: id\n--     quarantine: true\n--   - not_null: id"),
            4,
            "another rule that quarantines is called not_null(id)",
        ),
        (
            sql("not_null: id\n--     name: time", "-- kind: incremental\n-- time_column: at\n", QUERY + WINDOW),
            4,
            "another rule that quarantines is called time",
        ),
        (sql("relationships: {column: id, to: silver.orders}"), 2, "silver.orders reads itself"),
        ({"models/silver/orders__quarantine.sql": QUERY}, None, "cannot be a model's name"),
        ({"seeds/raw/a__quarantine.csv": "x\n"}, None, "cannot be a seed's name"),
    ],
)
def test_what_cannot_be_is_told_with_its_line(
    project: MakeProject, files: dict[str, str], line: int | None, what: str
) -> None:
    found = [each for each in project(files).problems() if what in each.problem]
    assert [each.line for each in found] == [line]


def test_a_circle_through_a_quarantine_is_found(project: MakeProject) -> None:
    files = sql("not_null: id", query="SELECT id FROM gold.problems")
    files["models/gold/problems.sql"] = "SELECT id FROM silver.orders__quarantine"
    assert "the models read each other in a circle" in project(files).problem().problem
