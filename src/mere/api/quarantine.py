"""The rows in quarantine, and retrying them."""

from __future__ import annotations

from mere.api.choice import Names, names_of
from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.names import TableName, near
from mere.pipeline.plan.retry import Quarantine, quarantines, to_retry
from mere.pipeline.plan.steps import Wish
from mere.pipeline.run.request import Project, Request
from mere.text.notebook import Column, Listing


def quarantined(lake: Lake, tables: Names, at: str) -> Listing[Quarantine]:
    """By table, rule and run; of all tables if none is named."""
    columns = (Column("table"), Column("rows", True), Column("rules"))
    return Listing(quarantines(lake, _owners(tables), at), f"rows in quarantine on {at}", columns, _cells)


def _cells(of: Quarantine) -> tuple[object, ...]:
    return of.of, f"{of.rows:,}", ", ".join(f"{rule} {rows:,}" for rule, rows in of.by_rule.items())


def retrying(project: Project, tables: Names, on: str, message: str | None) -> tuple[Project, Request] | None:
    """What the quarantined rows belong to; None if there are none."""
    names = _owners(tables)
    for name in names:
        if name not in project.graph.models:
            known = near(str(name), map(str, project.graph.models))
            raise UsageError(f"There is no model {name}.{known}", remedy="See mere quarantine list.")
    tables_there = project.lake.at(on)
    for name in names:
        if not project.graph.models[name].quarantines and name.quarantine not in tables_there:
            raise UsageError(
                f"{name} has no quarantine.", remedy="Only rules with `quarantine: true` set rows aside. See audits."
            )
    retry = to_retry(project.lake, project.graph, names, on)
    if not retry:
        return None
    return project, Request(on=on, selection=tuple(map(str, retry)), wish=Wish(retry=retry), message=message)


def _owners(tables: Names) -> list[TableName]:
    """Of models or of their quarantines: both names of a table will do."""
    names = [TableName.parse(each) for each in names_of(tables)]
    return [name.quarantined or name for name in names]
