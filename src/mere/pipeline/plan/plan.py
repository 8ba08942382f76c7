"""What has to be built, and why: a pure function of the project and of the facts about a ref.

`mere plan` prints it. `mere run` asks again, model by model, when what a model reads has been built: then the facts
are exact, where a plan can only say what a rebuilt input may touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mere.errors import PlanError
from mere.names import TableName
from mere.pipeline.plan import merge, scd2, timeless
from mere.pipeline.plan import source as loading
from mere.pipeline.plan.audits import with_key, with_unasked
from mere.pipeline.plan.effects import Effects
from mere.pipeline.plan.evolution import tightened, with_readers, with_table
from mere.pipeline.plan.left_behind import left_behind
from mere.pipeline.plan.remedies import EXCHANGED, EXCHANGING, REBUILD
from mere.pipeline.plan.retry import with_retry
from mere.pipeline.plan.steps import Action, Delta, Facts, Plan, Standing, Step, Wish, load_of
from mere.pipeline.state.state import Point, Points, State, shape_of
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Csv, Input, Model, OnChange, Sql, Time
from mere.sql.canonical import same_sql
from mere.windows import LAST, NEVER, Grain, Span, Spans, stamp


def plan(graph: Graph, facts: Facts, selected: Iterable[TableName] | None = None, wish: Wish | None = None) -> Plan:
    wish = wish or Wish()
    chosen = set(graph.models if selected is None else selected)
    _refuse_missing(graph, facts, chosen)
    steps: list[Step] = []
    effects = Effects()
    for model in graph.models.values():
        if model.name in chosen:
            step = with_readers(plan_model(model, facts, wish, effects), graph, facts)
            steps.append(step)
            # Which windows are the newest is known when it is known how far the rows go that it looks back at.
            moves = model.time is not None and bool(model.time.context) and wish.limit is not None
            exact = step.action is Action.WINDOWS and not moves and not _is_open(model, facts, effects)
            effects.add(step, step.spans if exact else None, facts, same_code=step.builds and _is_code(model, facts))
    return Plan(facts.ref, facts.now, tuple(steps), left_behind(graph, facts))


def _is_code(model: Model, facts: Facts) -> bool:
    standing = facts.standing(model.name)
    return standing is not None and standing.state is not None and same_code(model, standing.state.code)


def _refuse_missing(graph: Graph, facts: Facts, chosen: set[TableName]) -> None:
    missing = [
        f"{model.file}:{each.line}: {model} reads {each.table}, which "
        + ("is not built yet and not selected." if graph.maker(each.table) else f"is not on {facts.ref}.")
        for model in graph.models.values()
        if model.name in chosen
        for each in model.inputs
        if graph.maker(each.table) not in chosen and not facts.points(each.table)
    ]
    if missing:
        raise PlanError(
            "\n".join(missing),
            remedy="Select what is missing as well (+MODEL), load the table, or mend its name. See mere tables.",
        )


def plan_model(model: Model, facts: Facts, wish: Wish, effects: Effects | None = None) -> Step:
    """`effects`: of the steps before it that are yet to be done."""
    effects = Effects() if effects is None else effects
    standing = facts.standing(model.name)
    if standing is None:
        return _afresh(model, facts, wish, effects, "never built")
    step = replace(_due(model, standing, facts, wish, effects), breaking=model.name in wish.breaking)
    if standing.state is None:
        return step
    step = with_retry(step, facts, wish)
    step = with_table(step, standing.state, facts, same_code(model, standing.state.code), effects)
    return with_key(with_unasked(step, standing.state), facts)


def _due(model: Model, standing: Standing, facts: Facts, wish: Wish, effects: Effects) -> Step:
    some = wish.only is not None and (model.time is not None or loading.has_windows(model))
    if model.name in wish.refresh and not some:
        return _afresh(model, facts, wish, effects, "asked for by --full-refresh")
    if standing.state is None:
        return _blocked(model, "stands there already, and mere did not build it", accept="take it as built")
    if standing.changed_by:
        return _blocked(model, f"changed outside mere {standing.changed_by}", accept="keep it as it is")
    state = standing.state
    if because := _other_shape(model, state, facts, wish):
        if some:
            return _blocked(model, f"{because[0]}: some of its windows cannot be built by themselves")
        if scd2.is_history(state):
            return _blocked(model, f"{because[0]}: its history would be lost")
        if model.kind is Kind.SOURCE:
            return _blocked(model, f"{because[0]}: what was loaded may not be there any more")
        return _afresh(model, facts, wish, effects, *because)
    keeps_code = model.kind.rules.keeps_rows and model.name in wish.forward_only
    if model.kind is Kind.SOURCE and not keeps_code and (asks := loading.other_settings(model, state, facts)):
        return asks
    if not some and not keeps_code and not same_code(model, state.code):
        why = f"{_language(model)} changed"
        if model.kind is Kind.SCD2:
            return scd2.new_code(model, why)
        if model.kind is Kind.APPEND:
            return _new_code(model, why)
        return _afresh(model, facts, wish, effects, why)
    return _since_then(model, state, facts, wish, effects)


def _since_then(model: Model, state: State, facts: Facts, wish: Wish, effects: Effects) -> Step:
    """What is due of a table that is as it was built, by the model's present code."""
    match model.kind:
        case Kind.INCREMENTAL:
            return _windows(model, state, facts, wish, effects)
        case Kind.APPEND:
            return _rows(model, state, facts, wish, effects)
        case Kind.MERGE:
            return _keys(model, state, facts, effects)
        case Kind.SCD2:
            return _history(model, state, facts, effects)
        case Kind.VIEW:
            return _view(model, state, facts, effects)
        case Kind.SOURCE:
            return loading.since_then(model, state, facts, wish)
    return _whole(model, state, facts, effects)


