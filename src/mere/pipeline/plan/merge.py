"""What of a merge model is due: the keys that changed in its inputs, or all of it where these cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from mere.pipeline.plan.steps import Action, Facts, Step
from mere.pipeline.state.state import Point, State
from mere.project.model import Input, Model, OnChange


def since_then(
    model: Model,
    state: State,
    facts: Facts,
    before: Container[str],
    changed: Callable[[Input], Iterable[str]],
    expired: Iterable[str],
) -> Step | None:
    """None if nothing is.

    `before`: the tables that steps before will change; `changed`: in words, what changed in an input that is read
    whole; `expired`: other reasons to build it all.
    """
    whole, some = list(expired), list[str]()
    for each in model.inputs:
        if each.key or each.changes:
            lost, moved = _since_then(each, state, facts, before)
            whole += lost
            some += moved
        elif each.on_change is not OnChange.IGNORE:
            whole += changed(each)
    if whole:
        return Step(model, Action.BUILD, (*whole, *some))
    return Step(model, Action.KEYS, tuple(some)) if some else None


def _since_then(each: Input, state: State, facts: Facts, before: Container[str]) -> tuple[list[str], list[str]]:
    """Why its changes cannot be told by key, and what they are."""
    lost, moved = list[str](), list[str]()
    points = facts.points(each.table)
    for name, point in points.items():
        old = state.inputs.get(name)
        if why := why_lost(name, old, point, facts):
            lost.append(why)
        elif old and old.snapshot != point.snapshot and (delta := facts.changes(name, old, None, None)):
            moved.append(f"{delta.why} in {name}")
        elif name in before:
            moved.append(f"{name} is built before it")
    if moved and len(points) > 1 and (each.changes or facts.keyed(each.table, dict(each.key)) is None):
        return [*lost, *(f"{why}, read through the view {each.table}" for why in moved)], []
    return lost, moved if points else [f"{each.table} is built before it"]


def why_lost(name: str, old: Point | None, new: Point, facts: Facts) -> str | None:
    """Why the rows that came and went since an older point cannot be told; None if they can."""
    if old is None:
        return f"{name} was not read before"
    if old.id != new.id:
        return f"{name} is another table or view now"
    if old.schema != new.schema and (why := facts.columns_changed(name, old, new)):
        return f"{why} in {name}"
    return None if facts.still_has(name, old) else f"snapshot {old.snapshot} of {name} is gone"
