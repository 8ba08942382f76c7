"""What a declared key promises, by the kind of its model."""

from __future__ import annotations

import pytest

from mere.audits.rules import Key, Severity
from mere.project.model import Model
from tests.project.conftest import MakeProject

FULL = "SELECT 1 AS id, current_date AS at"
INCREMENTAL = """
-- kind: incremental
-- time_column: at
SELECT id, at FROM bronze.events WHERE at >= :start AND at < :end"""
APPEND = "-- kind: append\nSELECT id, at FROM bronze.events"
MERGE = "-- kind: merge\nSELECT id, at FROM bronze.events"
SCD2 = "-- kind: scd2\nSELECT id, at FROM bronze.events"
VIEW = "-- kind: view\nSELECT id, at FROM bronze.events"

# kind, its query, and for each `key_audit` what is asked: the columns, among which rows, and whether only for NULL.
TABLE, WINDOWS, NULLS, NOTHING = "table", "windows", "nulls", None
CASES = {
    "full": (FULL, TABLE, TABLE, TABLE),
    "incremental": (INCREMENTAL, WINDOWS, TABLE, WINDOWS),
    "append": (APPEND, NOTHING, TABLE, TABLE),
    "merge": (MERGE, NULLS, TABLE, NULLS),
    "scd2": (SCD2, TABLE, TABLE, TABLE),
    "view": (VIEW, TABLE, TABLE, TABLE),
}


def asked(model: Model) -> str | None:
    if not model.audits:
        return NOTHING
    (audit,) = model.audits
    assert isinstance(audit.rule, Key)
    assert audit.rule.columns == model.row_key
    return NULLS if audit.rule.built else TABLE if audit.rule.whole else WINDOWS


@pytest.mark.parametrize("kind", CASES)
def test_a_key_brings_an_audit_as_its_kind_needs_one(kind: str, project: MakeProject) -> None:
    query, default, table, warned = CASES[kind]
    settings = {
        "default": "",
        "table": "-- key_audit: table\n",
        "warn": "-- key_audit: warn\n",
        "off": "-- key_audit: off\n",
    }
    it = project({f"models/gold/{name}.sql": f"-- key: id\n{text}{query.lstrip()}" for name, text in settings.items()})
    models = {name: it.model(f"gold.{name}") for name in settings}
    found = {name: asked(model) for name, model in models.items()}
    assert found == {"default": default, "table": table, "warn": warned, "off": NOTHING}
    assert {each.severity for each in models["warn"].audits} == {Severity.WARN}
    assert {each.severity for name in ("default", "table") for each in models[name].audits} == {Severity.ERROR}


def test_it_stands_where_the_key_does_and_before_the_other_audits(project: MakeProject) -> None:
    it = project({"models/gold/a.sql": "-- description: x\n-- key: [id, at]\n-- audits: [{not_null: at}]\n" + FULL})
    first, second = it.model("gold.a").audits
    assert (first.name, first.place, second.name) == ("key(id, at)", "models/gold/a.sql:2", "not_null(at)")


def test_a_history_is_told_apart_by_its_key_and_when_a_version_began(project: MakeProject) -> None:
    model = project({"models/gold/a.sql": "-- key: id\n" + SCD2}).model("gold.a")
    assert model.row_key == ("id", "valid_from")
    assert str(model.audits[0]) == "key(id, valid_from)"


def test_seeds_and_python_models_have_it_too(project: MakeProject) -> None:
    it = project(
        {
            "seeds/raw/cities.csv": "id,name\n1,Wien\n",
            "seeds/raw/cities.yaml": "key: id\n",
            "models/gold/a.py": """
                from mere import model, table

                @model("gold.a", key=["id"], key_audit="warn")
                def a(cities=table("raw.cities")):
                    return cities
            """,
        }
    )
    seed, python = it.model("raw.cities").audits, it.model("gold.a").audits
    assert [(str(each), each.severity) for each in (*seed, *python)] == [("key(id)", "error"), ("key(id)", "warn")]


FILES = "files: raw/events-*.csv\nkey: id\n"
DATABASE = "database: {url: 'postgresql://db/shop', table: orders%s}\nkey: id\n"


@pytest.mark.parametrize(
    ("text", "nulls_only"),
    [
        (FILES, False),
        (DATABASE % "", False),
        (DATABASE % ", cursor: at", True),
        (DATABASE % ", cursor: at" + "key_audit: table\n", False),
    ],
)
def test_of_a_source_rows_that_come_by_key_are_asked_only_for_null(
    text: str, nulls_only: bool, project: MakeProject
) -> None:
    readable, key = project({"sources/bronze/events.yaml": text}).model("bronze.events").audits
    assert (readable.name, key.name) == ("readable", "key(id)")
    assert isinstance(key.rule, Key)
    assert key.rule.built is nulls_only


def test_a_schema_can_loosen_it_by_default(project: MakeProject) -> None:
    it = project(
        {
            "mere.yaml": "name: shop\ndefaults:\n  schemas:\n    gold: {key_audit: warn}\n",
            "models/gold/a.sql": "-- key: id\n" + FULL,
            "models/gold/b.sql": FULL,
        }
    )
    assert [each.severity for each in it.model("gold.a").audits] == [Severity.WARN]
    assert it.model("gold.b").audits == ()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("key: id\n-- key_audit: never", "`key_audit` cannot be `never`"),
        ("key_audit: warn", "`key_audit` has no effect: there is no `key`"),
    ],
)
def test_what_it_cannot_mean_is_refused(settings: str, says: str, project: MakeProject) -> None:
    problem = project({"models/gold/a.sql": f"-- {settings}\n{FULL}"}).problem()
    assert says in problem.message
    assert problem.file == "models/gold/a.sql"
