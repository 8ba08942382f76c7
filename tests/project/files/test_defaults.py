"""`defaults:` of mere.yaml, owners and tags."""

from __future__ import annotations

import pytest

from mere.errors import UsageError
from mere.names import TableName
from mere.pipeline.plan.kinds.inputs import same_code
from mere.pipeline.state.state import shape_of
from mere.project.kinds import Kind
from mere.windows import Grain
from tests.project.conftest import MakeProject

DEFAULTS = """
name: shop
defaults:
  schemas:
    silver: {kind: incremental, time_column: at, grain: hour, owner: ann, tags: [core]}
  folders:
    models: {owner: bob}
    models/silver/late: {owner: cy}
    seeds: {tags: [static]}
"""
EVENTS = "SELECT id, at FROM raw.events WHERE at >= :start AND at < :end"
FILES = {
    "mere.yaml": DEFAULTS,
    "seeds/raw/cities.csv": "id\n",
    "models/silver/a.sql": EVENTS,
    "models/silver/b.sql": f"-- grain: month\n-- owner: di\n{EVENTS}",
    "models/silver/c.sql": "-- kind: full\nSELECT 1 AS id",
    "models/silver/late/d.py": """
        from mere import model, table

        @model("silver.d")
        def d(events=table("raw.events", time="at")):
            return events
        """,
    "models/gold/e.sql": "SELECT 1 AS id",
}


def test_a_model_has_the_settings_of_its_schema_and_folders_unless_it_says_otherwise(project: MakeProject) -> None:
    models = {str(name): model for name, model in project(FILES).load().models.items()}
    told = {
        name: (model.kind, model.time and model.time.grain, model.owner, model.tags) for name, model in models.items()
    }
    assert told == {
        "silver.a": (Kind.INCREMENTAL, Grain.HOUR, "bob", ("core",)),  # a folder goes before a schema
        "silver.b": (Kind.INCREMENTAL, Grain.MONTH, "di", ("core",)),  # the model itself before both
        "silver.c": (Kind.FULL, None, "bob", ("core",)),  # what has no effect on its kind is not said to it
        "silver.d": (Kind.INCREMENTAL, Grain.HOUR, "cy", ("core",)),  # the nearest folder goes first
        "gold.e": (Kind.FULL, None, "bob", ()),
        "raw.cities": (Kind.SEED, None, None, ("static",)),
    }


def test_a_default_is_the_same_as_the_setting_in_the_model(project: MakeProject) -> None:
    by_default = project(FILES).model("silver.a")
    written = "-- kind: incremental\n-- time_column: at\n-- grain: hour\n"
    others = {"models/silver/b.sql": "SELECT 1 AS id", "models/silver/late/d.py": ""}
    folder = project({**FILES, **others, "mere.yaml": "name: shop", "models/silver/a.sql": written + EVENTS})
    by_itself = folder.model("silver.a")
    assert same_code(by_default, by_itself.code)
    assert shape_of(by_default) == shape_of(by_itself)
    assert by_default.time == by_itself.time


def test_a_changed_default_is_seen_through_the_cache(project: MakeProject) -> None:
    folder = project(FILES)
    assert folder.model("silver.a").time.grain is Grain.HOUR  # type: ignore[union-attr]
    folder.write({"mere.yaml": DEFAULTS.replace("grain: hour", "grain: year")})
    assert folder.model("silver.a").time.grain is Grain.YEAR  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("defaults", "line", "message", "remedy"),
    [
        ("schemas:\n    silvr: {owner: ann}", 4, "no model is in `silvr`", "Did you mean `silver`?"),
        ("folders:\n    models/old: {owner: ann}", 4, "no model is in `models/old`", "Valid folders"),
        ("schemas:\n    silver:\n      description: x", 5, "`description` cannot be a default", "owner"),
        ("schemas:\n    silver: {contract: {id: int}}", 4, "`contract` cannot be a default", "owner"),
        ("schemas:\n    silver: {kind: incremental, time_column: at,\n     grain: dya}", 5, "`dya`", "Did you mean"),
        ("tables: {}", 3, "unknown key `tables` in `defaults`", "schemas"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line_in_mere_yaml(
    project: MakeProject, defaults: str, line: int, message: str, remedy: str
) -> None:
    folder = project({"mere.yaml": f"name: shop\ndefaults:\n  {defaults}\n", "models/silver/a.sql": EVENTS,
                      "models/silver/b.sql": EVENTS})  # fmt: skip
    problem = next(each for each in folder.problems() if "mere.yaml" in (each.file or ""))
    assert problem.line == line
    assert message in problem.problem
    assert remedy in (problem.remedy or "")


def test_models_are_chosen_by_their_owner(project: MakeProject) -> None:
    graph = project(FILES).load()
    assert graph.select(["owner:di"]) == {TableName("silver", "b")}
    assert graph.select(["tag:core", "owner:bob"]) == {
        TableName.parse(name) for name in ("silver.a", "silver.b", "silver.c", "silver.d", "gold.e")
    }
    with pytest.raises(UsageError, match="Did you mean owner:bob"):
        graph.select(["owner:bib"])
