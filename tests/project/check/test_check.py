from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mere import Lake
from mere.cli import main
from mere.project.check.check import Finding, check
from mere.project.rules import Rule
from tests.lake.orders import ORDERS as ROWS
from tests.lake.orders import write
from tests.project.conftest import MakeProject, ProjectFolder

GOOD = "-- key: id\n-- audits: [{not_null: id}]\n"
ORDERS = {"seeds/bronze/orders.csv": "id,amount,order_date,address\n", "seeds/bronze/orders.yaml": "key: id"}


def findings(folder: ProjectFolder, *patterns: str) -> list[Finding]:
    return list(check(folder.path, patterns).findings)


def found(project: MakeProject, sql: str, **others: str) -> list[tuple[str, int | None, int | None]]:
    folder = project({**ORDERS, **others, "models/gold/x.sql": GOOD + sql})
    return [(each.rule.value, each.line, each.column) for each in findings(folder) if each.model == "gold.x"]


def test_a_good_model_gives_no_finding(project: MakeProject) -> None:
    assert found(project, "SELECT id, amount FROM bronze.orders") == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, address.city AS city, o.address.zip AS zip FROM bronze.orders o",
        "SELECT orders.id, bronze.orders.amount FROM bronze.orders",
        "SELECT ID, Amount FROM bronze.orders",
        "SELECT id, amount * 2 AS double, double + 1 AS more FROM bronze.orders ORDER BY more",
        "SELECT id, q FROM bronze.orders LATERAL VIEW explode(address) t AS q",
        "SELECT id, transform(address, x -> x + amount) AS t FROM bronze.orders",
        "WITH o AS (SELECT * FROM bronze.orders) SELECT id, amount FROM o",
        "WITH o(a, b) AS (SELECT id, amount FROM bronze.orders) SELECT a AS id, b FROM o",
        "SELECT id, (SELECT max(x.a) FROM nobody.knows x WHERE x.id = o.id) AS m FROM bronze.orders o",
        "SELECT id, v.a FROM bronze.orders, (VALUES (1)) AS v(a)",
        "SELECT id FROM bronze.orders GROUP BY id HAVING count(*) > 1",
        "SELECT o.id FROM bronze.orders o LEFT ANTI JOIN bronze.orders p ON o.id = p.id AND p.amount > 1",
        "SELECT bronze.orders.id, silver.orders.x FROM bronze.orders JOIN silver.orders USING (id)",
        "SELECT id, anything FROM nobody.knows",
        "SELECT id, anything FROM bronze.orders JOIN nobody.knows USING (id)",
        "SELECT id, _file AS f FROM bronze.orders",
        "SELECT id FROM bronze.orders o WHERE EXISTS (SELECT 1 FROM bronze.orders p WHERE p.id = o.id AND amount > 1)",
        "SELECT * FROM (SELECT id, amount FROM bronze.orders)",
        "SELECT id, amount FROM bronze.orders UNION ALL SELECT id, amount FROM bronze.orders",
        "SELECT id, s FROM bronze.orders PIVOT (sum(amount) AS s FOR order_date IN ('a'))",
    ],
)  # fmt: skip
def test_what_spark_understands_is_not_an_unknown_column(project: MakeProject, sql: str) -> None:
    assert [each for each in found(project, sql) if each[0] == "unknown-column"] == []


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("SELECT id,\n  amuont FROM bronze.orders", 4, 3),
        ("SELECT o.id, o.amuont FROM bronze.orders o", 3, 16),
        ("SELECT id FROM bronze.orders WHERE nothing > 1", 3, 36),
        ("WITH o AS (SELECT id FROM bronze.orders) SELECT id, amount FROM o", 3, 53),
        ("SELECT s.id, s.amount FROM (SELECT id FROM bronze.orders) s", 3, 16),
        ("SELECT id FROM bronze.orders WHERE id IN (SELECT nothing FROM bronze.orders)", 3, 50),
        ("SELECT id, z.a FROM bronze.orders o", 3, 12),
        ("SELECT id FROM bronze.orders UNION ALL SELECT nothing FROM bronze.orders", 3, 47),
    ],
)
def test_an_unknown_column_is_found_where_it_stands(project: MakeProject, sql: str, line: int, column: int) -> None:
    assert found(project, sql) == [("unknown-column", line, column)]


