"""The same numbers and ages are refused from Python as by the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mere.api.project import Project
from mere.errors import UsageError
from mere.lake.lake import Lake

ASKED: list[Callable[[Project, Any], object]] = [
    lambda project, given: project.run(threads=given),
    lambda project, given: project.plan(limit_windows=given),
    lambda project, given: project.runs(limit=given),
    lambda project, given: project.create_test("a.b", rows=given),
    lambda project, given: project.clean_runs(older_than=given),
    lambda project, given: project.lake.gc(grace=given),
    lambda project, given: project.lake.gc(keep=given),
    lambda project, given: project.lake.gc(keep_runs=given),
]


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("given", [0, -1, "four", 1.5, True])
def test_what_the_command_line_refuses_python_refuses(
    tmp_path: Path, ask: Callable[[Project, Any], object], given: object
) -> None:
    (tmp_path / "mere.yaml").write_text("name: shop\nprofiles:\n  local:\n    lake: lake\n")
    Lake.create(tmp_path / "lake").close()
    with Project.open(tmp_path) as project, pytest.raises(UsageError) as refused:
        ask(project, given)
    assert refused.value.remedy


def test_ages_are_read_as_on_the_command_line(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        assert not lake.gc(grace="1h", keep="7d", keep_runs=timedelta(days=1), dry_run=True).deleted
        assert not lake.clean_runs("2d", dry_run=True).refs
        with pytest.raises(UsageError, match="not an age"):
            lake.gc(grace=timedelta(seconds=-1))
        with pytest.raises(UsageError, match="samples is -1"):
            lake.diff("main", "main").rows(samples=-1)
