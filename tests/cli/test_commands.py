"""What mere prints to be typed works as it stands, with the options that the user gave."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

import mere
from mere.cli import main
from mere.cli.commands import MODULES, as_typed
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from tests.cli.test_cli import Shell
from tests.lake import iceberg_tables


@pytest.fixture
def away(tmp_path: Path) -> Shell:
    """A folder without a project, and a lake beside it."""
    (tmp_path / "here").mkdir()
    with Lake.create(tmp_path / "a lake") as lake:
        iceberg_tables.create(lake, "gold.orders")
    return Shell(tmp_path / "here")


@pytest.mark.parametrize("words", [["tables", "--lake", "../a lake"], ["tables", "--json", "--lake=../a lake"]])
def test_an_option_of_the_group_is_shown_where_it_goes(away: Shell, words: list[str]) -> None:
    refused = away(*words, exit_code=2)
    assert "--lake goes before the command: mere " in refused.stderr
    line = next(each for each in refused.stderr.splitlines() if "goes before" in each)
    assert "gold" in away(*typed(line)).stdout


LAKE = "--lake '../a lake'"


def typed(text: str) -> list[str]:
    """The command at the end of a line, as a shell takes it apart."""
    return shlex.split(text.strip().rpartition("mere ")[2])


def test_a_printed_command_has_the_options_of_the_one_that_was_typed(away: Shell) -> None:
    lake = ["--lake", "../a lake"]
    assert f"start one: mere {LAKE} engine start" in away(*lake, "engine", "status").stdout
    failed = away(*lake, "runs", "show", "nobody", exit_code=1).stderr
    assert failed.endswith(f"See them with: mere {LAKE} runs\n")
    away(*typed(failed))
    failed = away(*lake, "branch", "delete", "*", exit_code=1).stderr
    assert "Only main matches '*', and a pattern passes over it. Nothing was deleted." in failed
    away(*typed(failed))
    assert f"kept until mere {LAKE} gc" in _deleted(away, lake)


def _deleted(away: Shell, lake: list[str]) -> str:
    away(*lake, "branch", "create", "dev")
    return away(*lake, "branch", "delete", "dev").stdout


def test_the_doctor_prints_them_too(away: Shell) -> None:
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(away.folder / "../a lake/catalog.db")) as database, database:
        database.execute("DROP TRIGGER mere_tables_delete")
    lake = ["--lake", "../a lake"]
    assert f"mere {LAKE} doctor --mend" in away(*lake, "doctor", "--no-spark", exit_code=1).stdout
    away(*lake, "doctor", "--no-spark", "--mend")


SOURCES = Path(mere.__file__).parent
_END = r"   |\n|[;:)(]|, (?:then|or|and)\b|\. |&& |\.$|$|\bmere [a-z]"
_COMMAND = re.compile(rf"\bmere ((?:{'|'.join(MODULES)})\b.*?)(?={_END})")


def printed(source: Path) -> Iterator[tuple[int, str]]:
    """The commands in the texts of a module, with X for what is filled in."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    filled = [each for each in ast.walk(tree) if isinstance(each, ast.JoinedStr)]
    parts = {id(part) for each in filled for part in ast.walk(each)}
    plain = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in parts]
    for node in (*filled, *plain):
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in pieces)
        yield from ((node.lineno, found[1]) for found in _COMMAND.finditer(text))


def test_every_command_that_is_printed_has_the_options_that_it_is_printed_with() -> None:
    seen, unknown = 0, []
    for source in sorted(SOURCES.rglob("*.py")):
        for line, text in printed(source):
            command: click.Command = main
            words = text.replace("`", " ").split()
            while isinstance(command, click.Group) and (inner := command.get_command(click.Context(main), words[0])):
                command, words = inner, words[1:] or [""]
            options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
            given = [found[0] for word in words if (found := re.match(r"--?[a-z][a-z-]*", word))]
            unknown += [f"{source.name}:{line}: mere {text}" for name in given if name not in options]
            seen += bool(given)
    assert unknown == []
    assert seen > 60


def test_options_of_the_environment_need_not_be_typed(away: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERE_LAKE", "../a lake")
    assert "start one: mere engine start" in away("engine", "status").stdout


@pytest.mark.parametrize(
    ("given", "text", "expected"),
    [
        (["--profile", "stack"], "mere run --resume 1", "mere --profile stack run --resume 1"),
        (["--lake", "x", "--profile", "y"], "See: mere log", "See: mere --lake x --profile y log"),
        (["--lake", "x"], "mere --lake PATH …", "mere --lake PATH …"),
        (["--lake", "x"], "mere is a lakehouse", "mere is a lakehouse"),
        (["--lake", "lost"], "mere init\nmere adopt lost/warehouse", "mere init\nmere adopt lost/warehouse"),
        ([], "mere run", "mere run"),
    ],
)
def test_only_commands_get_them(given: list[str], text: str, expected: str) -> None:
    with main.make_context("mere", [*given, "tables"]):
        assert as_typed(text) == expected
    assert click.get_current_context(silent=True) is None
    assert as_typed(text) == text


def test_what_is_not_there_to_be_cleaned_is_told_as_it_is(away: Shell) -> None:
    lake = ["--lake", "../a lake"]
    none = "nothing to clean: no run that ended without publishing has left a branch"
    assert away(*lake, "runs", "clean").stdout == f"{none}\n"
    with Lake.open(away.folder / "../a lake") as opened:
        branch = opened.run_branch(id="abc").name
        now = datetime.now(UTC)
        opened.store.save_run(Run("abc", "main", branch, RunStatus.FAILED, "ann", now, now, now))
    assert away(*lake, "runs", "clean", "--older-than", "2d").stdout == f"{none} that has not moved for 2 d\n"
    assert "run_abc deleted" in away(*lake, "runs", "clean").stdout
