"""Projects as mappings of file names to texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from mere.errors import ConfigError, ProjectError
from mere.names import TableName
from mere.project.graph import Graph
from mere.project.load import load
from mere.project.model import Model

Files = Mapping[str, str]


class ProjectFolder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, files: Files) -> ProjectFolder:
        for name, text in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
        return self

    def load(self, **variables: str) -> Graph:
        return load(self.path, variables)

    def problems(self, **variables: str) -> tuple[ConfigError, ...]:
        with pytest.raises(ProjectError) as caught:
            self.load(**variables)
        return caught.value.problems

    def problem(self) -> ConfigError:
        found = self.problems()
        assert len(found) == 1, [str(each) for each in found]
        return found[0]

    def model(self, name: str) -> Model:
        return self.load().models[TableName.parse(name)]


MakeProject = Callable[[Files], ProjectFolder]


@pytest.fixture
def project(tmp_path: Path) -> MakeProject:
    return ProjectFolder(tmp_path / "shop").write
