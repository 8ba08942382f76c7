"""The request for a run, its events, and its result."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from mere.config import LandingSettings
from mere.errors import CheckFailed
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit
from mere.lake.log.runs import Run
from mere.names import MAIN, TableName
from mere.pipeline.plan.facts import HeadFacts, LakeFacts
from mere.pipeline.plan.kinds.inputs import same_code
from mere.pipeline.plan.plan import plan
from mere.pipeline.plan.remedies import on_branch
from mere.pipeline.plan.steps import Plan, Wish
from mere.project.check.findings import Finding
from mere.project.graph import CHANGED, Graph
from mere.sources.landing import Landing
from mere.sources.offered import Offers
from mere.sparkconfig import SparkSettings


class IfRunning(StrEnum):
    """What to do if another run is writing the same tables."""

    WAIT = "wait"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class Request:
    on: str = MAIN
    selection: tuple[str, ...] = ()
    chosen: frozenset[TableName] | None = None  # what the selection meant when the run began; see `resolved`
    wish: Wish = field(default_factory=Wish)
    resume: str | None = None  # the id of a run that did not come to its end
    id: str | None = None  # of a new run, where whoever starts it has chosen one, to follow it from the beginning
    if_running: IfRunning = IfRunning.WAIT
    message: str | None = None
    threads: int = 4
    check: bool = True  # whether errors that `mere check` is certain of keep the run from starting
    now: datetime | None = None  # what time it is, if that is not to be asked: in a test


@dataclass(frozen=True)
class Event:
    """Something that happened, for whoever watches. `about` can be written as JSON."""

    kind: str
    model: TableName | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


@dataclass(frozen=True)
class Project:
    """A project, read, and the lake that it belongs to."""

    lake: Lake
    graph: Graph
    folder: Path
    spark: SparkSettings
    variables: Mapping[str, str] = field(default_factory=dict)  # as given for this run
    landing: LandingSettings | None = None
    offers: Offers | None = None  # what sources were found to have, where that is to be asked only once
    heads: HeadFacts = field(default_factory=HeadFacts, compare=False, repr=False)

    def new_offers(self) -> Offers:
        if self.landing is None:
            return Offers(self.folder)
        signed = self.spark.rest is not None and self.spark.rest.signed
        return Offers(self.folder, Landing(self.lake.storage, self.landing.location, signed))

    def facts(self, ref: str, now: datetime) -> LakeFacts:
        """Of the ref as it is now."""
        return self.heads.of(self.lake, ref, now, self.offers)


@dataclass(frozen=True)
class Finished:
    """A run that did what it should. Without a run there was nothing to do, or another run is at it."""

    plan: Plan
    run: Run | None = None
    commit: Commit | None = None
    skipped: str | None = None


def planned(project: Project, request: Request, now: datetime, ref: str | None = None) -> Plan:
    """What `mere plan` shows and `mere run` carries out."""
    project = project if project.offers else replace(project, offers=project.new_offers())
    known = project.facts(ref or request.on, now)
    if request.chosen is None:
        chosen = selected(project.graph, request.selection, known)
    else:
        chosen = {name for name in request.chosen if name in project.graph.models}
    due = plan(project.graph, known, chosen, request.wish)
    steps = (replace(step, remedy=on_branch(step.remedy, request.on, due.ref)) for step in due.steps)
    return replace(due, steps=tuple(steps))


def errors_in(project: Project, due: Plan) -> tuple[Finding, ...]:
    """What `mere check` is certain of, in the models of a plan and those upstream of them."""
    from mere.project.check.check import errors

    return errors(project.folder, project.graph, {step.model.name for step in due.steps}, project.lake.at(due.ref))


def refuse_errors(project: Project, request: Request, due: Plan) -> None:
    """Before Spark starts: it would fail there, only later."""
    found = errors_in(project, due) if request.check else ()
    if found:
        lines = [f"{each}\n  {each.remedy}" if each.remedy else str(each) for each in found]
        on = [] if request.on == MAIN else ["--on", request.on]
        again = ["mere", "run", "--no-check", *on, *request.selection]
        count = "an error" if len(found) == 1 else f"{len(found)} errors"
        raise CheckFailed(
            "\n".join([*lines, f"mere check finds {count}. Nothing was run."]),
            remedy=f"Fix this and run again. To run anyway: {shlex.join(again)}",
        )


def resolved(project: Project, request: Request, now: datetime) -> Request:
    """With the names that are selected now: what is `changed` is so no more when the run has built it."""
    if not request.selection:
        return request  # everything, also what is added before the run is resumed
    known = project.facts(request.on, now)
    return replace(request, chosen=frozenset(selected(project.graph, request.selection, known)))


def selected(graph: Graph, patterns: Sequence[str], known: LakeFacts) -> set[TableName]:
    """`changed` are the models whose code is not what stands on the ref."""
    if not any(CHANGED in pattern for pattern in patterns):
        return graph.select(patterns)
    built = known.built_by_mere()
    changed = {
        name for name, model in graph.models.items() if name not in built or not same_code(model, built[name].code)
    }
    return graph.select(patterns, changed)
