"""Cases, run on Spark through the command line."""

from __future__ import annotations

import json
from typing import Any

from tests.pipeline.shop import DAILY, FIRST, TOTALS, Shop
from tests.testing.conftest import MakeShop

MODELS = {
    "mere.yaml": "name: shop\nvars: {least: 1}\nprofiles: {local: {lake: lake}}\n",
    "models/gold/daily.sql": DAILY.replace("silver.events", "landing.events"),
    "models/gold/totals.py": TOTALS,
    "models/bronze/events.sql": """
        -- kind: append
        -- audits:
        --   - assert: amount > 0
        SELECT id, at, amount FROM landing.events
    """,
    "models/silver/events.sql": """
        SELECT e.id, c.name AS city, e.amount / 3.0D AS third, CAST(e.amount AS decimal(9, 2)) AS amount
        FROM landing.events AS e JOIN raw.cities AS c USING (city_id)
        WHERE e.amount >= {{ var('least') }}
    """,
    "models/staging/names.sql": "-- kind: view\nSELECT upper(name) AS name FROM raw.cities\n",
    "models/gold/due.sql": "-- now: day\nSELECT id, datediff(:now, at) AS days FROM landing.events WHERE at < :now\n",
    "models/gold/far.sql": "SELECT id FROM far.away\n",
    "seeds/raw/cities.csv": "city_id,name,founded\n1,Wien,1200-01-01\n",
    "seeds/raw/cities.yaml": "types: {city_id: bigint}\n",
}


def outcomes(shop: Shop, *arguments: str, exit_code: int = 0) -> dict[str, dict[str, Any]]:
    found = json.loads(shop("test", *arguments, "--json", exit_code=exit_code).stdout)
    assert found["passed"] + found["failed"] == len(found["tests"])
    return {each["name"]: each for each in found["tests"]}


PASSING = """
    all_windows_of_the_given_rows_are_built:
      model: gold.daily
      given:
        landing.events:
          - {id: 1, at: 2024-02-01 10:00:00, amount: 1}
          - {id: 2, at: 2024-02-05 23:59:59.999999, amount: 2}
      expect:
        - {day: 2024-02-05, events: 1, amount: 2}
        - {day: 2024-02-01, events: 1, amount: 1}
    only_the_window_that_is_asked_for:
      model: gold.daily
      window: [2024-02-01, 2024-02-02]
      given:
        landing.events:
          - {id: 1, at: 2024-02-01 10:00:00, amount: 1}
          - {id: 2, at: 2024-02-02, amount: 2}
      expect:
        - {day: 2024-02-01}
    nothing_comes_of_nothing: {model: gold.daily, expect: []}
    of_a_function:
      model: gold.totals
      given:
        silver.events: [{city: Wien, amount: 1.5}, {city: wien, amount: 2}]
        staging.names: [{name: WIEN}]
      expect: [{NAME: WIEN, amount: 3.50}]
    floats_decimals_and_a_variable:
      model: silver.events
      vars: {least: 2}
      given:
        landing.events: events.csv
        raw.cities: [{city_id: 1, name: 007}]
      expect: [{city: 007, third: 0.6666666666, amount: 2}]
    of_a_view:
      model: staging.names
      given: {raw.cities: [{name: Oslo}, {name: null}]}
      expect: [{name: OSLO}, {name: null}]
    at_a_fixed_time:
      model: gold.due
      now: 2024-02-11T13:00
      given:
        landing.events: [{id: 1, at: 2024-02-10}, {id: 2, at: 2024-02-11 12:00:00}]
      expect: [{id: 1, days: 1}]
    all_rows_are_new_to_an_append:
      model: bronze.events
      given: {landing.events: [{id: 1, amount: -1}]}
      expect: [{id: 1, at: null, amount: -1}]
    an_error_is_expected:
      model: silver.events
      vars: {least: nothing}
      expect: {error: "`nothing`"}
"""


