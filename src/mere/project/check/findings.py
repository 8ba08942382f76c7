"""What `mere check` finds, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mere.project.model import Csv, Model, Python, Sql
from mere.project.rules import ERRORS, Rule
from mere.sources.source import Source

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class Finding:
    rule: Rule
    message: str
    file: str | None
    line: int | None = None
    column: int | None = None
    remedy: str | None = None
    model: str | None = None
    certain: bool = True  # False: a load or somebody's write may make it right before Spark gets there

    @property
    def is_error(self) -> bool:
        return self.rule in ERRORS and self.certain

    @property
    def place(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "severity": "error" if self.is_error else "warning",
            "model": self.model,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "remedy": self.remedy,
        }


def about(rule: Rule, model: Model, message: str, remedy: str | None = None) -> Finding:
    """A finding about a model as a whole."""
    return Finding(rule, message, model.file, model.body.line, None, remedy, str(model))


def position(node: exp.Expr, body: Sql | Python | Csv | Source) -> tuple[int, int | None]:
    """The line and column in the file; in an expanded macro, those that they would have if it stood there."""
    at: exp.Expr | None = node
    while at is not None:
        for each in at.walk():
            if "line" in each.meta:
                start = int(each.meta["col"]) - (each.meta["end"] - each.meta["start"])
                return body.line + int(each.meta["line"]) - 1, start if at is node else None
        at = at.parent  # not every word knows its place: an alias beside it does
    return body.line, None