def test_a_column_is_known_through_models(project: MakeProject) -> None:
    folder = project(
        {
            **ORDERS,
            "models/silver/a.sql": "SELECT id, amount AS cents FROM bronze.orders",
            "models/gold/b.sql": "SELECT id, amount FROM silver.a",
        }
    )
    unknown = [each for each in findings(folder) if each.rule is Rule.UNKNOWN_COLUMN]
    assert [(each.model, each.message) for each in unknown] == [("gold.b", "there is no column `amount`.")]


def test_settings_name_columns_too(project: MakeProject) -> None:
    folder = project(
        {**ORDERS, "models/gold/x.sql": "-- sort_by: amount\n-- key: idd\nSELECT id, amount FROM bronze.orders"}
    )
    unknown = [each for each in findings(folder) if each.rule is Rule.UNKNOWN_COLUMN]
    assert [(each.line, each.message) for each in unknown] == [
        (2, "`key` names `idd`, which gold.x does not have. Did you mean id?")
    ]


@pytest.mark.parametrize(
    "value",
    ["now()", "current_timestamp()", "current_timestamp", "current_date()", "rand()", "uuid()", "unix_timestamp()",
     "monotonically_increasing_id()", "curdate()", "random(7)", "localtimestamp()", "current_user()"],
)  # fmt: skip
def test_values_that_change_by_themselves_are_refused(project: MakeProject, value: str) -> None:
    assert [each[0] for each in found(project, f"SELECT id, {value} AS v FROM bronze.orders")] == ["changing-value"]


def test_a_function_without_a_place_has_that_of_its_alias(project: MakeProject) -> None:
    assert found(project, "SELECT id,\n  rand() AS r\nFROM bronze.orders")[0][:2] == ("changing-value", 4)


def test_python_may_not_use_them_either(project: MakeProject) -> None:
    folder = project(
        {
            "models/gold/x.py": """
            from pyspark.sql import functions as F
            from mere import model, table

            @model("gold.x", key="id", audits=[{"not_null": "id"}])
            def x(raw=table("bronze.orders"), cities=table("bronze.cities")):
                return raw.withColumn("at", F.current_timestamp())
            """
        }
    )
    assert [(each.rule, each.line, each.column) for each in findings(folder)] == [
        (Rule.UNUSED_INPUT, 5, None),
        (Rule.CHANGING_VALUE, 6, 33),
    ]


@pytest.mark.parametrize(
    ("sql", "is_open"),
    [
        ("SELECT * FROM bronze.orders", True),
        ("SELECT o.*, 1 AS id FROM bronze.orders o", True),
        ("WITH o AS (SELECT * FROM bronze.orders) SELECT * FROM o", True),
        ("SELECT id FROM bronze.orders UNION ALL SELECT * FROM bronze.orders", True),
        ("WITH o AS (SELECT id, amount FROM bronze.orders) SELECT * FROM o", False),
        ("WITH o AS (SELECT * FROM bronze.orders) SELECT id FROM o", False),
        ("SELECT id, count(*) AS n FROM bronze.orders GROUP BY id", False),
    ],
)
def test_a_star_is_open_if_a_table_decides_what_it_stands_for(project: MakeProject, sql: str, is_open: bool) -> None:
    assert [each[0] for each in found(project, sql)] == (["select-star"] if is_open else [])


def test_a_cte_that_nobody_reads_is_an_unused_input(project: MakeProject) -> None:
    sql = "WITH a AS (SELECT id FROM bronze.orders),\n  b AS (SELECT id FROM bronze.orders)\nSELECT id FROM a"
    assert found(project, sql) == [("unused-input", 4, 3)]


def test_keys_audits_and_macros_are_missed_but_only_as_warnings(project: MakeProject) -> None:
    folder = project(
        {
            "macros/m.sql": "{% macro used() %}1{% endmacro %}\n{% macro inner() %}2{% endmacro %}\n"
            "{% macro outer() %}{{ inner() }}{% endmacro %}",
            "models/gold/x.sql": "SELECT {{ used() }} AS id",
            "models/gold/v.sql": "-- kind: view\nSELECT id FROM gold.x",
        }
    )
    seen = [(each.rule.value, each.file, each.line) for each in findings(folder)]
    assert seen == [
        ("unused-macro", "macros/m.sql", 3),
        ("missing-audit", "models/gold/x.sql", 1),
        ("missing-key", "models/gold/x.sql", 1),
    ]
    assert not any(each.is_error for each in findings(folder))
    assert findings(folder, "gold.v") == []


