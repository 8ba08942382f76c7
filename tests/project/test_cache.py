from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from mere.project import cache
from mere.project.cache import Cached
from mere.project.load import Loader
from mere.project.model import Sql
from tests.project.conftest import MakeProject, ProjectFolder

FILES = {
    "mere.yaml": "name: shop\nvars: {n: 1}\n",
    "macros/m.sql": "{% macro one() %}1{% endmacro %}",
    "audits/no_gaps.sql": "SELECT * FROM {{ this }} WHERE {{ column }} IS NULL",
    "models/a/x.sql": "-- audits: [{no_gaps: a}, {assert: a > 0, allow: 1%}]\n"
    "SELECT {{ one() }} AS a, {{ var('n') }} AS n",
    "models/a/y.sql": "-- kind: incremental\n-- time_column: d\n-- start: 2024\n"
    "SELECT d FROM a.z WHERE d >= :start AND d < :end",
    "models/a/p.py": "from mere import model, table\nimport lib\n@model('a.p')\ndef p(x=table('a.x')): return x\n",
    "lib.py": "X = 1\n",
    "seeds/s.csv": "a\n1\n",
}  # fmt: skip

PROBE = """
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from mere.project.load import load
graph = load(Path(sys.argv[1]))
print(len(graph.models), [name for name in ("sqlglot", "jinja2", "mere.project.files.python") if name in sys.modules])
"""


@pytest.fixture
def folder(project: MakeProject) -> ProjectFolder:
    return project(FILES)


def parsed(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a load has to read anew."""
    seen: list[str] = []

    def watched(read: Callable[[Loader, PurePosixPath], Cached]) -> Callable[[Loader, PurePosixPath], Cached]:
        def watch(loader: Loader, path: PurePosixPath) -> Cached:
            seen.append(path.name)
            return read(loader, path)

        return watch

    with monkeypatch.context() as patch:
        for method in ("_read_sql", "_read_python"):
            patch.setattr(Loader, method, watched(getattr(Loader, method)))
        folder.load()
    return sorted(seen)


def test_an_unchanged_project_needs_neither_sqlglot_nor_jinja(folder: ProjectFolder) -> None:
    command = [sys.executable, "-c", PROBE, str(folder.path)]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    second = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert first == "4 ['sqlglot', 'jinja2', 'mere.project.files.python']\n"
    assert second == "4 []\n"


def test_what_comes_from_the_cache_is_what_was_read(folder: ProjectFolder) -> None:
    assert folder.load() == folder.load()
    assert (folder.path / ".mere" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("file", "text", "again"),
    [
        ("models/a/x.sql", "SELECT 2 AS a", ["x.sql"]),
        ("models/a/new.sql", "SELECT 2 AS a", ["new.sql"]),
        ("lib.py", "X = 2\n", ["p.py"]),
        ("lib/__init__.py", "X = 2\n", ["p.py"]),
        ("macros/m.sql", "{% macro one() %}2{% endmacro %}", ["p.py", "x.sql", "y.sql"]),
        ("mere.yaml", "name: shop\nvars: {n: 2}\n", ["p.py", "x.sql", "y.sql"]),
        ("audits/no_gaps.sql", "SELECT 1 FROM {{ this }} WHERE {{ column }}", ["p.py", "x.sql", "y.sql"]),
        ("mere.yaml", "name: shopping\nvars: {n: 1}\n", []),
        ("README.md", "hello", []),
    ],
)
def test_what_changed_is_read_anew(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, file: str, text: str, again: list[str]
) -> None:
    assert parsed(folder, monkeypatch) == ["p.py", "x.sql", "y.sql"]
    assert parsed(folder, monkeypatch) == []
    folder.write({file: text})
    assert parsed(folder, monkeypatch) == again
    assert parsed(folder, monkeypatch) == []


def test_a_variable_of_the_command_line_counts(folder: ProjectFolder) -> None:
    texts = []
    for options in ({}, {"n": "5"}, {}):
        body = folder.load(**options).models[next(name for name in folder.load().models if name.name == "x")].body
        assert isinstance(body, Sql)
        texts.append(body.text)
    assert texts == ["SELECT 1 AS a, 1 AS n", "SELECT 1 AS a, 5 AS n", "SELECT 1 AS a, 1 AS n"]


def test_values_from_the_environment_are_not_kept(project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project({"models/a/x.sql": "-- description: of ${OWNER}\nSELECT 1 AS a"})
    for owner in ("ann", "bob"):
        monkeypatch.setenv("OWNER", owner)
        assert folder.model("a.x").description == f"of {owner}"


@pytest.mark.parametrize("damage", ["empty", "nonsense", "cut", "flipped"])
def test_a_damaged_cache_is_read_over(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    graph = folder.load()
    file = folder.path / ".mere" / "cache" / "models"
    whole = file.read_bytes()
    flipped = bytes([*whole[:-9], whole[-9] ^ 1, *whole[-8:]])
    ways = {"empty": b"", "nonsense": b"nonsense", "cut": whole[: len(whole) // 2], "flipped": flipped}
    file.write_bytes(ways[damage])
    assert folder.load() == graph
    assert parsed(folder, monkeypatch) == []


class _Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_a_cache_from_elsewhere_cannot_run_code(folder: ProjectFolder) -> None:
    import hashlib

    graph = folder.load()
    trap = folder.path / "trapped"
    content = pickle.dumps({"stamp": cache.stamp(), "files": _Trap(trap)})
    (folder.path / ".mere" / "cache" / "models").write_bytes(hashlib.sha256(content).digest() + content)
    assert folder.load() == graph
    assert not trap.exists()


def test_another_version_reads_anew(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.load()
    monkeypatch.setattr(cache, "stamp", lambda: "another")
    assert len(cache.Cache(folder.path, cache.MODELS)._old) == 0


def test_a_folder_that_cannot_be_written_has_no_cache(project: MakeProject) -> None:
    folder = project({**FILES, ".mere": "a file in the way"})
    assert len(folder.load().models) == 4
