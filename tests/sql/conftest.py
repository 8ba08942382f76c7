"""Some of what a query says is only told where a project is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.conftest import MakeProject, ProjectFolder


@pytest.fixture
def project(tmp_path: Path) -> MakeProject:
    return ProjectFolder(tmp_path / "shop").write
