"""The mistakes in a project's files that can be found before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mere.project.check.findings import Finding
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted


@dataclass(frozen=True)
class CheckResult:
    models: int  # that were looked at
    findings: tuple[Finding, ...]  # in the order of files and lines
    strict: bool = False  # warnings are errors
    without_lake: str | None = None  # why columns of the lake's tables are not known, if they are not

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.is_error or self.strict)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if not (each.is_error or self.strict))

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def counts(self) -> str:
        """`12 models: 1 error, 0 warnings`"""
        counts = f"{counted(len(self.errors), 'error')}, {counted(len(self.warnings), 'warning')}"
        return f"{counted(self.models, 'model')}: {counts}" if self.models else counts

    def __repr__(self) -> str:
        return f"<CheckResult {self.counts}>"

    def _repr_html_(self) -> str:
        columns = [Column("severity"), Column("rule"), Column("place"), Column("message"), Column("remedy")]
        rows = [
            ("error" if each in self.errors else "warning", each.rule, each.place, each.message, each.remedy)
            for each in self.findings
        ]
        return notebook.shown(self.counts, notebook.table(columns, rows))

    def to_dict(self) -> dict[str, Any]:
        """What `mere check --json` prints."""
        errors = self.errors
        return {
            "models": self.models,
            "errors": len(errors),
            "warnings": len(self.findings) - len(errors),
            "findings": [
                each.to_dict() | {"severity": "error" if each in errors else "warning"} for each in self.findings
            ],
        }
