"""The results of a project's audits on a ref."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mere.audits.engines import columns_at, duckdb_sql
from mere.audits.evaluate import Finding, State
from mere.errors import QueryError
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit
from mere.names import TableName
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted

_MARKS = {State.OK: "·", State.WARNED: "!", State.FAILED: "✗", State.ERROR: "✗"}


@dataclass(frozen=True)
class AuditResult:
    """`missing`: models with audits that are not built on the ref."""

    at: str
    commit: Commit
    findings: tuple[Finding, ...]
    missing: tuple[TableName, ...]
    lake: Lake = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether no audit of severity error has failed."""
        return not any(each.blocks for each in self.findings)

    @property
    def bad(self) -> tuple[Finding, ...]:
        """All that did not pass, whatever their severity."""
        return tuple(each for each in self.findings if each.state is not State.OK)

    @property
    def counts(self) -> str:
        """`12 audits at commit 3fa9c1d2b4: 11 ok, 1 failed`"""
        states = [each.state for each in self.findings]
        counts = ", ".join(f"{states.count(state)} {state}" for state in State if state in states)
        return f"{counted(len(states), 'audit')} at commit {self.commit.short_id}: {counts}"

    @property
    def summary(self) -> tuple[Sequence[Column], list[Sequence[object]]]:
        """What `mere audit` prints, as columns and rows."""
        columns = (Column(""), Column("table"), Column("audit"), Column("state"), Column("result"))
        return columns, [
            (_MARKS[each.state], each.table, each.audit, each.state, each.message) for each in self.findings
        ]

    def __repr__(self) -> str:
        return f"<AuditResult {self.at}: {self.counts}>"

    def _repr_html_(self) -> str:
        lines = [*(f"{table} is not built on {self.at}" for table in self.missing)]
        return notebook.shown(self.counts, notebook.table(*self.summary), notebook.lines(lines))

    def to_dict(self) -> dict[str, Any]:
        """What `mere audit --json` prints."""
        return {
            "ref": self.at,
            "commit": self.commit.id,
            "findings": [
                {**each.to_dict(), "duckdb": in_duckdb(self.lake, each.query, self.at)} for each in self.findings
            ],
            "missing": [str(table) for table in self.missing],
        }


def in_duckdb(lake: Lake, query: str, at: str) -> str | None:
    """A query that shows the bad rows of an audit, for `lake.sql`; None if only Spark can run it."""
    try:
        return duckdb_sql(query, columns_at(lake, at))
    except QueryError:
        return None
