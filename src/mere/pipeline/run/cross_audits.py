"""Audits that compare tables are about the ref as a whole: they must hold for what is published, whichever of the
tables was built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from mere.audits.audit import Audit, Severity
from mere.lake.lake import Lake
from mere.lake.log.commits import Space
from mere.names import TableName
from mere.pipeline.build.model import Built
from mere.pipeline.plan.facts import LakeFacts
from mere.pipeline.plan.kinds.inputs import same_code
from mere.project.graph import Graph
from mere.project.model import Model


@dataclass(frozen=True)
class Comparison:
    """One such audit, with all tables whose change can break it."""

    model: Model
    audit: Audit
    own: frozenset[TableName]  # the model's table; of a view also what it reads
    others: frozenset[TableName]


def waiting(graph: Graph, model: Model, building: Set[TableName], facts: LakeFacts) -> list[Audit]:
    """The model's audits that compare it with what may still change in this run after the model is built."""
    settled = graph.upstream([model.name])
    return [each for each in _across(model) if _behind(each.reads, facts, graph) & building - settled]


def comparisons(graph: Graph, facts: LakeFacts, changed: Set[TableName]) -> list[Comparison]:
    """What has to hold because of what a branch has changed.

    Of a model with other code than what stands there nothing is asked: it is audited when it is built.
    """
    found = []
    for model in graph.models.values():
        audits = _across(model)
        state = facts.state(model.name) if audits and model.name in facts.tables else None
        if state and same_code(model, state.code):
            own = _behind([model.name], facts)
            found += [Comparison(model, each, own, _behind(each.reads, facts)) for each in audits]
    return [each for each in found if (each.own | each.others) & changed]


def unanswered(found: list[Comparison], built: Mapping[TableName, Built], changed: Set[TableName]) -> list[Comparison]:
    """Those that the builds of this run have not answered for good: a model that was looked at by its new windows has
    to be looked at as a whole if what it is compared with has changed."""

    def answered(each: Comparison) -> bool:
        made = built.get(each.model.name)
        asked = made is not None and any(finding.audit == each.audit for finding in made.findings)
        return asked and not (made and made.scoped and each.others & changed)

    return [each for each in found if not answered(each)]


def relied_upon(found: list[Comparison], changed: Set[TableName]) -> set[TableName]:
    """What must not have moved on the target when the branch is published."""
    strict = [each for each in found if each.audit.severity is Severity.ERROR]
    return {table for each in strict for table in each.own | each.others} - changed


def changed_by(lake: Lake, branch: str, target: str) -> set[TableName]:
    changes = lake.publish(branch, target, dry_run=True).changes
    return {change.key.table for change in changes if change.key.space is Space.RELATION}


def _across(model: Model) -> list[Audit]:
    return [audit for audit in model.audits if audit.reads]


def _behind(tables: Iterable[TableName], facts: LakeFacts, graph: Graph | None = None) -> frozenset[TableName]:
    """The tables, and all that they show if they are views."""
    named = set(tables)
    points = {TableName.parse(name) for table in named for name in facts.points(table)}
    return frozenset(named | points | (graph.upstream(named) if graph else set()))
