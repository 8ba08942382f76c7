"""Which new rows an append model takes, and what it asks before it continues from rows that were replaced."""

from __future__ import annotations

from dataclasses import replace

from mere.pipeline.plan.kinds.inputs import Given, again, blocked, skip, why_lost
from mere.pipeline.plan.remedies import EXCHANGED, EXCHANGING, REBUILD
from mere.pipeline.plan.steps import Action, Facts, Step, load_of
from mere.pipeline.state.state import State
from mere.project.model import Model


def retried(step: Step, _given: Given, why: str) -> Step:
    return again(step, why, action=Action.ROWS)


def new_code(model: Model, why: str) -> Step:
    """It may hold rows that its input has no more: to let them go is not ours to say."""
    return Step(
        model,
        Action.BLOCKED,
        (why,),
        remedy=f"mere run --forward-only {model}   for new rows only\n"
        f"mere run --full-refresh {model}   to rebuild it from the rows that are there now",
    )


def since_then(model: Model, state: State, given: Given) -> Step:
    facts, wish, effects = given.facts, given.wish, given.effects
    source = next(each for each in model.inputs if each.new_rows or each.changes)
    table = str(source.table)
    points = facts.points(source.table)
    if points.keys() != {table} or table not in state.inputs:
        return blocked(model, f"{table} is not the table it was", accept="continue from its present rows")
    delta = facts.changes(table, state.inputs[table], None, None)
    if not delta and table not in effects:
        return skip(model)
    lost = why_lost(table, state.inputs[table], points[table], facts) if source.changes else None
    if delta and not source.changes and not delta.keeps_all:
        lost = f"{table} was not only appended to: {delta.why}"
        if facts.gone_again(table, state.inputs[table]):
            return Step(
                model,
                Action.BLOCKED,
                (f"{lost}, some of them rows that came since {model} was built",),
                remedy=REBUILD.format(model),
            )
        if facts.new_rows(table, state.inputs[table]) is not None:
            if model.name not in wish.accepted and not _is_accepted(table, state, facts):
                return _exchanged(model, lost)
            lost = None
    if lost:
        return blocked(model, lost, accept="continue from its present rows")
    new = f"{delta.why} in {table}" if source.changes else f"new rows in {table}"
    why = f"{table} is built before it" if table in effects else new
    step = Step(model, Action.ROWS, (why,), load=load_of(model, facts))
    exchanged = effects.exchanged.get(table) if not source.changes and model.name not in wish.accepted else None
    return replace(step, asks=exchanged, remedy=EXCHANGING.format(model, table)) if exchanged else step


def _is_accepted(table: str, state: State, facts: Facts) -> bool:
    """Whether the user knows of all that was exchanged."""
    point = state.accepted.get(table)
    later = facts.changes(table, point, None, None) if point else None
    return later is not None and (not later or later.keeps_all)


def _exchanged(model: Model, why: str) -> Step:
    """An append model has taken rows that its input has no more."""
    return Step(
        model,
        Action.BLOCKED,
        (why,),
        remedy=EXCHANGED.format(model),
    )
