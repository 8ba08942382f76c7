"""What is due for a history (`scd2`). It is never rebuilt by itself: what it saw may be gone elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mere.pipeline.plan.kinds import full
from mere.pipeline.plan.kinds.inputs import Given, all_changed, skip
from mere.pipeline.plan.steps import Action, Step, load_of
from mere.pipeline.state.observations import Observation
from mere.pipeline.state.state import State
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.text.words import counted


def afresh(model: Model, given: Given, because: tuple[str, ...]) -> Step:
    """A build of all of a history, as far as there are snapshots that tell it."""
    found = given.facts.observations([each.table for each in model.inputs], {}, None)
    return replace(full.afresh(model, given, because), observations=found)


def since_then(model: Model, state: State, given: Given) -> Step:
    """What came since the last observation, if anything did."""
    facts, tables = given.facts, [each.table for each in model.inputs]
    names = [name for table in tables for name in facts.points(table)]
    found = facts.observations(tables, state.inputs, state.observed)
    lost = False
    if len(names) != 1:
        reasons = all_changed(model, state, given)
    else:
        (name,) = names
        reasons = [_in_words(found, name)] if found else []
        reasons += [f"{name} is built before it"] if name in given.effects else []
        stood = state.inputs.get(name)
        from_here = bool(found) and found[0].before is None
        lost = from_here and stood is not None and stood.snapshot is not None
    if not reasons:
        return skip(model)
    anew = f"{', '.join(names)} is not what was observed of it, or its snapshots are gone: it is observed again"
    notes = (anew,) if lost else ()
    return Step(model, Action.KEYS, tuple(reasons), observations=found, notes=notes, load=load_of(model, facts))


def _in_words(found: Sequence[Observation], table: str) -> str:
    return f"{counted(len(found), 'new snapshot')} of {table}"


def is_history(state: State) -> bool:
    """Whether what stands there is one that nobody could build again. A sample can be had again at any time."""
    return state.shape.startswith(Kind.SCD2) and not state.sample


def new_code(model: Model, why: str) -> Step:
    remedy = (
        f"mere run --forward-only {model}   to keep its history, and use the new code from now on\n"
        f"mere run --full-refresh {model}   to rebuild it from the snapshots that there are now"
    )
    return Step(model, Action.BLOCKED, (why,), remedy=remedy)
