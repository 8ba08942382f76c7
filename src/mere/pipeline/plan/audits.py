"""Which audits a table has passed as it stands: one that is new, or has changed, is a reason to ask it."""

from __future__ import annotations

from dataclasses import replace

from mere.audits.audit import Audit
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.state.state import State, digest
from mere.project.model import Kind, Model


def asked(model: Model) -> tuple[str, ...]:
    """What a state keeps of the audits. Rules that quarantine are none of them: they hold from the next build on."""
    return tuple(sorted(_digest(each) for each in model.audits if not each.quarantine))


def unasked(model: Model, state: State) -> list[Audit]:
    """Of a state that was written before audits were kept in it, none is known to be new."""
    if (known := state.audits) is None:
        return []
    return [each for each in model.audits if not each.quarantine and _digest(each) not in known]


def with_unasked(step: Step, state: State) -> Step:
    new = unasked(step.model, state)
    if not new or step.action is not Action.SKIP or step.model.kind is Kind.VIEW:
        return step
    return replace(step, action=Action.AUDIT, reasons=(f"new audit{'' if len(new) == 1 else 's'}: {_named(new)}",))


def _named(audits: list[Audit]) -> str:
    return ", ".join(each.name for each in audits)


def _digest(audit: Audit) -> str:
    return digest(repr((audit.rule, audit.severity, audit.where, audit.allow)))[:8]
