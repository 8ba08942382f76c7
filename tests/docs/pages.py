"""The documentation is part of the program: what it shows is run, and what exists is shown.

On a page, ```console and ```python blocks are run from top to bottom in one fresh folder, with one shell and
one Python namespace:

- `$ ` starts a command, `> ` continues it; it has to succeed, or end as a trailing `# exit 1` says;
- the lines below a command are its output; `...` stands for anything, commit ids and times are all alike;
- a ```python no-run block only has to compile.

`mere run`, `mere test` and `mere branch update` are carried out by this process, on the suite's warm JVM; every other
command is a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socketserver
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from unittest import mock

import click
import pytest
from click.testing import CliRunner

from mere.config import KEYS, mere_home

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(r"^```(console|python)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
EXIT = re.compile(r"#\s*exit (\d+)\s*$")
DONE = "--- mere docs: command done ---"


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


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


# What is shown, happens


@dataclass
class Step:
    command: str
    exit_code: int = 0
    output: list[str] = field(default_factory=list)


def steps(block: str) -> list[Step]:
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:]))
        elif not found:
            raise ValueError(f"a console block starts with a command, not with {line!r}")
        elif line.startswith("> ") and not found[-1].output:
            found[-1].command += "\n" + line[2:]
        elif EXIT.match(line):
            found[-1].command += " " + line
        else:
            found[-1].output.append(line)
    for step in found:
        if marker := EXIT.search(step.command):
            step.exit_code = int(marker[1])
    return found


class Shell:
    """One bash for a page, so that `cd` and variables last."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, command: str) -> tuple[int, str]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' '{DONE}' $?\n")
        self._process.stdin.flush()
        return self._answer(self._process.stdout)

    def folder(self) -> str:
        return self.run("pwd")[1].strip()

    @staticmethod
    def _answer(stdout: IO[str]) -> tuple[int, str]:
        lines: list[str] = []
        for line in stdout:
            if line.startswith(DONE):
                return int(line.split()[-1]), "".join(lines)
            lines.append(line)
        raise AssertionError("the shell ended:\n" + "".join(lines))

    def close(self) -> None:
        self._process.communicate()


STUB = """\
#!{python}
import json, os, socket, sys
if sys.argv[1:2] not in (["run"], ["test"]) and sys.argv[1:3] != ["branch", "update"]:
    os.execv({mere!r}, [{mere!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    line.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode() + b"\\n")
    out, err, exit_code = json.loads(line.makefile().read())
sys.stdout.write(out)
sys.stdout.flush()
sys.stderr.write(err)
sys.exit(exit_code)
"""


class Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        from mere.cli import main

        folder, environment, arguments = json.loads(self.rfile.readline())
        # The shell waits for the answer, and this process for the shell: nobody else looks at these meanwhile.
        with contextlib.chdir(folder), mock.patch.dict(os.environ, environment, clear=True):
            done = CliRunner().invoke(main, arguments)
        failed = done.exception and not isinstance(done.exception, SystemExit)
        trace = "".join(traceback.format_exception(done.exception)) if failed else ""
        self.wfile.write(json.dumps([done.stdout, done.stderr + trace, done.exit_code]).encode())


@pytest.fixture(scope="module")
def runs_are_warm(warm_jvm: None) -> Iterator[Path]:
    """A folder with a `mere` that hands its runs to this process: a page need not wait for a JVM at each of them."""
    with tempfile.TemporaryDirectory(prefix="mere-docs-") as name:
        folder = Path(name)
        address = str(folder / "line")
        stub = folder / "mere"
        stub.write_text(
            STUB.format(python=sys.executable, mere=str(Path(sys.executable).parent / "mere"), address=address)
        )
        stub.chmod(0o755)
        with socketserver.UnixStreamServer(address, Answer) as server:
            thread = threading.Thread(target=server.serve_forever, name="mere-docs")
            thread.start()
            yield folder
            server.shutdown()
            thread.join()


def plain(line: str) -> str:
    """The line without what differs from run to run: ids, times, the width of columns."""
    line = re.sub(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d| UTC)?", "<time>", line)
    line = re.sub(r"\b(\d+ ?(s|m|h|d|seconds?|minutes?|hours?|days?) ago|just now)\b", "<time>", line)
    line = re.sub(r"\b\d+(\.\d+)? ?(ms|s)\b", "<time>", line)
    line = re.sub(r"(?:\b|(?<=\brun_))(?=[0-9a-f]*\d)[0-9a-f]{8,40}\b", "<id>", line)
    line = re.sub(r"([─━═-])\1{2,}", r"\1\1\1", line)
    return re.sub(r"\s+", " ", line).strip()


def matches(expected: list[str], shown: str) -> bool:
    def pattern(line: str) -> str:
        if line.strip() == "...":
            return r"(.*\n)*"
        return re.escape(plain(line)).replace(re.escape("..."), ".*") + r"\n"

    wanted = "".join(pattern(line) for line in expected if line.strip())
    lines = "".join(f"{plain(line)}\n" for line in shown.splitlines() if line.strip())
    return re.fullmatch(wanted, lines) is not None


def run_console(shell: Shell, block: str, where: str) -> None:
    for step in steps(block):
        exit_code, shown = shell.run(step.command)
        assert exit_code == step.exit_code, f"{where}: $ {step.command}\nended with {exit_code}:\n{shown}"
        expected = "\n".join(step.output)
        assert not step.output or matches(step.output, shown), (
            f"{where}: $ {step.command}\nexpected:\n{expected}\nshown:\n{shown}"
        )


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text("utf-8"))], ids=page_id)
def test_what_a_page_shows_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    folder, home = tmp_path / "page", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    # The jars are there already: fetching them again for a page would take minutes.
    monkeypatch.setenv("MERE_HOME", str(mere_home()))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    text = page.read_text(encoding="utf-8")
    if "\n$ mere run" in text:
        monkeypatch.setenv("PATH", str(request.getfixturevalue("runs_are_warm")), prepend=os.pathsep)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(folder)
    shell, namespace = Shell(folder, dict(os.environ)), {"__name__": "__main__"}
    try:
        for block in BLOCK.finditer(text):
            language, marker, body = block.groups()
            where = f"{page_id(page)}:{text.count(chr(10), 0, block.start()) + 1}"
            if language == "console":
                run_console(shell, body, where)
            else:
                code = compile(body, where, "exec")
                if marker.strip() != "no-run":
                    with contextlib.chdir(shell.folder()):  # where a reader who has typed all of it is by now
                        exec(code, namespace)
    finally:
        shell.close()


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
