"""What a user writes for a history, and what is wrong with it, by file and line."""

from __future__ import annotations

import pytest

from mere.project.check.check import check
from mere.project.kinds import HISTORY, Kind
from tests.project.conftest import MakeProject

FILE = "models/dim/customers.sql"
PLAIN = """
    -- kind: scd2
    -- key: id
    SELECT id, name, changed_at FROM raw.customers
    """


def test_a_history_is_told_by_its_key_and_a_time_or_columns_to_compare(project: MakeProject) -> None:
    folder = project(
        {
            FILE: PLAIN,
            "models/dim/timed.sql": PLAIN.replace("key: id", "key: id\n    -- updated_at: changed_at"),
            "models/dim/some.py": """
                from mere import model, table
                @model("dim.some", kind="scd2", key=["id", "shop"], compare=["name"])
                def some(raw=table("raw.customers", key=["id", "shop"])):
                    return raw
                """,
        }
    )
    plain, timed, some = (folder.model(f"dim.{name}") for name in ("customers", "timed", "some"))
    assert (plain.kind, plain.key, plain.updated_at, plain.compare) == (Kind.SCD2, ("id",), None, ())
    assert plain.inputs[0].key == (("id", "id"),)
    assert plain.added_columns == HISTORY
    assert timed.updated_at == "changed_at"
    assert (some.key, some.compare) == (("id", "shop"), ("name",))
    assert some.inputs[0].key == (("id", "id"), ("shop", "shop"))


def test_an_input_without_a_key_is_read_whole(project: MakeProject) -> None:
    model = project({FILE: PLAIN.replace("id, name", "row_number() OVER (ORDER BY name) AS id, name")})
    assert model.model("dim.customers").inputs[0].key == ()


@pytest.mark.parametrize(
    ("settings", "line", "message", "remedy"),
    [
        ("-- kind: scd2", 1, "an scd2 model needs a `key`", "`key: order_id`"),
        (
            "-- kind: scd2\n-- key: id\n-- updated_at: at\n-- compare: name",
            4,
            "`compare` beside `updated_at` would lose facts",
            "write `dump: at` as well",
        ),
        (
            "-- kind: scd2\n-- key: id\n-- updated_at: at\n-- dump: day",
            3,
            "`updated_at` names another column",
            "`updated_at: day`",
        ),
        ("-- kind: full\n-- dump: day", 2, "`dump` has no effect: the model is full", "Remove it"),
        ("-- kind: scd2\n-- key: id\n-- latest_by: at", 3, "`latest_by` has no effect: the model is scd2", "Remove it"),
        ("-- kind: scd2\n-- key: id\n-- time_column: at", 3, "`time_column` has no effect", "Remove it"),
        ("-- kind: full\n-- updated_at: at", 2, "`updated_at` has no effect: the model is full", "Remove it"),
        ("-- kind: merge\n-- key: id\n-- compare: at", 3, "`compare` has no effect: the model is merge", "Remove it"),
        (
            "-- kind: scd2\n-- key: id\n-- inputs: {raw.customers: {on_change: rebuild}}",
            4,
            "`on_change` of raw.customers has no effect: the model is scd2",
            "Remove it",
        ),
    ],
)
def test_settings_that_cannot_be(project: MakeProject, settings: str, line: int, message: str, remedy: str) -> None:
    problem = project({FILE: f"{settings}\nSELECT id, name, at FROM raw.customers"}).problem()
    assert (problem.file, problem.line) == (FILE, line)
    assert message in problem.problem
    assert remedy in str(problem.remedy)


def test_a_query_that_cannot_have_a_history(project: MakeProject) -> None:
    header = "-- kind: scd2\n-- key: id\n"
    folder = project(
        {
            FILE: f"{header}SELECT id, at AS Valid_From FROM raw.customers",
            "models/dim/none.sql": f"{header}SELECT 1 AS id",
            "models/dim/now.sql": f"{header}SELECT id, :now AS seen FROM raw.customers",
            "models/dim/now_too.py": """
                from mere import model, table
                @model("dim.now_too", kind="scd2", key="id")
                def now_too(now, raw=table("raw.customers")):
                    return raw
                """,
        }
    )
    found = {f"{each.file}:{each.line}": each.problem for each in folder.problems()}
    assert found == {
        f"{FILE}:3": "`Valid_From` is a column that mere itself adds to an scd2 model",
        "models/dim/none.sql:3": "an scd2 model needs an input, whose history it keeps",
        "models/dim/now.sql:3": "an scd2 model cannot use :now: its history would depend on when it is built",
        "models/dim/now_too.py:3": "an scd2 model cannot take `now`: its history would depend on when it is built",
    }


def test_check_knows_the_columns_of_a_history_and_those_that_its_settings_name(project: MakeProject) -> None:
    folder = project(
        {
            "seeds/raw/customers.csv": "id,name\n1,ann\n",
            FILE: "-- kind: scd2\n-- key: nr\n-- compare: [name, city]\nSELECT id, name FROM raw.customers",
            "models/gold/now.sql": "SELECT id, valid_from, valid_until FROM dim.customers WHERE is_current",
        }
    )
    findings = check(folder.path).findings
    unknown = [(each.place, each.message) for each in findings if each.rule == "unknown-column"]
    assert unknown == [
        (f"{FILE}:2", "`key` names `nr`, which dim.customers does not have."),
        (f"{FILE}:3", "`compare` names `city`, which dim.customers does not have."),
        ("models/gold/now.sql:1:24", "there is no column `valid_until`. Did you mean valid_to?"),
    ]