def test_a_rule_is_switched_off_with_a_reason(project: MakeProject) -> None:
    off = "-- off: {select-star: all columns are meant, changing-value: a sample}\n"
    assert found(project, off + "SELECT *, rand() AS r FROM bronze.orders") == []


def test_problems_of_loading_are_findings(project: MakeProject) -> None:
    folder = project(
        {"models/gold/x.sql": "SELECT id FROM a.b WHERE )", "models/gold/y.sql": "-- kindd: full\nSELECT 1 AS x"}
    )
    assert [(each.rule, each.file, each.line) for each in findings(folder)] == [
        (Rule.PARSE, "models/gold/x.sql", 1),
        (Rule.PARSE, "models/gold/y.sql", 1),
    ]


# The command


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, ["check", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_works_without_a_lake(project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project({**ORDERS, "mere.yaml": "name: shop", "models/gold/x.sql": "SELECT id FROM bronze.orders"}).path
    code, stdout, stderr = run(folder, monkeypatch)
    assert code == 0
    assert "warning missing-key: models/gold/x.sql:1: no `key`" in stdout
    assert stdout.endswith("2 models: 0 errors, 2 warnings\n")
    assert "without the lake" in stderr
    assert run(folder, monkeypatch, "--strict")[0] == 1
    assert run(folder, monkeypatch, "--at", "main")[0] == 1
    assert run(folder, monkeypatch, "gold.y")[0] == 2


def test_json_tells_the_same(project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(
        {**ORDERS, "mere.yaml": "name: shop", "models/gold/x.sql": f"{GOOD}SELECT id, nothing FROM bronze.orders"}
    )
    code, stdout, _ = run(folder.path, monkeypatch, "--json")
    assert code == 1
    told = json.loads(stdout)
    assert (told["models"], told["errors"], told["warnings"]) == (2, 1, 0)
    assert told["findings"][0] | {"message": ""} == {
        "rule": "unknown-column", "severity": "error", "model": "gold.x", "file": "models/gold/x.sql", "line": 3,
        "column": 12, "message": "", "remedy": None,
    }  # fmt: skip


def test_columns_of_outside_tables_are_those_of_the_lake(project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(
        {"mere.yaml": "name: shop", "models/gold/x.sql": f"{GOOD}SELECT id, amuont FROM bronze.orders"}
    ).path
    with Lake.create(folder / "lake") as lake:
        write(lake, "bronze.orders", ROWS)
    code, stdout, _ = run(folder, monkeypatch)
    assert code == 1
    assert "there is no column `amuont`. Did you mean amount?" in stdout


def test_a_table_that_nobody_makes_is_told_where_there_is_a_lake(
    project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    audits = "-- key: id\n-- audits:\n--   - relationships: {column: id, to: raw.cities}\n"
    folder = project(
        {
            "mere.yaml": "name: shop",
            "models/gold/x.sql": f"{audits}SELECT id\nFROM bronze.ordres",
            "models/gold/y.sql": f"{GOOD}SELECT x.id FROM gold.x JOIN bronze.orders USING (id)",
        }
    ).path
    assert "unknown-table" not in run(folder, monkeypatch)[1]
    with Lake.create(folder / "lake") as lake:
        write(lake, "bronze.orders", ROWS)
    code, stdout, _ = run(folder, monkeypatch)
    assert code == 0
    told = [line.removeprefix("warning unknown-table: ") for line in stdout.splitlines() if "unknown-table" in line]
    assert told == [
        "models/gold/x.sql:3: no model makes raw.cities, and it is not in the lake.",
        "models/gold/x.sql:5: no model makes bronze.ordres, and it is not in the lake. Did you mean bronze.orders?",
    ]


TIMES = {
    "seeds/bronze/t.csv": "id,local,instant,day\n",
    "seeds/bronze/t.yaml": "key: id\ntypes: {local: timestamp_ntz, instant: timestamp, day: date}",
}


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        ("SELECT id, date_trunc('HOUR', local) AS x FROM bronze.t", 14),
        ("SELECT id, date_trunc('MONTH', day) AS x FROM bronze.t", 14),
        ("SELECT id, CAST(local AS timestamp) AS x FROM bronze.t", None),
        ("SELECT id, local::timestamp AS x FROM bronze.t", None),
        ("SELECT id, to_timestamp(local) AS x FROM bronze.t", None),
        ("SELECT id, coalesce(instant, local) AS x FROM bronze.t", None),
        ("SELECT id, CASE WHEN id > 1 THEN local ELSE instant END AS x FROM bronze.t", None),
        ("SELECT id, day + INTERVAL 3 HOURS AS x FROM bronze.t", None),
        ("SELECT id, from_utc_timestamp(instant, 'America/New_York') AS x FROM bronze.t", None),
        ("SELECT id, max(date_trunc('HOUR', local)) OVER (PARTITION BY id) AS x FROM bronze.t", None),
        ("SELECT id, x FROM (SELECT id, date_trunc('DAY', t.local) AS x FROM bronze.t AS t)", None),
        ("WITH a AS (SELECT * FROM bronze.t) SELECT id, date_trunc('DAY', local) AS x FROM a", None),
        ("SELECT id, local AS x FROM bronze.t UNION ALL SELECT id, instant FROM bronze.t", None),
    ],
)  # fmt: skip
def test_a_local_time_that_becomes_an_instant_is_found(project: MakeProject, sql: str, column: int | None) -> None:
    folder = project({**TIMES, "models/gold/x.sql": GOOD + sql})
    (finding,) = findings(folder)
    assert (finding.rule, finding.line, finding.is_error) == (Rule.ZONE_UNASKED, 3, False)
    assert finding.message.startswith("`x` is ")
    assert column is None or finding.column is None or finding.column >= column - 2


@pytest.mark.parametrize(
    "value",
    [
        "local",
        "instant",
        "day",
        "CAST(date_trunc('HOUR', local) AS timestamp_ntz)",
        "CAST(date_trunc('MONTH', day) AS date)",
        "CAST(local AS timestamp_ltz)",
        "to_utc_timestamp(local, 'America/New_York')",
        "local + INTERVAL 1 HOUR",
        "day + INTERVAL 1 DAY",
        "date_trunc('HOUR', instant)",
        "max(local)",
        "trunc(local, 'MM')",
        "hour(date_trunc('HOUR', local))",
        "CAST(from_utc_timestamp(instant, 'America/New_York') AS timestamp_ntz)",
    ],
)
def test_a_zone_that_was_asked_for_is_no_finding(project: MakeProject, value: str) -> None:
    folder = project({**TIMES, "models/gold/x.sql": f"{GOOD}SELECT id, {value} AS x FROM bronze.t"})
    assert findings(folder) == []


def test_an_instant_is_followed_through_models_contracts_and_the_lake(project: MakeProject, tmp_path: Path) -> None:
    first = f"{GOOD}SELECT id, CAST(date_trunc('HOUR', local) AS timestamp_ntz) AS hour FROM bronze.t"
    second = f"{GOOD}SELECT id, date_trunc('DAY', hour) AS day FROM silver.a"
    folder = project({**TIMES, "models/silver/a.sql": first, "models/gold/x.sql": second})
    assert [each.model for each in findings(folder)] == ["gold.x"]
    history = (
        "-- kind: scd2\n-- key: id\n-- updated_at: local\n-- audits: [{not_null: id}]\nSELECT id, local FROM bronze.t"
    )
    (finding,) = findings(project({**TIMES, "models/gold/x.sql": history}))
    assert "valid_from is an instant" in finding.message


def test_a_view_that_trino_cannot_read_is_told_of_where_the_profile_names_one(project: MakeProject) -> None:
    folder = project(
        {
            "models/gold/v.sql": "-- kind: view\nSELECT id, initcap(customer) AS c FROM bronze.people",
            "models/gold/w.sql": "-- kind: view\nSELECT id, customer FROM bronze.people",
            "models/gold/x.sql": "-- kind: view\nSELECT id, initcap(customer) AS c FROM bronze.later",
        }
    )
    with Lake.create(folder.path / "lake") as lake:
        write(lake, "bronze.people", ROWS)
        tables = lake.at()
        told = check(folder.path, (), None, tables, for_trino=True).findings
        (found_,) = [each for each in told if each.rule is Rule.NOT_IN_TRINO]
        assert (found_.model, found_.is_error) == ("gold.v", False)
        assert found_.message.startswith("cannot be read from Trino: `INITCAP(customer)` is not proven")
        assert [each for each in check(folder.path, (), None, tables).findings if each.rule is Rule.NOT_IN_TRINO] == []
