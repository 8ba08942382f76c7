"""What the README of an example shows of its commands: a block of text is what the last command above it prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import matches

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SIZE = re.compile(r"\b\d+(\.\d+)? (B|KB|MB)(?![\w/])")  # of files, which is another with each version of Parquet


@dataclass(frozen=True)
class Sample:
    heading: str  # of the part of the page
    command: str
    output: str

    def __str__(self) -> str:
        return self.command


def samples(example: str) -> Iterator[Sample]:
    """Those of the page, from top to bottom."""
    page = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    command = ""
    for block in _BLOCK.finditer(page):
        language, body = block.groups()
        if language == "sh":
            command = re.sub(r"\s+#[^\"']*$", "", body.rstrip().rpartition("\n")[2])
        elif language == "text":
            assert command.startswith("mere "), f"{example}: {body}"
            yield Sample(re.findall(r"^#+ (.*)$", page[: block.start()], re.MULTILINE)[-1], command, body)


def assert_shown(sample: Sample, printed: str) -> None:
    expected, found = (_SIZE.sub("<size>", text).splitlines() for text in (sample.output, printed))
    if sample.command.startswith("mere run"):  # models are done in another order each time
        expected, found = sorted(expected), sorted(found)
    shown = f"{sample.command}\nin the README:\n{sample.output}\nprinted:\n{printed}"
    assert matches(expected, "\n".join(found)), shown


def assert_all_shown(example: str, printed: Callable[[Sample], str]) -> None:
    """The page has samples, and each of them is what comes out."""
    found = list(samples(example))
    assert found
    for sample in found:
        assert_shown(sample, printed(sample))
