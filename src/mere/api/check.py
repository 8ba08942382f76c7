"""What can be known to be wrong in a project's files before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mere.project.check.findings import Finding


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
