"""Views follow their tables by themselves unless their columns change, but their audits have to run again."""

from __future__ import annotations

from dataclasses import replace

from mere.pipeline.plan.kinds.inputs import Given, all_changed, skip
from mere.pipeline.plan.steps import Action, Step, load_of
from mere.pipeline.state.state import State
from mere.project.model import Model


def since_then(model: Model, state: State, given: Given) -> Step:
    facts, effects = given.facts, given.effects
    because, waits = list[str](), False
    for each in model.inputs:
        points = facts.points(each.table)
        for name, point in points.items():
            old = state.inputs.get(name)
            if old is None or not facts.has_columns_of(name, old, point):
                because.append(f"the columns of {name} changed")
            elif name in effects.columns:
                because.append(f"the columns of {name} may change")
            waits = waits or name in effects
        because += [] if points else [f"{each.table} is built before it"]
    if because:
        return Step(model, Action.BUILD, tuple(because))
    moved = all_changed(model, state, given) if model.audits else []
    if moved:
        return Step(model, Action.AUDIT, tuple(moved), load=load_of(model, facts))
    return replace(skip(model), waits=waits)
