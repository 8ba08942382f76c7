"""Projects on the suite's warm JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from mere.api.project import Project
from tests.pipeline.shop import Shop

MakeShop = Callable[..., tuple[Shop, Project]]


@pytest.fixture
def shop(tmp_path: Path, warm_jvm: None) -> Iterator[MakeShop]:
    """`shop(files)` makes a project with a lake, and opens it; they are closed after the test."""
    made: list[tuple[Shop, Project]] = []

    def make(files: Mapping[str, str], settings: str = "") -> tuple[Shop, Project]:
        it = Shop(tmp_path / f"shop{len(made)}", files, settings)
        made.append((it, Project.open(it.folder)))
        return made[-1]

    yield make
    for it, project in made:
        project.close()
        it.lake.close()