def _other_shape(model: Model, state: State, facts: Facts, wish: Wish) -> list[str]:
    """Why what stands there cannot be built upon, whatever its code and its inputs are."""
    because = []
    if state.shape != shape_of(model):
        because.append(f"was {state.shape}, is now {shape_of(model)}")
    # What a source has loaded of, it has loaded whole: the rest comes by itself.
    partial = state.sample and model.kind is not Kind.SOURCE
    if partial and not wish.partial and not reads_samples(model, facts):
        because.append("was built from a part of the data")
    return [*because, *tightened(model, facts)]


def reads_samples(model: Model, facts: Facts) -> bool:
    """Whether something that it reads was built from a part of the data."""
    inputs = (facts.standing(each.table) for each in model.inputs)
    return any(each.state.sample for each in inputs if each and each.state)


def _new_code(model: Model, why: str) -> Step:
    """It may hold rows that its input has no more: to let them go is not ours to say."""
    return Step(
        model,
        Action.BLOCKED,
        (why,),
        remedy=f"mere run --forward-only {model}   for new rows only\n"
        f"mere run --full-refresh {model}   to build it again from the rows that there are now",
    )


def same_code(model: Model, code: str) -> bool:
    return same_sql(code, model.code) if isinstance(model.body, Sql) else code == model.code


def _language(model: Model) -> str:
    if isinstance(model.body, Csv):
        return "its file"
    return "SQL" if isinstance(model.body, Sql) else "Python code"


def _blocked(model: Model, why: str, accept: str | None = None) -> Step:
    remedies = [f"mere plan --accept {model}   to {accept}"] if accept else []
    remedies.append(f"mere run --full-refresh {model}   to build it again")
    return Step(model, Action.BLOCKED, (why,), remedy="\n".join(remedies))


def _afresh(model: Model, facts: Facts, wish: Wish, effects: Effects, *because: str) -> Step:
    if model.kind is Kind.SOURCE:
        return loading.afresh(model, facts, wish, *because)
    if model.time is None:
        step = Step(model, Action.BUILD, because, afresh=True, load=load_of(model, facts))
        return scd2.from_the_beginning(step, facts) if model.kind is Kind.SCD2 else step
    everything = _range(model, model.time, facts, effects)
    chosen = _limited(_wanted(everything, model.time, facts, wish), model.time.grain, wish)
    load = load_of(model, facts, chosen)
    told = timeless.foretold(model, facts)
    pending = everything - chosen
    return Step(model, Action.BUILD, because, chosen, True, bool(told), pending, load=load, notes=told)


