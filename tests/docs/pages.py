"""The pages of the documentation, and what is to be done on them.

On a page, ```console and ```python blocks are run from top to bottom in one fresh folder, with one shell and
one Python namespace:

- `$ ` starts a command, `> ` continues it; it has to succeed, or end as a trailing `# exit 1` says;
- the lines below a command are its output; `...` stands for anything, commit ids and times are all alike;
- a ```python no-run block only has to compile.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(r"^```(console|python)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"#\s*exit (\d+)\s*$")
DONE = "--- mere docs: command done ---"


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


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


SPARK = re.compile(r"\bmere (run|test|branch update)\b|--spark\b|\bmere\.session\(")


def shown(*, with_spark: bool) -> list[Path]:
    """The pages that show something: those on which Spark works, or all others."""
    found = {page: "".join(block[3] for block in BLOCK.finditer(page.read_text("utf-8"))) for page in PAGES}
    return [page for page, blocks in found.items() if blocks and bool(SPARK.search(blocks)) is with_spark]


def follow(page: Path, folder: Path, environment: dict[str, str]) -> None:
    """Do what a page shows, in the folder."""
    text = page.read_text(encoding="utf-8")
    shell, namespace = Shell(folder, environment), {"__name__": "__main__"}
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