def test_models_of_all_sorts_make_of_the_given_rows_what_is_expected(shop: MakeShop) -> None:
    project = shop(
        {
            **MODELS,
            "tests/a.yaml": PASSING,
            "tests/events.csv": "id,city_id,amount\n1,1,2\n2,1,1\n",
        }
    )
    found = outcomes(project)
    assert {name: each["message"] for name, each in found.items()} == dict.fromkeys(found)
    assert len(found) == 9
    shown = project("test", "of_a_view", "nothing*").stdout.splitlines()
    assert [line.rpartition("  ")[0] for line in shown[:2]] == [
        "✓ gold.daily  nothing_comes_of_nothing",
        "✓ staging.names  of_a_view",
    ]
    assert shown[2] == "2 tests: 2 passed"


FAILING = """
    other_rows:
      model: gold.daily
      given:
        landing.events: [{id: 1, at: 2024-02-01, amount: 1}, {id: 2, at: 2024-02-02, amount: 2}]
      expect: [{day: 2024-02-01, amount: 1}, {day: 2024-02-02, amount: 3}, {day: 2024-02-03, amount: 4}]
    no_error: {model: gold.daily, expect: {error: no such thing}}
    another_error: {model: silver.events, vars: {least: nothing}, expect: {error: no such thing}}
    an_unexpected_error: {model: silver.events, vars: {least: nothing}, expect: []}
    no_such_column: {model: gold.daily, given: {landing.events: [{nr: 1}]}, expect: []}
    no_such_result: {model: gold.daily, expect: [{dya: 2024-02-01}]}
    no_number: {model: gold.daily, given: {landing.events: [{id: one}]}, expect: []}
    not_known: {model: gold.far, expect: []}
"""


def test_what_is_not_as_expected_is_told_with_its_place(shop: MakeShop) -> None:
    project = shop({**MODELS, "tests/b.yaml": FAILING})
    found = outcomes(project, exit_code=1)
    assert all(each["state"] == "failed" for each in found.values())
    assert found["other_rows"]["difference"] == {
        "differing": [
            {"expected": {"day": "2024-02-02", "amount": 3}, "found": {"day": "2024-02-02", "amount": 2}},
        ],
        "missing": [{"day": "2024-02-03", "amount": 4}],
        "unexpected": [],
    }
    said = {name: each["message"].splitlines()[0] for name, each in found.items()}
    assert said["no_error"] == "expected to fail with “no such thing”, but gave 0 rows"
    other = "expected to fail with “no such thing”, but failed with: models/silver/events.sql:"
    assert said["another_error"].startswith(other)
    assert "`nothing`" in said["an_unexpected_error"]
    assert said["no_such_column"] == "tests/b.yaml:9: landing.events has no column `nr`."
    assert said["no_such_result"] == "tests/b.yaml:10: gold.daily has no column `dya`. Did you mean day?"
    assert said["no_number"] == "tests/b.yaml:11: `one` is not a value of the type bigint"
    assert said["not_known"].startswith("tests/b.yaml:12: which columns far.away has is not known here")
    shown = project("test", "--select", "gold.daily", "other_rows", exit_code=1).stdout
    assert shown.splitlines() == [
        "✗ gold.daily  other_rows  (tests/b.yaml:1)",
        "    1 of 3 rows as expected, 1 differ, 1 missing",
        "    differs: day = 2024-02-02",
        "      amount  expected 3  found 2",
        "    missing: day = 2024-02-03, amount = 4",
        "1 test: 0 passed, 1 failed",
    ]


