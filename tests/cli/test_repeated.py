"""Options that take one value and are given twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mere.cli import main


def of_one_value(command: click.Command, path: tuple[str, ...], ctx: click.Context) -> Iterator[tuple[str, ...]]:
    for option in command.params:
        if isinstance(option, click.Option) and not (option.multiple or option.is_flag or option.count):
            yield (*path, option.opts[-1])
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from of_one_value(inner, (*path, name), click.Context(inner, parent=ctx, info_name=name))


def test_every_option_of_one_value_is_refused_twice() -> None:
    found = list(of_one_value(main, (), click.Context(main)))
    assert ("diff", "--limit") in found
    assert ("branch", "create", "--from") in found
    for *path, option in found:
        said = CliRunner().invoke(main, [*path, option, "1", f"{option}=2"])
        assert (said.exit_code, f"{option} is given twice" in said.stderr) == (2, True), (path, option, said.stderr)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--profile a --profile b tables", "--profile is given twice, and takes one value."),
        ("lineage gold.a --up --down", "--up and --down exclude each other."),
        ("lineage gold.a --html --mermaid", "--html and --mermaid exclude each other."),
        ("log -n 3 --limit 4", "--limit is given twice"),
        ("check --var a=1 --var a=2", "--var a is given twice: 1 and 2."),
    ],
)
def test_what_cannot_be_meant_is_said(line: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mere.yaml").write_text("name: shop\n")
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, line.split())
    assert found.exit_code == 2
    assert says in found.stderr


def test_what_may_be_repeated_is_kept_and_help_still_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mere.yaml").write_text("name: shop\nvars: {a: 1, b: 2}\n")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["check", "--json", "--json", "--var", "a=1", "--var", "b=1"]).exit_code == 0
    assert "--limit" in CliRunner().invoke(main, ["log", "--help"]).stdout
    assert "No such option" in CliRunner().invoke(main, ["log", "--limits", "3"]).stderr
