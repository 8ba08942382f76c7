"""A project from Python, without a JVM: what the command line prints as JSON, and what was edited is seen."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner

from mere.api.check import CheckResult
from mere.api.lineage.columns import ColumnLineage
from mere.api.lineage.tables import TableLineage
from mere.api.plan import PlanState
from mere.api.project import Project
from mere.cli import main
from mere.errors import ConfigError, LakeNotFound, UsageError
from mere.lake.lake import Lake
from tests.lake import iceberg_tables

FILES = {
    "mere.yaml": "name: shop\nvars:\n  city: Bern\nprofiles:\n  local:\n    lake: lake\n",
    "seeds/raw/orders.csv": "id,amount,city\n1,20,Bern\n2,30,Rome\n",
    "models/silver/orders.sql": """
        -- audits:
        --   - unique: id
        SELECT id, amount, city FROM raw.orders WHERE city = '{{ var('city') }}'
        """,
    "models/gold/revenue.sql": """
        SELECT city, sum(amount) AS revenue FROM silver.orders GROUP BY city
        """,
    "sources/bronze/trips.yaml": "files: data/*.csv\nformat: csv\n",
}
EDITED = {
    "models/gold/revenue.sql": "SELECT city, sum(amount) AS revenue, 1 AS orders FROM silver.orders GROUP BY city\n"
}


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text).lstrip("\n"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    write(folder, FILES)
    with Lake.create(folder / "lake") as lake:
        iceberg_tables.create(lake, "silver.orders")
    return folder


@pytest.fixture
def project(folder: Path) -> Iterator[Project]:
    with Project.open(folder) as project:
        yield project


def printed(folder: Path, *arguments: str) -> Any:
    here = Path.cwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(main, [*arguments, "--json"])
    finally:
        os.chdir(here)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return json.loads(done.stdout)


def plain(value: Any) -> Any:
    """As JSON has it, without what a clock says."""
    found = json.loads(json.dumps(value, default=str))
    return {key: each for key, each in found.items() if key not in ("now", "generated_at")}


def test_a_project_is_found_from_a_folder_below(folder: Path, tmp_path: Path) -> None:
    for path in (folder, str(folder), folder / "models" / "gold", folder / "mere.yaml"):
        assert Project.open(path).folder == folder
    with pytest.raises(ConfigError, match=r"There is no mere.yaml in .* or in a folder above") as none:
        Project.open(tmp_path)
    assert none.value.remedy == "Make a project: mere init DIR."


def test_models_sources_and_seeds_are_by_name(project: Project) -> None:
    assert list(project.models) == ["silver.orders", "gold.revenue"]
    assert list(project.sources) == ["bronze.trips"]
    assert list(project.seeds) == ["raw.orders"]
    assert len(project.graph.models) == 4
    assert project.models["gold.revenue"].file == "models/gold/revenue.sql"
    assert project.name == "shop"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        pytest.param(["plan", "gold.revenue"], lambda it: it.plan("gold.revenue"), id="plan"),
        pytest.param(
            ["plan", "--select", "+silver.*", "--full-refresh", "--no-check"],
            lambda it: it.plan(select=["+silver.*"], full_refresh=True, check=False),
            id="plan with options",
        ),
        pytest.param(["check"], lambda it: it.check(), id="check"),
        pytest.param(["check", "--strict", "gold.*"], lambda it: it.check("gold.*", strict=True), id="check strictly"),
        pytest.param(["audit"], lambda it: it.audit(), id="audit"),
        pytest.param(["lineage"], lambda it: it.lineage(), id="lineage of the project"),
        pytest.param(
            ["lineage", "gold.revenue.revenue", "--up"],
            lambda it: it.lineage("gold.revenue.revenue", way="up"),
            id="up",
        ),
        pytest.param(["manifest"], lambda it: it.manifest(), id="manifest"),
    ],
)
def test_to_dict_is_what_the_command_line_prints(
    project: Project, folder: Path, command: list[str], result: Any
) -> None:
    found, shown = plain(result(project).to_dict()), plain(printed(folder, *command))
    for each in (*found.get("findings", ()), *shown.get("findings", ())):
        each.pop("seconds", None)
    assert found == shown
    assert found


def test_what_is_edited_is_seen_by_the_next_verb(project: Project, folder: Path) -> None:
    assert [step.action for step in project.plan("gold.revenue").steps] == ["build"]
    before = project.graph
    assert project.graph == before
    write(folder, EDITED)
    assert "orders" in str(project.lineage("gold.revenue.orders").to_dict())
    assert project.models["gold.revenue"] != {str(name): each for name, each in before.models.items()}["gold.revenue"]
    write(folder, {"models/gold/top.sql": "SELECT max(revenue) AS top FROM gold.revenue\n"})
    assert "gold.top" in project.models
    (folder / "models/gold/top.sql").unlink()
    assert "gold.top" not in project.models


def test_mere_yaml_is_read_again_and_its_lake_opened(project: Project, folder: Path) -> None:
    first = project.lake
    assert project.lake is first
    Lake.create(folder / "other").close()
    (folder / "mere.yaml").write_text(FILES["mere.yaml"].replace("lake: lake", "lake: other"))
    assert project.lake is not first
    assert project.lake.location == str(folder / "other")
    assert list(first.at("main"))  # whoever has it still uses it
    (folder / "mere.yaml").write_text("name: shop\nprofiles: {local: {lakes: x}}\n")
    with pytest.raises(ConfigError, match="lakes"):
        _ = project.lake
    assert "lakes" in str(project.check().without_lake)


def test_another_profile_lake_or_variable_may_be_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="there is no profile `team`"):
        _ = Project.open(folder, profile="team").lake
    Lake.create(folder.parent / "elsewhere").close()
    with Project.open(folder, lake=folder.parent / "elsewhere") as named:
        assert named.lake.location == str(folder.parent / "elsewhere")
        assert str(folder.parent / "elsewhere") in repr(named)
    with Project.open(folder, vars={"city": "Rome"}) as rome, Project.open(folder) as bern:
        assert rome.models["silver.orders"].code != bern.models["silver.orders"].code
    with pytest.raises(UsageError, match="There is no variable town"):
        _ = Project.open(folder, vars={"town": 1}).graph


def test_without_the_lake_a_project_is_looked_at_and_says_why_less_is_known(project: Project, folder: Path) -> None:
    (folder / "lake").rename(folder / "elsewhere")
    assert "There is no lake" in str(project.check().without_lake)
    found = project.lineage("gold.revenue")
    assert isinstance(found, ColumnLineage)
    assert "There is no lake" in str(found.without_lake)
    with pytest.raises(LakeNotFound):
        project.check(at="main")
    with pytest.raises(LakeNotFound):
        project.plan()


def test_findings_are_errors_if_one_is_strict(project: Project, folder: Path) -> None:
    write(folder, {"macros/m.sql": "{% macro unused() %}1{% endmacro %}\n"})
    lax, strict = project.check(), project.check(strict=True)
    assert (lax.ok, strict.ok) == (True, False)
    assert lax.warnings == strict.errors == lax.findings == strict.findings
    assert "no model uses the macro `unused`" in {each.message for each in lax.warnings}
    write(folder, {"models/gold/bad.sql": "SELECT nothing FROM raw.orders\n"})
    wrong = project.check()
    assert not wrong.ok
    assert project.plan().state is PlanState.ERRORS
    assert project.plan(check=False).state is PlanState.DECISION
    assert isinstance(wrong, CheckResult)


def test_a_table_that_mere_did_not_build_is_accepted(project: Project) -> None:
    assert [str(step.model) for step in project.plan("+silver.orders").undecided] == ["silver.orders"]
    accepted = project.plan("+silver.orders", accept="silver.orders")
    assert [str(name) for name in accepted.accepted] == ["silver.orders"]
    assert accepted.undecided == ()
    assert project.lake.at("main").metadata("silver.orders").properties["mere.state"]


def test_lineage_leads_up_and_down(project: Project) -> None:
    assert isinstance(project.lineage("+gold.revenue"), TableLineage)
    up = project.lineage("silver.orders.amount", way="up")
    assert isinstance(up, ColumnLineage)
    assert {str(each.source) for each in up.edges if each.kind == "value"} == {"raw.orders.amount"}
    assert "flowchart" in project.lineage("gold.revenue").mermaid()
    assert "<svg" in project.lineage().html()
    for wrong in (("gold.revenue", "sideways"), (None, "up")):
        with pytest.raises(UsageError):
            project.lineage(wrong[0], way=wrong[1])


def test_what_cannot_be_meant_is_refused_with_a_remedy(project: Project) -> None:
    for options in (
        {"full_refresh": True, "forward_only": True},
        {"sample": "lots"},
        {"limit_windows": 0},
        {"start": "yesterday"},
        {"start": "2024-02", "end": "2024-01"},
    ):
        with pytest.raises(UsageError):
            project.plan(**options)
    with pytest.raises(UsageError, match="is none of: wait, fail, skip"):
        project.run(if_running="hope")
    with pytest.raises(UsageError, match="is not an age"):
        project.clean_runs(older_than="soon")


def test_several_threads_use_one_project(project: Project) -> None:
    found: list[object] = []

    def look() -> None:
        found.append((project.lake, len(project.models), project.plan().state))

    threads = [threading.Thread(target=look) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [(project.lake, 2, PlanState.DECISION)] * 6


def test_a_closed_project_opens_its_lake_again(project: Project) -> None:
    first = project.lake
    project.close()
    assert project.lake is not first
    assert "silver.orders" in project.lake.at("main")


def test_a_model_without_a_quarantine_cannot_be_retried(project: Project) -> None:
    with pytest.raises(UsageError, match=r"gold\.revenue has no quarantine"):
        project.retry("gold.revenue")
