"""What changed in a model's inputs since it was built, in words; and the steps that each kind of model can take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mere.pipeline.plan.effects import Effects
from mere.pipeline.plan.steps import Action, Delta, Facts, Step, Wish
from mere.pipeline.state.state import Point, Points, State
from mere.project.model import Csv, Input, Model, Sql
from mere.sql.canonical import same_sql
from mere.windows import NEVER, Grain, stamp


@dataclass(frozen=True)
class Given:
    """What a plan goes by."""

    facts: Facts
    wish: Wish
    effects: Effects  # of the steps before that are yet to be done


def points_of(model: Model, facts: Facts) -> Points:
    """Where everything that a model reads stands now."""
    return {name: point for each in model.inputs for name, point in facts.points(each.table).items()}


def changed(each: Input, state: State, given: Given) -> list[str]:
    facts, because = given.facts, []
    points = facts.points(each.table)
    for name, point in points.items():
        moved = delta(name, point, state, facts, None, Grain.DAY)
        if moved:
            because.append(moved.why if name in moved.why else f"{moved.why} in {name}")
        elif name in given.effects:
            because.append(f"{name} is built before it")
    return because if points else [f"{each.table} is built before it"]


def delta(name: str, point: Point, state: State, facts: Facts, column: str | None, grain: Grain) -> Delta:
    old = state.inputs.get(name)
    if old is None:
        return Delta(None, f"{name} was not read before")
    if old.id != point.id:
        return Delta(None, f"{name} is another table or view now")
    if old.schema != point.schema and (why := facts.columns_changed(name, old, point)):
        return Delta(None, f"{why} in {name}")
    return Delta(NEVER) if old.snapshot == point.snapshot else facts.changes(name, old, column, grain)


def all_changed(model: Model, state: State, given: Given) -> list[str]:
    return [why for each in model.inputs for why in changed(each, state, given)]


def another_now(model: Model, state: State, facts: Facts) -> list[str]:
    if model.now is None or (bound := model.now.floor(facts.now)) == state.now:
        return []
    return [f":now is {stamp(bound)}" + (f", it was built for {stamp(state.now)}" if state.now else "")]


def why_lost(name: str, old: Point | None, new: Point, facts: Facts) -> str | None:
    """Why the rows that came and went since an older point cannot be told; None if they can."""
    if old is None:
        return f"{name} was not read before"
    if old.id != new.id:
        return f"{name} is another table or view now"
    if old.schema != new.schema and (why := facts.columns_changed(name, old, new)):
        return f"{why} in {name}"
    return None if facts.still_has(name, old) else f"snapshot {old.snapshot} of {name} is gone"


def same_code(model: Model, code: str) -> bool:
    return same_sql(code, model.code) if isinstance(model.body, Sql) else code == model.code


def language(model: Model) -> str:
    if isinstance(model.body, Csv):
        return "its file"
    return "SQL" if isinstance(model.body, Sql) else "Python code"


def skip(model: Model) -> Step:
    return Step(model, Action.SKIP, ("up to date",))


def blocked(model: Model, why: str, accept: str | None = None) -> Step:
    remedies = [f"mere plan --accept {model}   to {accept}"] if accept else []
    remedies.append(f"mere run --full-refresh {model}   to rebuild it")
    return Step(model, Action.BLOCKED, (why,), remedy="\n".join(remedies))


def again(step: Step, why: str, **changes: Any) -> Step:
    """The step, and what is done for one more reason."""
    reasons = () if step.action is Action.SKIP else step.reasons
    return replace(step, reasons=(*reasons, why), **changes)
