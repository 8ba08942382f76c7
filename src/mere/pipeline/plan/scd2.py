"""What a history (`scd2`) has to look at. It is never built again by itself: what it has seen may be gone elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from mere.pipeline.plan.steps import Action, Facts, Step
from mere.pipeline.state.observations import Observation
from mere.pipeline.state.state import State
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.words import counted


def from_the_beginning(step: Step, facts: Facts) -> Step:
    """A build of all of a history, as far as there are snapshots that tell it."""
    return replace(step, observations=facts.observations([each.table for each in step.model.inputs], {}, None))


def since_then(
    model: Model, state: State, facts: Facts, moved: Callable[[], list[str]], before: Container[str]
) -> Step | None:
    """What came since the last observation, if anything did.

    `moved`: in words, what changed in the inputs. `before`: the tables that steps before will change.
    """
    tables = [each.table for each in model.inputs]
    names = [name for table in tables for name in facts.points(table)]
    found = facts.observations(tables, state.inputs, state.observed)
    if len(names) != 1:
        reasons = moved()
        return Step(model, Action.KEYS, tuple(reasons), observations=found) if reasons else None
    (name,) = names
    reasons = [_in_words(found, name)] if found else []
    reasons += [f"{name} is built before it"] if name in before else []
    if not reasons:
        return None
    stood = state.inputs.get(name)
    lost = found and found[0].before is None and stood is not None and stood.snapshot is not None
    notes = (f"{name} is not what was observed of it, or what it went through is gone: it is looked at anew",)
    return Step(model, Action.KEYS, tuple(reasons), observations=found, notes=notes if lost else ())


def _in_words(found: Sequence[Observation], table: str) -> str:
    return f"{counted(len(found), 'new snapshot')} of {table}"


def is_history(state: State) -> bool:
    """Whether what stands there is one that nobody could build again. A sample can be had again at any time."""
    return state.shape.startswith(Kind.SCD2) and not state.sample


def new_code(model: Model, why: str) -> Step:
    remedy = (
        f"mere run --forward-only {model}   to keep its history, and to go on with the new code\n"
        f"mere run --full-refresh {model}   to build it again from the snapshots that there are now"
    )
    return Step(model, Action.BLOCKED, (why,), remedy=remedy)
