"""What is in quarantine, by table, rule and run; and its rebuild (`mere quarantine retry`), since rules and data may
have been fixed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mere.audits.quarantine import FROM, TO
from mere.lake.lake import Lake
from mere.lake.query.tables import TableSet
from mere.names import AT, RULES, RUN, TableName
from mere.pipeline.plan.kinds import KINDS
from mere.pipeline.plan.kinds.inputs import Given
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.state.state import PROPERTY
from mere.project.graph import Graph
from mere.project.model import Model, Time
from mere.text.words import counted
from mere.windows import NEVER, Span, Spans, instant


@dataclass(frozen=True)
class Held:
    """Rows that one run has put aside for one rule."""

    rule: str
    run: str
    at: datetime
    rows: int


@dataclass(frozen=True)
class Quarantine:
    of: TableName
    rows: int
    held: tuple[Held, ...]  # a row that breaks two rules is in two of them

    def __repr__(self) -> str:
        return f"<Quarantine of {self.of}: {counted(self.rows, 'row')}>"

    @property
    def by_rule(self) -> dict[str, int]:
        """How many rows break each of the rules, over all runs."""
        found: dict[str, int] = {}
        for each in self.held:
            found[each.rule] = found.get(each.rule, 0) + each.rows
        return found

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": str(self.of),
            "quarantine": str(self.of.quarantine),
            "rows": self.rows,
            "held": [
                {"rule": each.rule, "run": each.run, "at": each.at.isoformat(), "rows": each.rows} for each in self.held
            ],
        }


def quarantines(lake: Lake, names: Collection[TableName], at: str) -> list[Quarantine]:
    """Of these tables, or of all if none is named; those without a row as well."""
    tables = lake.at(at)
    return [
        Quarantine(of, tables.metadata(name).rows, _held(lake, name, tables.commit.id))
        for name in tables
        if (of := name.quarantined) is not None and (not names or of in names) and _is_ours(tables, name)
    ]


def _is_ours(tables: TableSet, name: TableName) -> bool:
    return not tables.is_view(name) and PROPERTY in tables.metadata(name).properties


def _held(lake: Lake, quarantine: TableName, commit: str) -> tuple[Held, ...]:
    each = f"SELECT unnest({RULES}) AS rule, {RUN}, {AT} FROM {_named(quarantine)}"
    query = f"SELECT rule, {RUN}, max({AT}), count(*) FROM ({each}) GROUP BY ALL ORDER BY 3, 2, 1"
    with lake.sql(query, commit) as result:
        return tuple(Held(rule, run, instant(at), rows) for rule, run, at, rows in result.rows())


def to_retry(lake: Lake, graph: Graph, names: Collection[TableName], on: str) -> dict[TableName, Spans]:
    """Of these models, or of all if none is named: those that have rows in quarantine, with the windows of these."""
    tables = lake.at(on)
    found = {}
    for name, model in graph.models.items():
        quarantine = name.quarantine
        if (names and name not in names) or quarantine not in tables or not _is_ours(tables, quarantine):
            continue
        metadata = tables.metadata(quarantine)
        if metadata.rows:
            timed = FROM in metadata.columns
            found[name] = _windows(lake, model, model.time, on) if model.time and timed else NEVER
    return found


def _windows(lake: Lake, model: Model, time: Time, on: str) -> Spans:
    from mere.sql.spelling.standard import quoted

    truncated = f"date_trunc('{time.grain}', {quoted(time.column)})"
    with lake.sql(f"SELECT DISTINCT {truncated}, {FROM}, {TO} FROM {_named(model.name.quarantine)}", on) as result:
        rows = list(result.rows())
    starts = [instant(at) for at, _, _ in rows if at is not None]
    built = [Span(instant(start), instant(end)) for at, start, end in rows if at is None and start is not None]
    return Spans.of([*(Span(start, time.grain.next(start)) for start in starts), *built]).widened(time.grain)


def _named(table: TableName) -> str:
    from mere.sql.spelling.standard import quoted

    return f"{quoted(table.namespace)}.{quoted(table.name)}"


def with_retry(step: Step, given: Given) -> Step:
    """A step that tries them, too. What is built whole does so anyway."""
    if step.model.name not in given.wish.retry or step.action in (Action.BUILD, Action.BLOCKED):
        return step
    return KINDS[step.model.kind].retried(step, given, "its quarantined rows are tried again")
