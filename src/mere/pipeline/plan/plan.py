"""What has to be built, and why: a pure function of the project and the facts about a ref.

`mere plan` prints it. `mere run` asks again, model by model, when what a model reads has been built: then the facts
are exact, where a plan can only say what a rebuilt input may touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mere.errors import PlanError, UsageError
from mere.names import TableName, near
from mere.pipeline.plan.audits import with_key, with_unasked
from mere.pipeline.plan.effects import Effects
from mere.pipeline.plan.evolution import tightened, with_readers, with_table
from mere.pipeline.plan.kinds import KINDS
from mere.pipeline.plan.kinds.incremental import is_open
from mere.pipeline.plan.kinds.inputs import Given, blocked, language, same_code
from mere.pipeline.plan.kinds.scd2 import is_history
from mere.pipeline.plan.kinds.source import has_windows
from mere.pipeline.plan.left_behind import left_behind
from mere.pipeline.plan.retry import with_retry
from mere.pipeline.plan.steps import Action, Facts, Plan, Standing, Step, Wish
from mere.pipeline.state.state import State, shape_of
from mere.project.graph import Graph
from mere.project.model import Model
from mere.sources.source import Source


def plan(graph: Graph, facts: Facts, selected: Iterable[TableName] | None = None, wish: Wish | None = None) -> Plan:
    wish = wish or Wish()
    chosen = set(graph.models if selected is None else selected)
    _refuse_missing(graph, facts, chosen)
    if selected is not None and wish.only is not None:
        _refuse_without_windows([graph.models[name] for name in chosen])
    steps: list[Step] = []
    effects = Effects()
    for model in graph.models.values():
        if model.name in chosen:
            step = with_readers(plan_model(model, facts, wish, effects), graph, facts)
            steps.append(step)
            # Which windows are the newest is known when it is known how far the rows go that it looks back at.
            moves = model.time is not None and bool(model.time.context) and wish.limit is not None
            exact = step.action is Action.WINDOWS and not moves and not is_open(model, facts, effects)
            effects.add(step, step.spans if exact else None, facts, same_code=step.builds and _is_code(model, facts))
    return Plan(facts.ref, facts.now, tuple(steps), left_behind(graph, facts))


def _is_code(model: Model, facts: Facts) -> bool:
    standing = facts.standing(model.name)
    return standing is not None and standing.state is not None and same_code(model, standing.state.code)


def _refuse_missing(graph: Graph, facts: Facts, chosen: set[TableName]) -> None:
    known = {*graph.models, *facts.built_by_mere()}
    missing = [
        f"{model.file}:{each.line}: {model} reads {each.table}, which "
        + (
            "is not built yet and not selected."
            if graph.maker(each.table)
            else f"is not on {facts.ref}.{near(str(each.table), known)}"
        )
        for model in graph.models.values()
        if model.name in chosen
        for each in model.inputs
        if graph.maker(each.table) not in chosen and not facts.points(each.table)
    ]
    if missing:
        raise PlanError(
            "\n".join(missing),
            remedy="Select what is missing as well (+MODEL), load the table, or correct its name. See mere tables.",
        )


def _refuse_without_windows(chosen: Sequence[Model]) -> None:
    """--from and --to say which windows: of models that have none, nothing would be built, without a word."""
    if chosen and not any(model.time is not None or has_windows(model) for model in chosen):
        names = ", ".join(sorted(str(model) for model in chosen))
        raise UsageError(
            f"{names}: built as a whole, not window by window.", remedy="Leave out --from and --to, or select others."
        )


def plan_model(model: Model, facts: Facts, wish: Wish, effects: Effects | None = None) -> Step:
    """`effects`: of the steps before it that are yet to be done."""
    given = Given(facts, wish, Effects() if effects is None else effects)
    standing = facts.standing(model.name)
    if standing is None:
        return _afresh(model, given, "never built")
    step = replace(_due(model, standing, given), breaking=model.name in wish.breaking)
    if standing.state is None:
        return step
    step = with_retry(step, given)
    step = with_table(step, standing.state, facts, same_code(model, standing.state.code), given.effects)
    return with_key(with_unasked(step, standing.state), facts)


def _due(model: Model, standing: Standing, given: Given) -> Step:
    facts, wish, kind = given.facts, given.wish, KINDS[model.kind]
    some = wish.only is not None and (model.time is not None or has_windows(model))
    if model.name in wish.refresh and not some:
        return _afresh(model, given, "asked for by --full-refresh")
    if standing.state is None:
        return blocked(model, "already exists, and mere did not build it", accept="take it as built")
    if standing.changed_by:
        return blocked(model, f"changed outside mere {standing.changed_by}", accept="keep it as it is")
    state = standing.state
    if because := _other_shape(model, state, facts, wish):
        if some:
            return blocked(model, f"{because[0]}: its windows cannot be built one by one")
        if loses := "its history would be lost" if is_history(state) else kind.loses:
            return blocked(model, f"{because[0]}: {loses}")
        return _afresh(model, given, *because)
    keeps_code = model.kind.rules.keeps_rows and model.name in wish.forward_only
    if kind.new_settings and not keeps_code and (asks := kind.new_settings(model, state, facts)):
        return asks
    if not some and not keeps_code and not same_code(model, state.code):
        why = f"{language(model)} changed"
        return kind.new_code(model, why) if kind.new_code else _afresh(model, given, why)
    return kind.since_then(model, state, given)


def _afresh(model: Model, given: Given, *because: str) -> Step:
    return KINDS[model.kind].afresh(model, given, because)


def _other_shape(model: Model, state: State, facts: Facts, wish: Wish) -> list[str]:
    """Why what stands there cannot be built upon, whatever its code and its inputs are."""
    because = []
    if state.shape != shape_of(model):
        because.append(f"was {state.shape}, is now {shape_of(model)}")
    # What a source has loaded of, it has loaded whole: the rest comes by itself.
    partial = state.sample and not isinstance(model.body, Source)
    if partial and not wish.partial and not reads_samples(model, facts):
        because.append("was built from a part of the data")
    return [*because, *tightened(model, facts)]


def reads_samples(model: Model, facts: Facts) -> bool:
    """Whether something that it reads was built from a part of the data."""
    inputs = (facts.standing(each.table) for each in model.inputs)
    return any(each.state.sample for each in inputs if each and each.state)
