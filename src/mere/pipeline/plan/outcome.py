"""The state of a table after a step, as data: the basis of the next plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mere.pipeline.plan.audits import audits_in_state
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.state.layout import layout_of
from mere.pipeline.state.state import Points, State, settings_of, shape_of
from mere.windows import NEVER, Spans


def built(step: Step, before: State | None, points: Points, run: str, now: datetime) -> State:
    """After the whole step. `before` is None if nothing of what stood there was kept."""
    model = step.model
    state = State(
        code=model.code,
        shape=shape_of(model),
        inputs=points,
        snapshot=None,
        run=run,
        built=step.spans,
        pending=step.pending,
        start=model.time.start if model.time else None,
        now=model.now.floor(now) if model.now else None,
        null_times=model.time.nulls if model.time else None,
        observed=step.observations[-1].at if step.observations else None,
        layout=layout_of(model),
        audits=audits_in_state(model),
        settings=settings_of(model),
    )
    if before is None:
        return state
    if step.action is Action.ALTER:
        return replace(before, run=run, layout=state.layout)
    if step.action is Action.AUDIT and model.kind.rules.stored:
        return replace(before, run=run, towards={}, done=NEVER, audits=state.audits)
    return replace(state, built=before.built | step.spans, observed=state.observed or before.observed)


def under_way(step: Step, before: State | None, points: Points, run: str, done: Spans) -> State:
    """Some batches are there. What the inputs were before still counts, so that the rest stays due."""
    model = step.model
    pending = (step.spans | step.pending) - done
    first = State(model.code, shape_of(model), points, None, run, pending=pending, settings=settings_of(model))
    state = before or first
    return replace(state, run=run, built=state.built | done, towards=points, done=done)
