"""Rules about the tree itself that no other tool checks."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "mere").rglob("*.py"))
ROOMS = sorted({path.parent for path in SOURCES})

VAGUE = {"utils", "util", "common", "core", "helpers", "helper", "misc"}
HEAVY = {"duckdb", "fastavro", "pyarrow", "pyiceberg", "pyspark", "py4j", "sqlalchemy", "sqlglot"}

# Written in pieces, so that this file passes its own test.
MACHINE_PATH = re.compile(r"(?<![\w.~$})\]-])/(?:" + "|".join(["root", "home", "Users", "work"]) + r")/\w")
REGISTRY = re.compile("|".join(re.escape(".".join(host)) for host in (
    ("pypi", "org"), ("pythonhosted", "org"), ("repo1", "maven"), ("repo", "maven"), ("maven", "org"),
)))  # fmt: skip


def tree() -> Iterator[Path]:
    """Every text file that is, or could be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in sorted(filter(None, listed.stdout.split("\0"))):
        path = ROOT / name
        if path.is_file() and b"\0" not in path.read_bytes():
            yield path


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in tree()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_each_decision_has_a_number_of_its_own_and_a_date() -> None:
    decisions = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    numbers = Counter(path.name[:4] for path in decisions)
    assert [number for number, count in numbers.items() if count > 1] == []
    wrong = [
        path.name
        for path in decisions[1:]
        if not (text := path.read_text(encoding="utf-8")).startswith(f"# {path.name[:4]}: ")
        or not re.search(r"^Date: \d{4}-\d\d-\d\d\. Status: ", text, re.MULTILINE)
    ]
    assert wrong == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {path: set(path.relative_to(ROOT / "src").with_suffix("").parts) for path in SOURCES}
    assert [str(path) for path, names in parts.items() if names & VAGUE] == []


def test_no_room_is_crowded() -> None:
    modules = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    assert {str(room): number for room, number in modules.items() if number > 18} == {}


def test_every_room_says_in_a_sentence_what_is_true_of_its_modules() -> None:
    said = {room: ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) for room in ROOMS}
    assert [str(room) for room, text in said.items() if not text] == []


def test_every_room_has_tests() -> None:
    elsewhere = {"cli/service"}  # where the server, the users and the engine are tested
    names = {room.relative_to(ROOT / "src" / "mere").as_posix() for room in ROOMS} - elsewhere
    assert sorted(name for name in names if not any((ROOT / "tests" / name).rglob("test_*.py"))) == []


def test_the_picture_of_the_tree_has_every_room_and_no_other() -> None:
    picture = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("```text")[2].partition("```")[0]
    drawn: list[str] = []
    above: list[str] = []
    for indent, name, about in re.findall(r"^( *)([\w/]+)/(.*)$", picture, re.MULTILINE):
        above = [*above[: len(indent) // 2], name]
        drawn.append("/".join(above))
        assert about.strip() or name == "src/mere", name
    assert sorted(drawn) == [room.relative_to(ROOT).as_posix() for room in ROOMS]


def test_what_the_guide_for_changes_names_is_there() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("| to change | go to |")[2]
    places = [name for row in table.partition("\n\n")[0].splitlines() for name in re.findall(r"`([\w./]+)`", row)]
    assert len(places) > 10
    assert [each for each in places if not (ROOT / "src/mere" / each).exists() and not (ROOT / each).exists()] == []


def test_no_modules_import_each_other_in_a_circle_not_even_inside_of_functions() -> None:
    graph = grimp.build_graph("mere", exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imported) == len(SOURCES)
    TopologicalSorter(imported).prepare()  # or a CycleError, which names the modules


def test_no_module_is_longer_than_450_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path.name: length for path, length in lengths.items() if length > 450} == {}


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a Markdown file that are neither in a table nor in a code block."""
    code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = line.lstrip().startswith("```")
        if not (fence or code or line.startswith("|")):
            yield number, line
        code ^= fence


def test_prose_in_markdown_is_at_most_120_columns_wide() -> None:
    pages = [path for path in tree() if path.suffix == ".md"]
    assert len(pages) > 50
    wide = [f"{page.relative_to(ROOT)}:{n}" for page in pages for n, line in prose(page) if len(line) > 120]
    assert wide == []


def test_what_is_left_to_the_long_run_is_listed_with_what_stands_for_it() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = page.partition("### What only `make test-long` runs")[2].partition("\n## ")[0]
    mark = "mark" + ".long"  # in pieces, or this file would be one of them
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if mark in path.read_text(encoding="utf-8")]
    assert files
    assert [path.name for path in files if path.name not in listed] == []


@pytest.mark.parametrize(
    "start",
    [
        pytest.param("import mere", id="import mere"),
        pytest.param("import mere.cli; mere.cli.main(['--help'], standalone_mode=False)", id="mere --help"),
    ],
)
def test_start_up_imports_nothing_heavy(start: str) -> None:
    code = f"{start}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(shown.stdout.splitlines()[-1])}
    assert loaded & HEAVY == set()


def test_the_lock_names_no_index_and_has_a_hash_for_every_package() -> None:
    for name in ("requirements.lock", "requirements-uv.txt", "requirements-build.txt"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"^\s*--(index|extra-index|find-links)|https?://", text, re.MULTILINE), name
        pins = re.findall(r"^[A-Za-z0-9].*==.*$", text, re.MULTILINE)
        assert pins, name
        assert [pin for pin in pins if not pin.endswith("\\")] == [], name


def test_the_lock_fits_pyproject() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {
        canonicalize_name(name): version
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)", text, re.MULTILINE)
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    unfit = []
    for requirement in map(Requirement, wanted):
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            unfit.append(f"{requirement} is locked as {version}")
    assert unfit == [], "run `make lock`"


def test_the_wheel_holds_the_examples_and_nothing_that_a_run_leaves(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("mere/examples/")}
    examples = [file.parent for file in (ROOT / "examples").glob("*/mere.yaml")]
    left = ("lake", "data", ".mere", "__pycache__")
    wanted = {
        f"mere/{file.relative_to(ROOT).as_posix()}"
        for folder in examples
        for file in folder.rglob("*")
        if file.is_file() and not set(file.relative_to(folder).parts) & set(left)
    }
    assert packed == wanted
