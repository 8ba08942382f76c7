"""Tables that are built as a whole: any change of an input is a reason."""

from __future__ import annotations

from mere.pipeline.plan.kinds.inputs import Given, again, all_changed, another_now, skip
from mere.pipeline.plan.steps import Action, Step, load_of
from mere.pipeline.state.state import State
from mere.project.model import Model


def afresh(model: Model, given: Given, because: tuple[str, ...]) -> Step:
    return Step(model, Action.BUILD, because, afresh=True, load=load_of(model, given.facts))


def retried(step: Step, given: Given, why: str) -> Step:
    return again(step, why, action=Action.BUILD, load=load_of(step.model, given.facts))


def since_then(model: Model, state: State, given: Given) -> Step:
    because = [*all_changed(model, state, given), *another_now(model, state, given.facts)]
    if not because:
        return skip(model)
    return Step(model, Action.BUILD, tuple(because), load=load_of(model, given.facts))
