"""An append model that reads its input twice would see new rows alone in both places: refused where they meet."""

from __future__ import annotations

import pytest

from tests.project.conftest import MakeProject

LOG = "models/silver/log.sql"
CTE = "WITH e AS (SELECT * FROM b.events), f AS (SELECT id FROM e) "
MET = [
    "SELECT e.id FROM b.events AS e JOIN b.events AS f ON e.id = f.before",
    "SELECT id FROM b.events WHERE id NOT IN (SELECT before FROM b.events)",
    "SELECT id, (SELECT max(id) FROM b.events) AS last FROM b.events",
    "SELECT id FROM b.events UNION SELECT before FROM b.events",
    "SELECT id FROM b.events EXCEPT SELECT before FROM b.events",
    CTE + "SELECT e.id FROM e JOIN f ON e.id = f.id",
    CTE + "SELECT e.id FROM e JOIN b.events AS g ON e.id = g.id",
    "WITH e AS (SELECT x.id FROM b.events AS x, b.events AS y) SELECT id FROM e",
    "SELECT id FROM b.events UNION ALL (SELECT f.id FROM b.events AS e, b.events AS f)",
]
APART = [
    "SELECT id FROM b.events",
    "SELECT id FROM b.events UNION ALL SELECT before FROM b.events",
    "SELECT id FROM b.events UNION ALL SELECT before FROM b.events UNION ALL SELECT 1 FROM b.events",
    CTE + "SELECT id FROM e UNION ALL SELECT id FROM f",
    "SELECT id FROM (SELECT id FROM b.events WHERE id > 1 UNION ALL SELECT id FROM b.events WHERE id < 1) AS e",
]


@pytest.mark.parametrize("sql", MET)
def test_where_rows_meet_it_is_an_error_with_its_line_and_a_way_out(project: MakeProject, sql: str) -> None:
    problem = project({LOG: f"-- kind: append\n{sql}\n"}).problem()
    assert "models/silver/log.sql:2: b.events is read twice" in str(problem)
    assert "SELECT * FROM b.events" in str(problem.remedy)
    for kind in ("full", "view"):
        assert project({LOG: f"-- kind: {kind}\n{sql}\n"}).model("silver.log").kind == kind


@pytest.mark.parametrize("sql", APART)
def test_in_arms_of_a_union_all_they_do_not_meet(project: MakeProject, sql: str) -> None:
    assert project({LOG: f"-- kind: append\n{sql}\n"}).model("silver.log").inputs[0].new_rows


def test_the_way_out_is_a_view_of_all_rows(project: MakeProject) -> None:
    made = project(
        {
            "models/b/all_events.sql": "-- kind: view\nSELECT * FROM b.events\n",
            LOG: """
                -- kind: append
                -- inputs: {b.events: {new_rows: true}}
                SELECT e.id, a.id AS before FROM b.events AS e JOIN b.all_events AS a ON a.id = e.before
            """,
        }
    ).model("silver.log")
    assert {str(each.table): each.new_rows for each in made.inputs} == {"b.events": True, "b.all_events": False}