KEYED = {
    "models/gold/latest.sql": """
        -- kind: merge
        -- key: id
        -- latest_by: at
        SELECT id, at, amount FROM landing.events
    """,
    "models/gold/history.sql": """
        -- kind: scd2
        -- key: id
        -- updated_at: at
        SELECT id, at, amount FROM landing.events
    """,
    "models/gold/dumps.sql": """
        -- kind: scd2
        -- key: id
        -- dump: at
        SELECT id, at, amount FROM landing.events
    """,
    "models/gold/rolling.sql": """
        -- kind: incremental
        -- time_column: at
        -- context: 2 days
        SELECT at, sum(amount) OVER (ORDER BY at RANGE BETWEEN INTERVAL 2 DAYS PRECEDING AND CURRENT ROW) AS amount
        FROM landing.events
        WHERE at >= :start - INTERVAL 2 DAYS AND at < :end
    """,
}
OF_KEYS = """
    the_latest_row_of_a_key_wins:
      model: gold.latest
      given: {landing.events: [{id: 1, at: 2024-02-01, amount: 1}, {id: 1, at: 2024-02-02, amount: 2}]}
      expect: [{id: 1, amount: 2}]
    what_is_gone_is_gone_and_what_came_is_merged:
      model: gold.latest
      this: [{id: 7, at: 2024-01-01, amount: 7}]
      steps:
        - given: {landing.events: [{id: 1, at: 2024-02-01, amount: 1}, {id: 2, at: 2024-02-01, amount: 1}]}
          expect: [{id: 1, amount: 1}, {id: 2, amount: 1}, {id: 7, amount: 7}]
        - replace: {landing.events: [{id: 2, at: 2024-02-02, amount: 5}, {id: 3, at: 2024-02-02, amount: 3}]}
          expect: [{id: 2, amount: 5}, {id: 3, amount: 3}, {id: 7, amount: 7}]
    each_version_lasts_to_the_next:
      model: gold.history
      given: {landing.events: [{id: 1, at: 2024-02-01, amount: 1}, {id: 1, at: 2024-02-03, amount: 2}]}
      expect:
        - {id: 1, amount: 1, valid_from: 2024-02-01, valid_to: 2024-02-03, is_current: false}
        - {id: 1, amount: 2, valid_from: 2024-02-03, valid_to: null, is_current: true}
    a_dump_that_shows_nothing_new_begins_no_version:
      model: gold.dumps
      steps:
        - given: {landing.events: [{id: 1, at: 2024-02-01, amount: 1}, {id: 2, at: 2024-02-01, amount: 2}]}
        - given: {landing.events: [{id: 1, at: 2024-02-03, amount: 1}]}
          expect:
            - {id: 1, amount: 1, valid_from: 2024-02-01, valid_to: null, is_current: true}
            - {id: 2, amount: 2, valid_from: 2024-02-01, valid_to: 2024-02-03, is_current: false}
        - given: {landing.events: [{id: 2, at: 2024-02-02, amount: 3}]}
          expect:
            - {id: 1, amount: 1, valid_from: 2024-02-01, valid_to: 2024-02-02, is_current: false}
            - {id: 1, amount: 1, valid_from: 2024-02-03, valid_to: null, is_current: true}
            - {id: 2, amount: 2, valid_from: 2024-02-01, valid_to: 2024-02-02, is_current: false}
            - {id: 2, amount: 3, valid_from: 2024-02-02, valid_to: 2024-02-03, is_current: false}
    a_window_looks_back_and_gives_only_its_own_rows:
      model: gold.rolling
      window: [2024-02-03, 2024-02-04]
      given: {landing.events: [{at: 2024-02-01, amount: 1}, {at: 2024-02-02, amount: 2}, {at: 2024-02-03, amount: 4}]}
      expect: [{at: 2024-02-03, amount: 7}]
"""


def test_keys_histories_and_looks_back_are_built_as_in_production(shop: MakeShop) -> None:
    found = outcomes(shop({**MODELS, **KEYED, "tests/keyed.yaml": OF_KEYS}))
    assert {name: each["message"] for name, each in found.items()} == dict.fromkeys(found)


