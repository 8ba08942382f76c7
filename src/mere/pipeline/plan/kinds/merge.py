"""What is due for a merge model: the keys that changed in its inputs, or everything where these are not known."""

from __future__ import annotations

from mere.pipeline.plan.kinds.inputs import Given, again, another_now, changed, skip, why_lost
from mere.pipeline.plan.steps import Action, Step, load_of
from mere.pipeline.state.state import State
from mere.project.model import Input, Model, OnChange


def since_then(model: Model, state: State, given: Given) -> Step:
    whole, some = another_now(model, state, given.facts), list[str]()
    for each in model.inputs:
        if each.key or each.changes:
            lost, moved = _since_then(each, state, given)
            whole += lost
            some += moved
        elif each.on_change is not OnChange.IGNORE:
            whole += changed(each, state, given)
    if not whole and not some:
        return skip(model)
    action = Action.BUILD if whole else Action.KEYS
    return Step(model, action, (*whole, *some), load=load_of(model, given.facts))


def retried(step: Step, given: Given, why: str) -> Step:
    inputs = step.model.inputs
    by_key = any(each.key for each in inputs) and not any(each.changes for each in inputs)
    action = Action.KEYS if by_key else Action.BUILD
    return again(step, why, action=action, load=load_of(step.model, given.facts))


def _since_then(each: Input, state: State, given: Given) -> tuple[list[str], list[str]]:
    """Why its changes cannot be told by key, and what they are."""
    lost, moved, facts = list[str](), list[str](), given.facts
    points = facts.points(each.table)
    for name, point in points.items():
        old = state.inputs.get(name)
        if why := why_lost(name, old, point, facts):
            lost.append(why)
        elif old and old.snapshot != point.snapshot and (delta := facts.changes(name, old, None, None)):
            moved.append(f"{delta.why} in {name}")
        elif name in given.effects:
            moved.append(f"{name} is built before it")
    if moved and len(points) > 1 and (each.changes or facts.keyed(each.table, dict(each.key)) is None):
        return [*lost, *(f"{why}, read through the view {each.table}" for why in moved)], []
    return lost, moved if points else [f"{each.table} is built before it"]
