"""Audits that a table has not had yet. A new audit or key is a reason to audit the table, not to build it."""

from __future__ import annotations

from dataclasses import replace

from mere.audits.audit import Audit
from mere.pipeline.plan.steps import Action, Facts, Step
from mere.pipeline.state.state import State, digest
from mere.project.model import Model


def audits_in_state(model: Model) -> tuple[str, ...]:
    """What a state keeps of the audits. Rules that quarantine are none of them: they hold from the next build on."""
    return tuple(sorted(_digest(each) for each in model.audits if not each.quarantine))


def new_audits(model: Model, state: State) -> list[Audit]:
    """Of a state that was written before audits were kept in it, none is known to be new."""
    if (known := state.audits) is None:
        return []
    return [each for each in model.audits if not each.quarantine and _digest(each) not in known]


def with_unasked(step: Step, state: State) -> Step:
    new = new_audits(step.model, state)
    if not new or step.action is not Action.SKIP or not step.model.kind.rules.stored:
        return step
    return replace(step, action=Action.AUDIT, reasons=(f"new audit{'' if len(new) == 1 else 's'}: {_named(new)}",))


def _named(audits: list[Audit]) -> str:
    return ", ".join(each.name for each in audits)


def _digest(audit: Audit) -> str:
    return digest(repr((audit.rule, audit.severity, audit.where, audit.allow)))[:8]


def with_key(step: Step, facts: Facts) -> Step:
    """A key that the table does not have yet is no reason to build it: its promise is audited."""
    if step.action is not Action.SKIP or facts.has_key_of(step.model):
        return step
    key = ", ".join(step.model.row_key)
    return replace(step, action=Action.AUDIT, reasons=(f"its key is {key} now" if key else "it no longer has a key",))
