"""What a run would build, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from mere.api.choice import Choice
from mere.lake.query.tables import TableSet
from mere.names import TableName
from mere.pipeline.plan import steps
from mere.pipeline.plan.steps import Action, LeftBehind, Load, Step
from mere.pipeline.run import request
from mere.pipeline.run.documents import plan_document
from mere.project.check.findings import Finding
from mere.project.check.trino import not_in_trino
from mere.project.rules import Rule
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted, size

_MARKS = {
    Action.SKIP: "·",
    Action.BUILD: "+",
    Action.WINDOWS: "~",
    Action.ROWS: "~",
    Action.KEYS: "~",
    Action.LOAD: "~",
    Action.ALTER: "=",
    Action.AUDIT: "?",
    Action.BLOCKED: "!",
}


class PlanState(StrEnum):
    """What is left to do, as `mere plan --exit-code` reports it."""

    NOTHING = "nothing"
    WORK = "work"
    DECISION = "decision"  # nobody but the user can say what to do
    ERRORS = "errors"  # a run would refuse to start


@dataclass(frozen=True)
class Plan:
    """What is due on a ref, model by model. `errors`: what mere check finds; with any, a run would not start."""

    due: steps.Plan = field(repr=False)
    tables: TableSet = field(repr=False)
    errors: tuple[Finding, ...] = ()
    accepted: tuple[TableName, ...] = ()  # taken as built, as they stand, before this plan was made

    @property
    def ref(self) -> str:
        return self.due.ref

    @property
    def now(self) -> datetime:
        return self.due.now

    @property
    def steps(self) -> tuple[Step, ...]:
        """One for each selected model, up to date or not, in dependency order."""
        return self.due.steps

    @property
    def building(self) -> tuple[Step, ...]:
        return self.due.building

    @property
    def undecided(self) -> tuple[Step, ...]:
        """Steps that need a decision, now or during the run; `remedy` lists the options."""
        return self.due.undecided

    @property
    def left_behind(self) -> tuple[LeftBehind, ...]:
        """Tables that no model makes any more."""
        return self.due.left_behind

    @property
    def load(self) -> Load:
        """How much it reads."""
        return self.due.load

    @property
    def state(self) -> PlanState:
        if self.errors:
            return PlanState.ERRORS
        if self.undecided:
            return PlanState.DECISION
        return PlanState.WORK if self.building else PlanState.NOTHING

    @property
    def summary(self) -> tuple[Sequence[Column], list[Sequence[object]]]:
        """What is not up to date, as columns and rows: what `mere plan` prints."""
        columns = (Column(""), Column("model"), Column("kind"), Column("why"), Column("reads", True), Column("", True))
        return columns, [_cells(step) for step in self._due]

    @property
    def _due(self) -> list[Step]:
        return [step for step in self.steps if step.action is not Action.SKIP]

    @property
    def rest(self) -> str:
        """`3 models up to date`; nothing, if there are none."""
        if not self.steps:
            return "nothing to do: no models"
        found = self._due
        skipped = len(self.steps) - len(found)
        current = f"{counted(skipped, 'model')} up to date" if skipped else ""
        return current if found else f"nothing to do: {current}"

    @property
    def notes(self) -> list[str]:
        return [f"{step.model}: {note}" for step in self.steps for note in step.notes]

    def _repr_html_(self) -> str:
        asked = [f"{decision(step)}\n{step.remedy}" for step in self.undecided]
        errors = [f"error {each.rule}: {each}" for each in self.errors]
        lines = notebook.lines([*filter(None, [self.rest]), *self.notes, *asked, *errors])
        return notebook.shown(f"plan for {self.ref}: {self.state}", notebook.table(*self.summary), lines)

    def __repr__(self) -> str:
        return f"<Plan for {self.ref}: {len(self.building)} of {len(self.steps)} models to build, {self.state}>"

    def to_dict(self) -> dict[str, Any]:
        """What `mere plan --json` prints."""
        return {**plan_document(self.due, self.tables), "errors": [each.to_dict() for each in self.errors]}


def planned(project: request.Project, choice: Choice, accept: tuple[str, ...] = (), *, for_trino: bool = False) -> Plan:
    """The plan for a choice of models, once those that are to be accepted count as built. `for_trino`: it says which
    views Trino cannot read."""
    now = project.lake.now()
    wanted = choice.request(project)
    accepted = tuple(name for each in accept for name in sorted(project.graph.select([each])))
    if accepted:
        from mere.pipeline.run.accept import accept as accept_all

        accept_all(project.lake, project.graph, accepted, project.facts(wanted.on, now), wanted.on)
    due = request.planned(project, wanted, now)
    errors = request.errors_in(project, due) if wanted.check else ()
    tables = project.lake.at(due.ref)
    if for_trino:
        due = replace(due, steps=tuple(_noted(step, tables) for step in due.steps))
    return Plan(due, tables, errors, accepted)


def _noted(step: Step, tables: TableSet) -> Step:
    told = () if Rule.NOT_IN_TRINO in step.model.off else not_in_trino(step.model, tables)
    return replace(step, notes=(*step.notes, *(each.message for each in told)))


def decision(step: Step) -> str:
    """The decision that a step needs from the user."""
    why = step.asks or "; ".join(step.reasons)
    return f"{step.model} {'will need' if step.asks else 'needs'} a decision: {why}"


def _cells(step: Step) -> Sequence[object]:
    reads = (f"{step.load.rows:,} rows", size(step.load.bytes)) if step.load.rows else ("", "")
    return _MARKS[step.action], str(step.model), str(step.model.kind), "; ".join(step.reasons), *reads
