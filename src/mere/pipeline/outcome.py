"""The state of a table after a step, as data: what the next plan will go by."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mere.pipeline.state import Points, State, shape_of
from mere.pipeline.steps import Step
from mere.windows import NEVER, Spans


def built(step: Step, before: State | None, points: Points, run: str, now: datetime) -> State:
    """All that the step asked for is there. `before` is None if nothing of what stood there was kept."""
    model = step.model
    state = State(
        code=model.code,
        shape=shape_of(model),
        inputs=points,
        snapshot=None,
        run=run,
        built=step.spans,
        complete=step.complete,
        start=model.time.start if model.time else None,
        now=model.now.floor(now) if model.now else None,
    )
    if before is None:
        return state
    if not step.catches_up:  # some windows are new, and all that was due besides stays due
        return replace(before, run=run, built=before.built | step.spans, complete=False, towards={}, done=NEVER)
    return replace(state, built=(before.built - step.stale) | step.spans)


def under_way(step: Step, before: State | None, points: Points, run: str, done: Spans) -> State:
    """Some batches are there. What the inputs were before still counts, so that the rest stays due."""
    state = before or State(step.model.code, shape_of(step.model), points, None, run)
    return replace(state, run=run, built=state.built | done, complete=False, towards=points, done=done)
