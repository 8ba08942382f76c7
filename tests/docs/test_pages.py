"""The documentation is part of the program: what exists is shown, and what is shown happens."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from mere.config import KEYS
from tests.docs.conftest import Follow
from tests.docs.pages import PAGES, ROOT, Shell, Step, matches, page_id, shown, steps

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

# What exists is documented


def commands() -> Iterator[str]:
    """`mere branch`, `mere gc` …: every command that a user can type and that does something by itself."""
    from mere.cli import main

    return below(main, "mere")


def below(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    if path != "mere" and (not names or getattr(command, "invoke_without_command", False)):
        yield path
    for name in names:
        subcommand = command.get_command(context, name) if isinstance(command, click.Group) else None
        if subcommand is not None and not subcommand.hidden:
            yield from below(subcommand, f"{path} {name}")


def settings() -> Iterator[str]:
    """The keys of mere.yaml."""
    return (f"{key}:" for key in KEYS)


PROMISES: dict[str, Callable[[], Iterator[str]]] = {"command": commands, "setting": settings}


@pytest.mark.parametrize("kind", PROMISES)
def test_all_that_exists_is_documented(kind: str) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent == ROOT / "docs")
    missing = [name for name in PROMISES[kind]() if not re.search(rf"\b{re.escape(name)}(?!\w)", text)]
    assert missing == [], f"no page in docs/ shows these: {missing}"


# What links, leads somewhere


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(page.read_text(encoding="utf-8"))]
    relative = [target for target in targets if target and "://" not in target and not target.startswith("mailto:")]
    assert [target for target in relative if not (page.parent / target).exists()] == []


# What is to be copied, is read

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_A_ROLE = re.compile(r"`((?:write|publish): [\[{][^`]*)`")


def test_every_role_that_a_page_shows_can_be_read() -> None:
    from mere.serve.roles import file

    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        whole = [block for block in YAML.findall(text) if block.startswith("roles:")]
        parts = [f"roles:\n  one:\n    tables: '*'\n    {' '.join(part.split())}\n" for part in IN_A_ROLE.findall(text)]
        for each in (*whole, *parts):
            file.of_text(each, page)
            found.append(each)
    assert len(found) >= 3


# What is shown, happens


@pytest.mark.parametrize("page", shown(with_spark=False), ids=page_id)
def test_what_a_page_shows_happens(page: Path, follow: Follow) -> None:
    follow(page)


# The reader of pages itself


def test_output_is_compared_loosely_but_not_blindly() -> None:
    shown = "a1b2c3d4e5f6  2026-11-15T09:00:01Z  +3 rows\nnext\n"
    assert matches(["00000000aaaa  2026-01-01 10:00   +3 rows", "next"], shown)
    assert matches(["... +3 rows", "..."], shown)
    assert not matches(["... +4 rows", "next"], shown)
    assert not matches(["... +3 rows"], shown)


def test_a_console_block_is_read_as_commands_exit_codes_and_output() -> None:
    assert steps("$ mere log  # exit 1\nno lake\n$ cat <<E\n> hello\n> E\nhello\n") == [
        Step("mere log  # exit 1", 1, ["no lake"]),
        Step("cat <<E\nhello\nE", 0, ["hello"]),
    ]


def test_a_shell_keeps_its_folder_and_reports_exit_codes(tmp_path: Path) -> None:
    shell = Shell(tmp_path, dict(os.environ))
    assert shell.run("mkdir a && cd a")[0] == 0
    assert shell.run("cat <<E\n$(basename $PWD)\nE")[1].strip() == "a"
    assert shell.run("false  # exit 1")[0] == 1
    shell.close()
