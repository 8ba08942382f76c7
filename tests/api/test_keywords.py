"""Whatever a flag of the command line can say, a keyword of Python can, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest

from mere.api.choice import RunOptions
from mere.api.project import Project
from mere.cli import main

# What says how a result is shown, and not what is done.
SHOWN = {"as_json", "drawing", "exit_code"}


@dataclass(frozen=True)
class Same:
    """A command and the method that does the same. `renamed`: flags by the keywords that say them; None: another
    method does. `own`: keywords that no command line can have."""

    command: str
    method: Callable[..., Any]
    renamed: Mapping[str, str | None] = field(default_factory=dict)
    own: tuple[str, ...] = ()


OPENED = {"variables": None}  # Project.open(vars=…)
CHOOSING: dict[str, str | None] = {**OPENED, "more": "select", "no_check": "check"}
COMMANDS = [
    Same("check", Project.check, {**OPENED}),
    Same("plan", Project.plan, CHOOSING),
    Same("run", Project.run, {**CHOOSING, "id_": "id"}, ("listen",)),
    Same("audit", Project.audit, {**OPENED}),
    Same("lineage", Project.lineage, {**OPENED}),
    Same("manifest", Project.manifest, {**OPENED}),
    Same("test", Project.test, {**OPENED, "create": None, "source": None, "rows": None}, ("listen",)),
    Same(
        "test",
        Project.create_test,
        {**OPENED, "create": "model", "names": None, "select": None, "at": None},
    ),
    Same("quarantine list", Project.quarantine),
    Same("quarantine retry", Project.retry, {**OPENED}, ("listen",)),
    Same("branch update", Project.update_branch, {"no_run": "run"}, ("listen",)),
    Same("runs", Project.runs),
    Same("runs show", Project.run_record, {"id_": "id"}),
    Same("runs end", Project.end_run, {"id_": "id"}),
    Same("runs clean", Project.clean_runs),
]


def parameters(path: str) -> set[str]:
    command: click.Command | None = main
    context = click.Context(main)
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(context, name)
    assert command is not None
    return {str(each.name) for each in command.params if each.name != "help"}


def keywords(method: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(method).parameters) - {"self"}


@pytest.mark.parametrize("same", COMMANDS, ids=lambda same: f"{same.command}: {same.method.__name__}")
def test_every_flag_is_a_keyword(same: Same) -> None:
    flags = parameters(same.command) - SHOWN
    said = {same.renamed.get(flag, flag) for flag in flags} - {None}
    assert said == keywords(same.method) - set(same.own)
    assert set(same.renamed) <= flags, "a flag that is renamed here is not there any more"


def test_a_run_that_is_started_takes_what_a_run_takes() -> None:
    assert set(RunOptions.__annotations__) == keywords(Project.run) - {"select", "listen"}
    assert set(inspect.signature(Project.start).parameters) == {"self", "select", "options"}


@pytest.mark.parametrize("wrong", ["mesage", "listen", "selct"])
def test_a_wrong_keyword_is_named_before_anything_begins(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "mere.yaml").write_text("name: shop\nprofiles: {local: {lake: lake}}\n")
    project: Any = Project.open(tmp_path)
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{wrong}'"):
        project.start(**{wrong: "x"})
    with pytest.raises(TypeError, match="Did you mean message"):
        project.start(mesage="x")


def test_every_command_of_a_project_has_a_method() -> None:
    """`init` makes a project, and `generate` the data of an example: there is none yet to ask."""
    from mere.cli.commands import MODULES

    of_a_project = {name for name, module in MODULES.items() if module.startswith("project.")}
    assert of_a_project - {"init", "java", "generate"} == {
        same.command.split()[0] for same in COMMANDS if same.command != "branch update"
    }
