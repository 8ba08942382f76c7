"""The modules of a project in one file, for workers that do not have its folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mere.project.archive import archive


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "shop"
    for name in ("helper.py", "lib/rates.py", "lib/notes.txt", ".hidden/a.py", "env/lib/b.py", "inner/c.py"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"NAME = {name!r}\n")
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / "inner" / "mere.yaml").touch()
    return folder


def test_it_has_the_projects_own_modules(project: Path) -> None:
    made = archive(project)
    assert made is not None
    assert zipfile.ZipFile(made).namelist() == ["helper.py", "lib/rates.py"]


def test_equal_modules_are_one_file_and_others_another(project: Path) -> None:
    first = archive(project)
    (project / "lib" / "notes.txt").write_text("of no module")
    assert archive(project) == first
    (project / "helper.py").write_text("NAME = 'another'\n")
    assert archive(project) != first


def test_without_a_module_there_is_none(tmp_path: Path) -> None:
    assert archive(tmp_path) is None
