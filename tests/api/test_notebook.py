"""What a project's results show in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.api.project import Project
from mere.lake.lake import Lake
from tests.api.test_project import FILES, write
from tests.lake import iceberg_tables

HOSTILE = {
    "models/gold/bad.sql": "-- audits:\n--   - assert: \"city <> '<script>x</script>'\"\n"
    "SELECT city, '<script>' AS tag, missing FROM silver.orders\n"
}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    folder = tmp_path / "shop"
    write(folder, {**FILES, **HOSTILE})
    with Lake.create(folder / "lake") as lake:
        iceberg_tables.create(lake, "silver.orders")
    with Project.open(folder) as project:
        yield project


def test_results_print_themselves_on_a_line(project: Project) -> None:
    (commit, *_) = project.lake.log()
    shown = [project.check(), project.audit(), project.models, project.lake.diff("main", "main"), commit]
    assert [repr(each) for each in shown] == [
        f"<CheckResult {project.check().counts}>",
        f"<AuditResult main: {project.audit().counts}>",
        repr(dict(project.models)),
        "<Diff of main and main: 0 tables>",
        f"<Commit {commit.short_id} of {commit.at:%Y-%m-%d %H:%M:%SZ} by {commit.by}: {commit.message or commit.kind}>",
    ]
    assert repr(project.models["gold.revenue"]) == "<Model gold.revenue: full, models/gold/revenue.sql>"
    assert project.lake.log().to_dict()[0] == commit.to_dict()


def test_results_show_themselves(project: Project) -> None:
    plan = project.plan()
    shown = {
        "plan": plan,
        "check": project.check(),
        "audit": project.audit(),
        "runs": project.runs(),
        "quarantine": project.quarantine(),
    }
    for name, each in shown.items():
        html = each._repr_html_()  # type: ignore[attr-defined]
        assert html.startswith("<div>"), name
        assert "<script" not in html, name
        assert "color" not in html, name
    html = plan._repr_html_()
    assert "gold.revenue" in html
    assert "silver.orders needs a decision" in html
    assert "error " in html  # what a run would not start for
    assert "missing" in project.check()._repr_html_()
