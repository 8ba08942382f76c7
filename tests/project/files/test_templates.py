from __future__ import annotations

import pytest

from mere.project.model import Sql
from tests.project.conftest import MakeProject

MONEY = """
{% macro euro(column) %}{{ rounded(column, 2) }}{% endmacro %}
"""
NUMBERS = """
{% macro rounded(column, digits=0) -%}
round({{ column }}, {{ digits }})
{%- endmacro %}
"""
CONFIG = "name: shop\nvars: {currency: EUR, days: 7, strict: false, cities: [a, b]}\n"


def rendered(project: MakeProject, sql: str, **variables: str) -> str:
    folder = project(
        {"macros/a_money.sql": MONEY, "macros/numbers.sql": NUMBERS, "mere.yaml": CONFIG, "models/gold/x.sql": sql}
    )
    (model,) = folder.load(**variables).models.values()
    assert isinstance(model.body, Sql)
    return model.body.text


def test_macros_are_known_by_name_to_models_and_to_each_other(project: MakeProject) -> None:
    assert rendered(project, "SELECT {{ euro('a') }} AS a FROM b.c") == "SELECT round(a, 2) AS a FROM b.c"


def test_variables_keep_their_types(project: MakeProject) -> None:
    sql = "SELECT '{{ var('currency') }}', {{ var('days') + 1 }}{% if var('strict') %}, 1{% endif %}"
    sql += "{% for city in var('cities') %}, '{{ city }}'{% endfor %}"
    assert rendered(project, sql) == "SELECT 'EUR', 8, 'a', 'b'"
    assert rendered(project, sql, currency="USD", days="1", strict="true") == "SELECT 'USD', 2, 1, 'a', 'b'"


def test_the_line_of_the_query_is_that_of_the_file(project: MakeProject) -> None:
    folder = project({"models/gold/x.sql": "-- kind: full\n{% set n = 3 %}\n\nSELECT {{ n }}\nFROM b.c\n"})
    model = folder.model("gold.x")
    assert model.body == Sql("SELECT 3\nFROM b.c", 4)
    assert model.inputs[0].line == 5


@pytest.mark.parametrize(
    ("files", "where", "what", "remedy"),
    [
        ({"models/gold/x.sql": "SELECT 1,\n  {{ nothing }}"}, ("models/gold/x.sql", 2), "is undefined", "macros"),
        ({"models/gold/x.sql": "SELECT\n {{ days }}"}, ("models/gold/x.sql", 2), "is undefined", "{{ var('days') }}"),
        ({"models/gold/x.sql": "SELECT {{ ero('a') }}"}, ("models/gold/x.sql", 1), "is undefined", "Did you mean euro"),
        ({"models/gold/x.sql": "SELECT\n{{ var('day') }}"}, ("models/gold/x.sql", 2), "no variable `day`", ""),
        ({"models/gold/x.sql": "SELECT\n\n{% if %}"}, ("models/gold/x.sql", 3), "not valid Jinja", ""),
        ({"models/gold/x.sql": "SELECT {{ euro(1, 2, 3) }}"}, ("models/gold/x.sql", 1), "takes not more than 1", ""),
        ({"macros/b.sql": "{# b #}\n{% macro b( %}"}, ("macros/b.sql", 2), "not valid Jinja", ""),
        ({"macros/b.sql": "{% macro euro() %}{% endmacro %}"}, ("macros/b.sql", 1), "also in macros/a_money.sql:1", ""),
        ({"macros/b.sql": "{% macro var() %}{% endmacro %}"}, ("macros/b.sql", 1), "`var` is mere's own", ""),
        ({"macros/b.sql": "{% macro b() %}\n{{ nothing }}{% endmacro %}", "models/gold/x.sql": "SELECT {{ b() }}"},
         ("macros/b.sql", 2), "'nothing' is undefined", ""),
    ],
)  # fmt: skip
def test_errors_name_the_file_and_the_line(
    project: MakeProject, files: dict[str, str], where: tuple[str, int], what: str, remedy: str
) -> None:
    folder = project({"macros/a_money.sql": MONEY, "macros/numbers.sql": NUMBERS, "mere.yaml": CONFIG, **files})
    problem = folder.problem()
    assert (problem.file, problem.line) == where
    assert what in problem.problem
    assert remedy in (problem.remedy or "")
    assert str(folder.problem()) == str(problem)  # not forgotten by the cache


@pytest.mark.parametrize(
    "attempt",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ var.__globals__ }}",
        "{{ var.__self__ }}",
        "{% include '/etc/hostname' %}",
        "{% import 'os' as os %}",
        "{{ lipsum() }}",
        "{{ [1, 2] | random }}",
        "{{ range(999999999) | list }}",
    ],
)
def test_templates_reach_nothing_of_the_system(project: MakeProject, attempt: str) -> None:
    problem = project({"models/gold/x.sql": f"SELECT {attempt}"}).problem()
    assert "Jinja" in problem.problem


def test_braces_without_meaning_stay(project: MakeProject) -> None:
    assert rendered(project, "SELECT '{% raw %}{{ x }}{% endraw %}', '{1}'") == "SELECT '{{ x }}', '{1}'"


@pytest.mark.parametrize("value", ["{a: b}", "[[1]]", "null"])
def test_a_variable_is_a_plain_value(project: MakeProject, value: str) -> None:
    problem = project({"mere.yaml": f"name: shop\nvars:\n  x: {value}\n"}).problem()
    assert "`vars.x` must be a text, a number" in problem.problem
    assert problem.line == 3
