"""What `mere check` is certain of, beyond the columns of a query: audits, settings, imports, values that change."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest

from mere import Lake
from mere.project.check.check import Finding, check, errors
from mere.project.check.examine import Examined, Examiner
from mere.project.load import load
from mere.project.model import Model
from mere.project.rules import Rule
from tests.lake.orders import write
from tests.project.conftest import MakeProject, ProjectFolder

ORDERS = {
    "seeds/raw/orders.csv": "id,amount,ordered_at,city_id\n",
    "seeds/raw/cities.csv": "city_id,name\n",
}


def found(folder: ProjectFolder, rule: Rule = Rule.UNKNOWN_COLUMN) -> list[Finding]:
    return [each for each in check(folder.path).findings if each.rule is rule]


@pytest.mark.parametrize(
    ("audit", "message"),
    [
        ("not_null: [id, amuont]", "`amuont`, which gold.x does not have. Did you mean amount?"),
        ("unique: idd", "unique(idd) names `idd`, which gold.x does not have. Did you mean id?"),
        ("accepted_values: {column: state, values: [a]}", "names `state`, which gold.x does not have."),
        ("freshness: {column: orderd_at, within: 2 days}", "names `orderd_at`, which gold.x does not have."),
        ("relationships: {column: city, to: raw.cities, key: city_id}", "names `city`, which gold.x does not have."),
        ("relationships: {column: city_id, to: raw.cities, key: id}", "names `id`, which raw.cities does not have."),
        ("assert: amuont > 0", "assert(amuont > 0): there is no column `amuont`. Did you mean amount?"),
        ("{not_null: id, where: amuont > 0}", "not_null(id): there is no column `amuont`. Did you mean amount?"),
        ("{row_count: {min: 1}, where: amuont > 0}", "there is no column `amuont`."),
        ("no_gaps: amuont", "no_gaps(column: amuont): there is no column `amuont`. Did you mean amount?"),
    ],
)  # fmt: skip
def test_an_unknown_column_in_an_audit(project: MakeProject, audit: str, message: str) -> None:
    folder = project(
        {
            **ORDERS,
            "audits/no_gaps.sql": "SELECT id FROM {{ this }} WHERE {{ column }} IS NULL",
            "models/gold/x.sql": f"-- audits:\n--   - {audit}\nSELECT id, amount, ordered_at, city_id FROM raw.orders",
        }
    )
    (only,) = found(folder)
    assert message in only.message
    assert (only.file, only.line, only.is_error) == ("models/gold/x.sql", 2, True)


def test_audits_that_name_what_is_there(project: MakeProject) -> None:
    folder = project(
        {
            **ORDERS,
            "audits/no_gaps.sql": "SELECT t.ID FROM {{ this }} t JOIN raw.cities c USING (city_id) WHERE c.name = ''",
            "models/gold/x.sql": """
            -- audits:
            --   - not_null: [ID, Amount]
            --   - assert: x.amount > 0 AND exists(array(1), a -> a > amount)
            --   - relationships: {column: city_id, to: raw.cities}
            --   - no_gaps: {}
            SELECT id, amount, city_id FROM raw.orders
            """,
        }
    )
    assert found(folder) == []


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ("key: idd", "idd"),
        ('partition_by: "bucket(4, idd)"', "idd"),
        ("sort_by: [amuont DESC]", "amuont"),
        ("kind: merge\n-- key: id\n-- latest_by: changed_at", "changed_at"),
        ("kind: scd2\n-- key: id\n-- updated_at: changed_at", "changed_at"),
        ("kind: scd2\n-- key: id\n-- compare: [amuont]", "amuont"),
        ("columns: {amuont: what was paid}", "amuont"),
    ],
)
def test_an_unknown_column_in_a_setting(project: MakeProject, settings: str, names: str) -> None:
    folder = project({**ORDERS, "models/gold/x.sql": f"-- {settings}\nSELECT id, amount FROM raw.orders"})
    (only,) = found(folder)
    assert f"names `{names}`, which gold.x does not have" in only.message


def test_an_unknown_time_of_an_input(project: MakeProject) -> None:
    model = """
        from mere import model, table

        @model("gold.x", kind="incremental", time_column="day")
        def x(orders=table("raw.orders", time="orderd_at")):
            return orders
        """
    (only,) = found(project({**ORDERS, "models/gold/x.py": model}))
    assert only.message == "raw.orders has no column `orderd_at`. Did you mean ordered_at?"


def test_a_contract_says_the_columns_of_a_python_model(project: MakeProject) -> None:
    model = """
        from mere import model, table

        @model("silver.x", contract={"id": "bigint"}, audits=[{"not_null": "idd"}])
        def x(orders=table("raw.orders")):
            return orders
        """
    folder = project({**ORDERS, "models/silver/x.py": model, "models/gold/y.sql": "SELECT id, amount FROM silver.x"})
    assert [each.model for each in found(folder)] == ["gold.y", "silver.x"]


def test_what_a_load_may_bring_is_a_warning(project: MakeProject, tmp_path: Path) -> None:
    source = "files: data/*.csv\nformat: csv\n"
    folder = project({"sources/raw/events.yaml": source, "models/gold/x.sql": "SELECT id, city FROM raw.events"})
    with Lake.create(tmp_path / "lake") as lake:
        write(lake, "raw.events", pa.table({"id": [1]}))
        (only,) = [each for each in check(folder.path, tables=lake.at("main")).findings if "city" in each.message]
        assert not only.is_error
        assert only.message == "there is no column `city`. The next load of raw.events may bring it."
        folder.write({"sources/raw/events.yaml": f"{source}on_new_column: ignore\n"})
        (only,) = [each for each in check(folder.path, tables=lake.at("main")).findings if "city" in each.message]
        assert only.is_error


def python_model(before: str, body: str = "return orders") -> str:
    text = f'@model("gold.x")\ndef x(orders=table("raw.orders")):\n    {body}\n'
    return f"from mere import model, table\n{dedent(before)}\n{text}"


@pytest.mark.parametrize(
    ("imported", "missing"),
    [
        ("import nowhere_at_all", "nowhere_at_all"),
        ("from helpers import dates", None),
        ("from helpers import times", "helpers.times"),
        ("from .near import double", None),
        ("from .far import double", "far"),
        ("from .near import double\nimport helpers.times", "helpers.times"),
        ("import os.path, json, pyspark.sql", None),
        ("try:\n    import nowhere_at_all\nexcept ImportError:\n    pass", None),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere_at_all", None),
        ("from .broken import nothing", "nowhere_at_all"),
    ],
)
def test_a_module_that_is_not_there(project: MakeProject, imported: str, missing: str | None) -> None:
    folder = project(
        {
            **ORDERS,
            "helpers/dates.py": "",
            "models/gold/near.py": "def double(x): return 2 * x",
            "models/gold/broken.py": "import nowhere_at_all\nnothing = 1",
            "models/gold/x.py": python_model(imported),
        }
    )
    names = [each.message.split("`")[1] for each in found(folder, Rule.UNKNOWN_MODULE)]
    assert names == ([missing] if missing else [])


@pytest.mark.parametrize(
    ("before", "body", "changes"),
    [
        ("from pyspark.sql import functions as F", 'return orders.withColumn("at", F.current_timestamp())', True),
        ("from pyspark.sql.functions import rand", 'return orders.withColumn("r", rand())', True),
        ("from pyspark.sql.functions import *", 'return orders.withColumn("r", uuid())', True),
        ("import datetime as dt", "return orders.where(str(dt.datetime.now()))", True),
        ("from datetime import date", "return orders.where(str(date.today()))", True),
        ("import random", "return orders.limit(random.randint(1, 2))", True),
        ("from pyspark.sql import functions as F", 'return orders.withColumn("at", F.expr("now()"))', True),
        ("", "return orders.where(\"ordered_at < current_date\")", True),
        ("def later(df):\n    import time\n    return df.limit(int(time.time()))\n", "return later(orders)", True),
        ("", "return orders.where(\"state <> 'now()'\")", False),
        ("import random", "return orders.limit(random.Random(7).randint(1, 2))", False),
        ("class Clock:\n    def now(self): return 1\n", "return orders.limit(Clock().now())", False),
        ("def now(): return 1\n", "return orders.limit(now())", False),
    ],
)  # fmt: skip
def test_values_that_change_in_python(project: MakeProject, before: str, body: str, changes: bool) -> None:
    folder = project({**ORDERS, "models/gold/x.py": python_model(before, body)})
    assert bool(found(folder, Rule.CHANGING_VALUE)) == changes


def test_a_rule_that_quarantines_may_not_ask_the_time_but_an_audit_may(project: MakeProject) -> None:
    folder = project(
        {
            **ORDERS,
            "models/gold/x.sql": """
            -- audits:
            --   - assert: ordered_at <= current_timestamp()
            --   - {assert: "ordered_at <= now()", name: not in the future, quarantine: true}
            SELECT id, ordered_at FROM raw.orders
            """,
        }
    )
    (only,) = found(folder, Rule.CHANGING_VALUE)
    assert (only.line, only.is_error) == (3, True)
    assert "not in the future quarantines by `now()`" in only.message


def test_what_was_found_is_kept_until_something_changes(
    project: MakeProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(
        {
            **ORDERS,
            "models/silver/a.sql": "SELECT id, amount AS cents FROM raw.orders",
            "models/gold/b.sql": "SELECT id, amount FROM silver.a",
            "models/gold/c.sql": "SELECT nothing FROM raw.cities",
        }
    )
    examined: list[str] = []
    real = Examiner._examined

    def seen(self: Examiner, model: Model, key: str) -> Examined:
        examined.append(str(model))
        return real(self, model, key)

    monkeypatch.setattr(Examiner, "_examined", seen)
    with Lake.create(tmp_path / "lake") as lake:

        def wrong(*patterns: str) -> list[str | None]:
            examined.clear()
            graph = load(folder.path)
            return [each.model for each in errors(folder.path, graph, graph.select(patterns), lake.at("main"))]

        assert wrong("gold.b") == ["gold.b"]  # gold.c is not asked about
        assert examined == ["raw.orders", "silver.a", "gold.b"]
        assert wrong() == ["gold.b", "gold.c"]
        assert examined == ["raw.cities", "gold.c"]
        assert wrong() == ["gold.b", "gold.c"]
        assert examined == []
        folder.write({"models/silver/a.sql": "SELECT id, amount FROM raw.orders"})
        assert wrong() == ["gold.c"]
        assert examined == ["silver.a", "gold.b"]  # its input has other columns
