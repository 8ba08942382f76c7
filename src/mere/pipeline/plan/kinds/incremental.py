"""Which windows of an incremental model are due, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mere.pipeline.plan.effects import Effects
from mere.pipeline.plan.kinds import timeless
from mere.pipeline.plan.kinds.inputs import Given, again, delta, language, points_of, same_code, skip
from mere.pipeline.plan.steps import Action, Facts, Step, Wish, load_of
from mere.pipeline.state.state import State
from mere.project.model import Input, Model, OnChange, Time
from mere.windows import LAST, NEVER, Grain, Span, Spans


def afresh(model: Model, given: Given, because: tuple[str, ...]) -> Step:
    assert model.time
    facts, wish = given.facts, given.wish
    everything = _range(model, model.time, given)
    chosen = _limited(_wanted(everything, model.time, facts, wish), model.time.grain, wish)
    load = load_of(model, facts, chosen)
    told = timeless.foretold(model, facts)
    pending = everything - chosen
    return Step(model, Action.BUILD, because, chosen, True, bool(told), pending, load=load, notes=told)


def retried(step: Step, given: Given, why: str) -> Step:
    spans = step.spans | given.wish.retry[step.model.name]
    load = load_of(step.model, given.facts, spans)
    pending = step.pending - spans
    return again(step, why, action=Action.WINDOWS, spans=spans, timeless=True, pending=pending, load=load)


def since_then(model: Model, state: State, given: Given) -> Step:
    """What is due is built as far as it is wanted now; the rest stays pending, and the inputs count as seen."""
    assert model.time
    facts, wish = given.facts, given.wish
    time, grain = model.time, model.time.grain
    due, owed, reasons = NEVER, NEVER, list[str]()
    loose = timeless.is_unsettled(model, state, facts)
    for spans, why, is_all, moved in _owed(model, time, state, given):
        owed, loose = owed | spans, loose or moved
        if wanted := _wanted(spans, time, facts, wish) - due:
            due = due | wanted
            reasons.append(f"all {grain}s: {why}" if is_all else f"{wanted.named(grain)}: {why}")
    if wish.only is not None and model.name not in wish.settled:
        due = _wanted(_range(model, time, given) | state.built | owed, time, facts, wish)
        reasons = [f"{due.named(grain)}: asked for by --from and --to"]
    done = done_before(model, state, facts)
    due, owed = due - done, owed - done
    if not due and state.done:
        due = state.done  # an interrupted build has written them, and nobody has audited them
        reasons.append(f"{due.named(grain)}: not audited yet")
    if not due and not loose and not is_open(model, facts, given.effects):
        return replace(skip(model), pending=owed)
    reasons += ["rows without a time"] if loose and not due else []
    chosen = _limited(due, grain, wish)
    notes = timeless.foretold(model, facts, state) if loose else ()
    load = load_of(model, facts, chosen)
    return Step(model, Action.WINDOWS, tuple(reasons), chosen, False, loose, owed - chosen, load=load, notes=notes)


# Windows, why, whether these are all windows, and whether the rows without a time are owed, too.
Owed = tuple[Spans, str, bool, bool]


def _owed(model: Model, time: Time, state: State, given: Given) -> Iterator[Owed]:
    """The windows that are not what the inputs and the code would make of them now, wanted or not."""
    late = NEVER
    if model.name not in given.wish.forward_only and not same_code(model, state.code):
        late = _range(model, time, given) | state.built
        yield late, f"{language(model)} changed", True, True
    for each in model.inputs:
        for spans, why, moved in _late(each, time, state, given):
            # Beyond the last row of the inputs there is none that could look back.
            there = _range(model, time, given) | state.built if spans is None or time.context else spans
            touched = there if spans is None else spans & there
            late = late | touched
            yield touched, why, spans is None, moved
    yield state.pending & state.built, "due since an earlier run", False, False
    yield state.pending - state.built, "not built yet", False, False
    # Otherwise what is neither built nor pending was empty, and what has come since is late.
    if not state.complete or state.start != time.start or (time.context and late):
        yield _range(model, time, given) - state.built - state.pending, "not built yet", False, False


def is_open(model: Model, facts: Facts, effects: Effects) -> bool:
    """Whether steps before may put rows anywhere into what it reads: then its windows are known only after them."""
    read = [each for each in model.inputs if each.on_change is not OnChange.IGNORE]
    names = {name for each in read for name in (str(each.table), *facts.points(each.table))}
    return any(effects.get(name, NEVER) is None for name in names)


def done_before(model: Model, state: State, facts: Facts) -> Spans:
    """The windows that an interrupted build has already built from what the inputs are now."""
    return state.done if state.towards and state.towards == points_of(model, facts) else NEVER


# Windows (None: all of them), why, and whether rows without a time may have come or gone.
Late = tuple[Spans | None, str, bool]


def _late(each: Input, time: Time, state: State, given: Given) -> list[Late]:
    """What an input's changes since the last build, or by the steps before, mean for the windows."""
    if each.time is None and each.on_change is OnChange.IGNORE:
        return []
    facts, effects = given.facts, given.effects
    found: list[Late] = []
    points = facts.points(each.table)
    moved = any(state.inputs.get(name) != point or name in effects for name, point in points.items())
    times = facts.times(each.table, each.time) if each.time and moved else {}
    for name, point in points.items():
        column = times.get(name)
        change = delta(name, point, state, facts, column, time.grain)
        if change:
            spans = time.touched_by(change.spans) if change.spans is not None and column else None
            why = "late rows" if change.why == "new rows" and _is_late(spans, state.built) else change.why
            moved = spans is None or change.timeless
            found.append((spans, why if name in why else f"{why} in {name}", moved))
        if name in effects:
            touched = effects[name]
            reached = time.touched_by(touched) if touched and column else None
            # What they bring is known when they are done.
            found.append((reached, f"{name} is built before it", False))
    if not points:
        found.append((None, f"{each.table} is built before it", False))
    return found


def _is_late(spans: Spans | None, built: Spans) -> bool:
    """Whether rows came for a time before the end of what is built."""
    return bool(spans and built and spans.spans[0].start < built.spans[-1].end)


def _range(model: Model, time: Time, given: Given) -> Spans:
    """The windows for which there is data; as far as it is there already."""
    found = NEVER
    for each in model.inputs:
        if each.time and given.facts.points(each.table):
            found = found | given.facts.extent(each.table, each.time).widened(time.grain)
        found = found | (given.effects.get(str(each.table)) or NEVER).widened(time.grain)
    # A row that looks back may stand where the inputs have none.
    return Spans((found.hull,)) if time.context and found.hull else found


def _wanted(spans: Spans, time: Time, facts: Facts, wish: Wish) -> Spans:
    """Of these windows, those that the model has at all and that were asked for."""
    wanted = time.from_start(spans)
    if not time.unfinished:
        wanted = wanted - Spans((Span(time.grain.floor(facts.now), LAST),))
    return wanted if wish.only is None else wanted & wish.only.widened(time.grain)


def _limited(spans: Spans, grain: Grain, wish: Wish) -> Spans:
    return spans if wish.limit is None else Spans.of(spans.windows(grain)[-wish.limit :])