def _whole(model: Model, state: State, facts: Facts, effects: Effects) -> Step:
    """Seeds and full models: any change of an input is a reason."""
    because = [why for each in model.inputs for why in _changed(each, state, facts, effects)]
    because += _another_now(model, state, facts)
    if not because:
        return _skip(model)
    return Step(model, Action.BUILD, tuple(because), load=load_of(model, facts))


def _another_now(model: Model, state: State, facts: Facts) -> list[str]:
    if model.now is None or (bound := model.now.floor(facts.now)) == state.now:
        return []
    return [f":now is {stamp(bound)}" + (f", it was built for {stamp(state.now)}" if state.now else "")]


def _keys(model: Model, state: State, facts: Facts, effects: Effects) -> Step:
    def changed(each: Input) -> list[str]:
        return _changed(each, state, facts, effects)

    step = merge.since_then(model, state, facts, effects, changed, _another_now(model, state, facts))
    return replace(step, load=load_of(model, facts)) if step else _skip(model)


def _history(model: Model, state: State, facts: Facts, effects: Effects) -> Step:
    def moved() -> list[str]:
        return [why for each in model.inputs for why in _changed(each, state, facts, effects)]

    step = scd2.since_then(model, state, facts, moved, effects)
    return replace(step, load=load_of(model, facts)) if step else _skip(model)


def _view(model: Model, state: State, facts: Facts, effects: Effects) -> Step:
    """A view follows its tables by itself, unless their columns change; but its audits have to be asked again."""
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
    moved = [why for each in model.inputs for why in _changed(each, state, facts, effects)] if model.audits else []
    if moved:
        return Step(model, Action.AUDIT, tuple(moved), load=load_of(model, facts))
    return replace(_skip(model), waits=waits)


def _rows(model: Model, state: State, facts: Facts, wish: Wish, effects: Effects) -> Step:
    source = next(each for each in model.inputs if each.new_rows or each.changes)
    table = str(source.table)
    points = facts.points(source.table)
    if points.keys() != {table} or table not in state.inputs:
        return _blocked(model, f"{table} is not the table it was", accept="go on from its present rows")
    delta = facts.changes(table, state.inputs[table], None, None)
    if not delta and table not in effects:
        return _skip(model)
    lost = merge.why_lost(table, state.inputs[table], points[table], facts) if source.changes else None
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
        return _blocked(model, lost, accept="go on from its present rows")
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


def _windows(model: Model, state: State, facts: Facts, wish: Wish, effects: Effects) -> Step:
    """What is due is built as far as it is wanted now; the rest stays pending, and the inputs count as seen."""
    assert model.time
    time, grain = model.time, model.time.grain
    due, owed, reasons = NEVER, NEVER, list[str]()
    loose = timeless.is_unsettled(model, state, facts)
    for spans, why, is_all, moved in _owed(model, time, state, facts, wish, effects):
        owed, loose = owed | spans, loose or moved
        if wanted := _wanted(spans, time, facts, wish) - due:
            due = due | wanted
            reasons.append(f"all {grain}s: {why}" if is_all else f"{wanted.named(grain)}: {why}")
    if wish.only is not None and model.name not in wish.settled:
        due = _wanted(_range(model, time, facts, effects) | state.built | owed, time, facts, wish)
        reasons = [f"{due.named(grain)}: asked for by --from and --to"]
    done = done_before(model, state, facts)
    due, owed = due - done, owed - done
    if not due and state.done:
        due = state.done  # an interrupted build has written them, and nobody has audited them
        reasons.append(f"{due.named(grain)}: not audited yet")
    if not due and not loose and not _is_open(model, facts, effects):
        return replace(_skip(model), pending=owed)
    reasons += ["rows without a time"] if loose and not due else []
    chosen = _limited(due, grain, wish)
    notes = timeless.foretold(model, facts, state) if loose else ()
    load = load_of(model, facts, chosen)
    return Step(model, Action.WINDOWS, tuple(reasons), chosen, False, loose, owed - chosen, load=load, notes=notes)


# Windows, why, whether these are all windows, and whether the rows without a time are owed, too.
Owed = tuple[Spans, str, bool, bool]