STEPS = """
    windows_are_built_when_rows_come:
      model: gold.daily
      this: [{day: 2024-01-31, events: 9, amount: 9}]
      steps:
        - given: {landing.events: [{id: 1, at: 2024-02-01, amount: 1}, {id: 2, at: 2024-02-02, amount: 2}]}
          expect: [{day: 2024-01-31, amount: 9}, {day: 2024-02-01, amount: 1}, {day: 2024-02-02, amount: 2}]
        - replace: {landing.events: [{id: 1, at: 2024-02-01, amount: 7}, {id: 3, at: 2024-02-03, amount: 3}]}
          expect:
            - {day: 2024-01-31, events: 9, amount: 9}
            - {day: 2024-02-01, events: 1, amount: 7}
            - {day: 2024-02-03, events: 1, amount: 3}
    only_new_rows_are_added_and_bad_ones_are_not:
      model: bronze.events
      this: [{id: 1, amount: 100}]
      steps:
        - given: {landing.events: [{id: 2, amount: 5}]}
        - given: {landing.events: [{id: 3, amount: 6}]}
          expect: [{id: 1, amount: 100}, {id: 2, amount: 5}, {id: 3, amount: 6}]
        - given: {landing.events: [{id: 4, amount: -1}]}
          expect: {error: "assert(amount > 0): 1 of"}
    in_the_second_step:
      model: bronze.events
      steps:
        - given: {landing.events: [{id: 1, amount: 1}]}
          expect: [{id: 1}]
        - given: {landing.events: [{id: 2, amount: 1}]}
          expect: [{id: 2}]
"""


def test_steps_go_through_the_pipeline_in_a_lake_of_their_own(shop: MakeShop) -> None:
    project = shop({**MODELS, "tests/c.yaml": STEPS})
    before = project.pointers(), project.branches()
    found = outcomes(project, exit_code=1)
    assert {name: each["message"] for name, each in found.items()} == {
        "windows_are_built_when_rows_come": None,
        "only_new_rows_are_added_and_bad_ones_are_not": None,
        "in_the_second_step": "1 of 1 rows as expected, 1 unexpected",
    }
    assert found["in_the_second_step"]["step"] == 2
    assert (project.pointers(), project.branches()) == before
    assert project.runs() == []


def test_a_test_is_written_from_rows_that_belong_together(shop: MakeShop) -> None:
    project = shop(
        {
            **MODELS,
            "seeds/raw/cities.csv": "city_id,name,founded\n1,Wien,1200-01-01\n2,Rom,0753-01-01\n3,Oslo,1040-01-01\n",
        }
    )
    project.land(*FIRST)
    project.run("raw.cities")
    made = json.loads(project("test", "--create", "silver.events", "--rows", "2", "--json").stdout)
    assert (made["file"], made["name"]) == ("tests/silver_events.yaml", "events_from_main")
    assert made["rows"]["landing.events"] == made["rows"]["silver.events"] == 2
    text = (project.folder / made["file"]).read_text(encoding="utf-8")
    assert "founded" not in text
    again = project("test", "--create", "silver.events", "--from", "main~0").stdout
    assert again.startswith(
        "wrote events_from_main_0 to tests/silver_events.yaml: 5 of landing.events, 3 of raw.cities"
    )
    assert "real rows" in again
    found = outcomes(project)
    assert {name: each["state"] for name, each in found.items()} == {
        "events_from_main": "passed",
        "events_from_main_0": "passed",
    }


def test_a_project_is_tested_where_its_lake_is_not(shop: MakeShop) -> None:
    settings = MODELS["mere.yaml"].replace("lake: lake", "lake: elsewhere")
    text = "a: {model: gold.totals, given: {silver.events: [{city: x, amount: 1}]}, expect: []}\n"
    project = shop({**MODELS, "mere.yaml": settings, "tests/a.yaml": text})
    done = project("test")
    assert done.stdout.endswith("1 test: 1 passed\n")
    assert "without the lake" in done.stderr
    assert not (project.folder / "elsewhere").exists()


def test_what_was_typed_wrong_is_told(shop: MakeShop) -> None:
    project = shop({**MODELS, "tests/a.yaml": "a: {model: gold.daily, expect: []}\n"})
    assert "There is no test b." in project("test", "b", exit_code=2).stderr
    assert "No model matches" in project("test", "--select", "gold.x", exit_code=2).stderr
    assert "--create" in project("test", "--rows", "2", exit_code=2).stderr
    assert "--create" in project("test", "a", "--create", "gold.daily", exit_code=2).stderr
    assert "There is no model gold.dayly." in project("test", "--create", "gold.dayly", exit_code=2).stderr
    assert project("test", "--select", "gold.totals").stdout == "no tests\n"
    missing = project("test", "--create", "gold.totals", exit_code=1).stderr
    assert "silver.events is not on main" in missing
