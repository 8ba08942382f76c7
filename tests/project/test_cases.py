"""tests/*.yaml as data, and what `mere check` says of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mere.errors import ProjectError
from mere.names import TableName
from mere.project.cases import Case, read_cases
from mere.project.check.check import check
from mere.project.load import Loader
from tests.project.conftest import MakeProject, ProjectFolder

MODEL = """
    -- kind: incremental
    -- time_column: day
    -- audits:
    --   - relationships: {column: city, to: raw.cities, key: name}
    SELECT day, city, sum(amount) AS revenue, '{{ var('currency') }}' AS currency
    FROM silver.orders
    WHERE day >= :start AND day < :end
    GROUP BY day, city
"""
FILES = {
    "mere.yaml": "name: shop\nvars: {currency: EUR}\n",
    "models/gold/revenue.sql": MODEL,
    "models/gold/due.sql": "-- now: day\nSELECT id FROM silver.orders WHERE day < :now\n",
    "seeds/raw/cities.csv": "id,name\n1,Bern\n",
}


def cases(project: ProjectFolder) -> tuple[Case, ...]:
    loader = Loader(project.path)
    return read_cases(loader.files, loader.load())


def problems(project: ProjectFolder) -> list[str]:
    with pytest.raises(ProjectError) as caught:
        cases(project)
    return [str(each) for each in caught.value.problems]


def test_a_case_is_read_with_its_rows_and_their_places(project: MakeProject) -> None:
    (case,) = cases(
        project(
            {
                **FILES,
                "tests/gold.yaml": """
                    # of the day
                    revenue_by_day:
                      model: gold.revenue
                      vars: {currency: USD}
                      window: [2024-02-11, 2024-02-13]
                      given:
                        silver.orders:
                          - {day: 2024-02-11, amount: 1}
                          - {day: 2024-02-12, city: Bern}
                      expect: []
                """,
            }
        )
    )
    assert (case.name, case.place, str(case.model)) == ("revenue_by_day", "tests/gold.yaml:2", "gold.revenue")
    assert case.variables == {"currency": '"USD"'}
    assert case.window is not None
    assert case.window.start == datetime(2024, 2, 11, tzinfo=UTC)
    (step,) = case.steps
    rows = step.given[TableName("silver", "orders")]
    assert list(rows.columns) == ["day", "amount", "city"]
    assert rows.rows[1]["city"].line == 9
    assert step.expect is not None
    assert step.expect.rows == ()
    assert not case.staged


def test_rows_can_stand_in_a_csv_file_beside(project: MakeProject) -> None:
    (case,) = cases(
        project(
            {
                **FILES,
                "tests/orders.csv": 'day,city,amount\n2024-02-11,"Bern, CH",\n2024-02-12,null,~\n',
                "tests/gold.yaml": """
                    a: {model: gold.revenue, given: {silver.orders: orders.csv}, expect: []}
                """,
            }
        )
    )
    row, other = case.steps[0].given[TableName("silver", "orders")].rows
    assert (row["city"].value(), row["amount"].is_null) == ("Bern, CH", True)
    assert (row["day"].file.as_posix(), row["day"].line) == ("tests/orders.csv", 2)
    assert (other["city"].value(), other["amount"].value()) == ("null", "~")


def test_steps_and_a_table_that_stands_are_left_to_the_pipeline(project: MakeProject) -> None:
    by_steps, on_this = cases(
        project(
            {
                **FILES,
                "tests/gold.yaml": """
                    a:
                      model: gold.revenue
                      steps:
                        - given: {silver.orders: [{day: 2024-02-11}], raw.cities: [{name: Bern}]}
                        - replace: {silver.orders: []}
                          expect: {error: no rows}
                    b:
                      model: gold.revenue
                      this: [{day: 2024-02-11, revenue: 1}]
                      expect: [{day: 2024-02-11, revenue: 1}]
                """,
            }
        )
    )
    assert by_steps.staged
    assert on_this.staged
    assert [step.error for step in by_steps.steps] == [None, "no rows"]
    assert by_steps.steps[0].expect is None
    assert list(by_steps.steps[1].replaced) == [TableName("silver", "orders")]


def test_files_in_folders_below_belong_to_somebody_else(project: MakeProject) -> None:
    assert cases(project({**FILES, "tests/data/answers.yaml": "- 1\n", "tests/test_x.py": "1/0\n"})) == ()


def test_all_mistakes_are_told_at_once_each_with_its_line(project: MakeProject) -> None:
    found = problems(
        project(
            {
                **FILES,
                "tests/gold.yaml": """
                    unknown_model:
                      model: gold.revenu
                      expect: []
                    no_model:
                      expect: []
                    a_seed: {model: raw.cities, expect: []}
                    unknown_input:
                      model: gold.revenue
                      given: {silver.order: []}
                      expect: []
                    unknown_key: {model: gold.revenue, expects: []}
                    nothing_expected: {model: gold.revenue}
                    no_such_file: {model: gold.revenue, given: {silver.orders: x.csv}, expect: []}
                    uneven:
                      model: gold.revenue
                      expect:
                        - {day: 2024-02-11, revenue: 1}
                        - {day: 2024-02-12}
                    no_steps: {model: gold.revenue, steps: []}
                    steps_without_end:
                      model: gold.revenue
                      steps:
                        - given: {silver.orders: []}
                    without_now: {model: gold.due, expect: []}
                    with_now: {model: gold.revenue, now: 2024-01-01, expect: []}
                    no_window: {model: gold.due, now: 2024-01-01, window: [2024-01-01, 2024-01-02], expect: []}
                """,
                "tests/more.yml": "",
            }
        )
    )
    assert [each.partition("\n")[0] for each in found] == [
        "tests/gold.yaml:2: there is no model gold.revenu. Did you mean gold.revenue or gold.due?",
        "tests/gold.yaml:5: `no_model` does not say which model it tests",
        "tests/gold.yaml:6: raw.cities is a seed: it has nothing to test",
        "tests/gold.yaml:9: gold.revenue does not read silver.order. Did you mean silver.orders?",
        "tests/gold.yaml:11: unknown key `expects` in `unknown_key`",
        "tests/gold.yaml:12: it expects nothing",
        "tests/gold.yaml:13: there is no file tests/x.csv",
        "tests/gold.yaml:18: this row does not name `revenue`, which another row does",
        "tests/gold.yaml:19: no step expects anything",
        "tests/gold.yaml:23: no step expects anything",
        "tests/gold.yaml:24: gold.due uses :now, but the test does not set `now`",
        "tests/gold.yaml:25: `now` has no effect: gold.revenue does not use it",
        "tests/gold.yaml:26: `window` has no effect: gold.due is full",
        "tests/more.yml: a file of tests ends in .yaml",
    ]


def test_check_knows_the_models_and_columns_of_tests(project: MakeProject) -> None:
    folder = project(
        {
            **FILES,
            "models/silver/orders.sql": "SELECT 1 AS id, DATE '2024-01-01' AS day, 'Bern' AS city, 2 AS amount\n",
            "tests/gold.yaml": """
                a:
                  model: gold.revenue
                  given:
                    silver.orders:
                      - {day: 2024-02-11, amont: 1}
                  expect:
                    - {revenue: 1, curency: EUR}
            """,
        }
    )
    found = [each for each in check(folder.path).findings if each.file == "tests/gold.yaml"]
    assert [(each.rule, each.line, each.message) for each in found] == [
        ("unknown-column", 5, "there is no column `amont` of silver.orders. Did you mean amount?"),
        ("unknown-column", 7, "there is no column `curency` of gold.revenue. Did you mean currency?"),
    ]
    assert all(each.is_error for each in found)
    assert [each for each in check(folder.path, ["gold.due"]).findings if each.file == "tests/gold.yaml"] == []


def test_check_tells_what_is_wrong_in_a_file_of_tests(project: MakeProject) -> None:
    found = check(project({**FILES, "tests/gold.yaml": "a: {model: gold.x, expect: []}\n"}).path).findings
    assert ("parse", "tests/gold.yaml", 1) in [(each.rule, each.file, each.line) for each in found]