def _owed(model: Model, time: Time, state: State, facts: Facts, wish: Wish, effects: Effects) -> Iterator[Owed]:
    """The windows that are not what the inputs and the code would make of them now, wanted or not."""
    late = NEVER
    if model.name not in wish.forward_only and not same_code(model, state.code):
        late = _range(model, time, facts, effects) | state.built
        yield late, f"{_language(model)} changed", True, True
    for each in model.inputs:
        for spans, why, moved in _late(each, time, state, facts, effects):
            # Beyond the last row of the inputs there is none that could look back.
            there = _range(model, time, facts, effects) | state.built if spans is None or time.context else spans
            touched = there if spans is None else spans & there
            late = late | touched
            yield touched, why, spans is None, moved
    yield state.pending & state.built, "due since an earlier run", False, False
    yield state.pending - state.built, "not built yet", False, False
    # Otherwise what is neither built nor pending was empty, and what has come since is late.
    if not state.complete or state.start != time.start or (time.context and late):
        yield _range(model, time, facts, effects) - state.built - state.pending, "not built yet", False, False


def _is_open(model: Model, facts: Facts, effects: Effects) -> bool:
    """Whether steps before may put rows anywhere into what it reads: then its windows are known only after them."""
    read = [each for each in model.inputs if each.on_change is not OnChange.IGNORE]
    names = {name for each in read for name in (str(each.table), *facts.points(each.table))}
    return any(effects.get(name, NEVER) is None for name in names)


def done_before(model: Model, state: State, facts: Facts) -> Spans:
    """The windows that an interrupted build has already built from what the inputs are now."""
    return state.done if state.towards and state.towards == points_of(model, facts) else NEVER


# Windows (None: all of them), why, and whether rows without a time may have come or gone.
Late = tuple[Spans | None, str, bool]


def _late(each: Input, time: Time, state: State, facts: Facts, effects: Effects) -> list[Late]:
    """What an input's changes since the last build, or by the steps before, mean for the windows."""
    if each.time is None and each.on_change is OnChange.IGNORE:
        return []
    found: list[Late] = []
    points = facts.points(each.table)
    moved = any(state.inputs.get(name) != point or name in effects for name, point in points.items())
    times = facts.times(each.table, each.time) if each.time and moved else {}
    for name, point in points.items():
        column = times.get(name)
        delta = _delta(name, point, state, facts, column, time.grain)
        if delta:
            spans = time.touched_by(delta.spans) if delta.spans is not None and column else None
            why = "late rows" if delta.why == "new rows" and _is_late(spans, state.built) else delta.why
            moved = spans is None or delta.timeless
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


def _delta(name: str, point: Point, state: State, facts: Facts, column: str | None, grain: Grain) -> Delta:
    old = state.inputs.get(name)
    if old is None:
        return Delta(None, f"{name} was not read before")
    if old.id != point.id:
        return Delta(None, f"{name} is another table or view now")
    if old.schema != point.schema and (why := facts.columns_changed(name, old, point)):
        return Delta(None, f"{why} in {name}")
    return Delta(NEVER) if old.snapshot == point.snapshot else facts.changes(name, old, column, grain)


def _changed(each: Input, state: State, facts: Facts, effects: Effects) -> list[str]:
    because = []
    points = facts.points(each.table)
    for name, point in points.items():
        delta = _delta(name, point, state, facts, None, Grain.DAY)
        if delta:
            because.append(delta.why if name in delta.why else f"{delta.why} in {name}")
        elif name in effects:
            because.append(f"{name} is built before it")
    return because if points else [f"{each.table} is built before it"]


def points_of(model: Model, facts: Facts) -> Points:
    """Where everything that a model reads stands now."""
    return {name: point for each in model.inputs for name, point in facts.points(each.table).items()}


def _range(model: Model, time: Time, facts: Facts, effects: Effects) -> Spans:
    """The windows for which there is data; as far as it is there already."""
    found = NEVER
    for each in model.inputs:
        if each.time and facts.points(each.table):
            found = found | facts.extent(each.table, each.time).widened(time.grain)
        found = found | (effects.get(str(each.table)) or NEVER).widened(time.grain)
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


def _skip(model: Model) -> Step:
    return Step(model, Action.SKIP, ("up to date",))
