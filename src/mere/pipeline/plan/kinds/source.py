"""Which portions of a source are due, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from mere.pipeline.plan.kinds.inputs import Given, skip
from mere.pipeline.plan.steps import Action, Facts, Load, Step, Wish
from mere.pipeline.state.state import State
from mere.project.model import Model
from mere.sources.meaning import FILES, differences
from mere.sources.offered import Offered
from mere.sources.pattern import Pattern
from mere.sources.source import Files, Loaded, OnChange, Portion, Source
from mere.text.words import counted
from mere.windows import FIRST, Span, Spans, stamp

_SHOWN = 3
_NO_SPAN = Span(FIRST, FIRST)


def has_windows(model: Model) -> bool:
    """Whether the files of a source lie in windows of time, by their names."""
    feed = model.body.feed if isinstance(model.body, Source) else None
    return isinstance(feed, Files) and bool(Pattern.parse(feed.location).grain)


def afresh(model: Model, given: Given, because: tuple[str, ...]) -> Step:
    """All that there is, whatever was loaded before; of windows, those that are asked for."""
    facts, wish = given.facts, given.wish
    offered = facts.offered(model, {})
    if refused := _refused(model, offered):
        return refused
    feed, there = _source(model).feed, {each.name for each in offered.new}
    loaded = facts.loaded(model.name) if isinstance(feed, Files) else {}
    gone = [each for name, each in loaded.items() if name not in there]
    landed = facts.landed(model, gone) if gone else []
    if not offered.new and not landed and isinstance(feed, Files):
        remedy = f"Put files there, or correct `files` in {model.file}."
        return Step(model, Action.BLOCKED, (f"no file matches {feed.location}",), remedy=remedy)
    step = _load(model, _limited(_within([*offered.new, *landed], wish.only), wish), *because)
    kept = {each.name for each in landed}
    step = _with_gone(replace(step, action=Action.BUILD, afresh=True), sorted(kept), "they are loaded from the landing")
    return _with_gone(step, [each.portion for each in gone if each.portion not in kept], "their rows go")


def since_then(model: Model, state: State, given: Given) -> Step:
    facts, wish = given.facts, given.wish
    body, loaded = _source(model), facts.loaded(model.name)
    if blocked := _lost_track(model, facts):
        return blocked
    pressing = bool(state.towards) or wish.only is not None or model.name in wish.retry
    if not pressing and (at := _next_time(body, loaded.values())) and facts.now < at:
        return Step(model, Action.SKIP, (f"asked again from {stamp(at)} on",))
    offered = facts.offered(model, loaded)
    if refused := _refused(model, offered) or _under_other_names(model, state, offered, wish):
        return refused
    return _with_gone(_due(model, state, offered, wish), [each.portion for each in offered.gone], "the rows stay")


def _due(model: Model, state: State, offered: Offered, wish: Wish) -> Step:
    body = _source(model)
    there = (*offered.new, *offered.changed, *(() if model.name in wish.settled else offered.same))
    if wish.only is not None and any(each.span for each in there):
        chosen = _within(there, wish.only)
        asked_for = f"{_named(chosen)}: asked for by --from and --to"
        return _loaded_again(model, chosen, asked_for) if chosen else skip(model)
    if offered.changed and isinstance(body.feed, Files) and body.feed.on_change is OnChange.FAIL:
        why = f"changed after {'it was' if len(offered.changed) == 1 else 'they were'} loaded"
        remedy = f"Put back what was there, or write `on_change: replace` in {model.file}."
        return Step(model, Action.BLOCKED, (f"{_named(offered.changed)} {why}",), remedy=remedy)
    because = [f"{what}: {_named(portions)}" for what, portions in _kinds(model, offered) if portions]
    if because:
        return _load(model, _limited([*offered.new, *offered.changed], wish), *because)
    return Step(model, Action.AUDIT, ("not audited yet",)) if state.towards else skip(model)


def _next_time(source: Source, loaded: Iterable[Loaded]) -> datetime | None:
    last = max((each.loaded_at for each in loaded), default=None)
    return last + source.every if source.every and last else None


def _lost_track(model: Model, facts: Facts) -> Step | None:
    """Blocked, if it cannot be told any more which rows are of what."""
    again = f"mere run --full-refresh {model}   to reload everything that is there now"
    if not facts.points(model.name.loads):
        gone = f"{model.name.loads}, the record of what was loaded, is gone"
        return Step(model, Action.BLOCKED, (gone,), remedy=again)
    file, columns = _source(model).trace.file, facts.columns(model.name)
    if file and columns and not any(each.name.casefold() == file.casefold() for each in columns):
        lost = f"its rows have no column {file}, by which they are replaced"
        return Step(model, Action.BLOCKED, (lost,), remedy=f"Write the name that it had under `trace`, or\n{again}")
    return None


def other_settings(model: Model, state: State, facts: Facts) -> Step | None:
    """Blocked, if other files belong to it now, or its columns mean something else. A folder that has moved is
    neither, as long as all that was loaded is in it."""
    if not _has_other_settings(model, state):
        return None
    offered = facts.offered(model, facts.loaded(model.name)) if isinstance(_source(model).feed, Files) else Offered()
    if state.code == model.code and not offered.gone:
        return None
    known = state.settings
    because = differences(known, _source(model).settings) if known else ["its declaration changed"]
    double = [_double(offered)] if offered.renamed else []
    forward = _as_new(model, True) if double else f"mere run --forward-only {model}   for new files only"
    remedy = f"{forward}\nmere run --full-refresh {model}   to reload everything that is there now"
    return Step(model, Action.BLOCKED, (*because, *double), remedy=remedy)


def _has_other_settings(model: Model, state: State) -> bool:
    return state.code != model.code or state.settings.get(FILES) != _source(model).settings.get(FILES)


def _as_new(model: Model, forward: bool) -> str:
    options = f"--accept {model}" + (f" --forward-only {model}" if forward else "")
    return f"mere run {options}   to load them as new files, beside the rows of the old ones"


def _double(offered: Offered) -> str:
    portion, known = offered.renamed[0]
    others = len(offered.renamed) - 1
    more = f", and {others:,} more" if others else ""
    return f"{portion.name} was loaded as {known.portion}{more}: loaded again, its rows would be there twice"


def _under_other_names(model: Model, state: State, offered: Offered, wish: Wish) -> Step | None:
    """Blocked, if files would be loaded twice: each is known by its name below the folder of the source."""
    if not offered.renamed or model.name in wish.accepted:
        return None
    forward = model.name in wish.forward_only and _has_other_settings(model, state)
    remedy = (
        "Give the files, and `files` of the source, their old names, or\n"
        f"mere run --full-refresh {model}   to reload everything that is there now\n{_as_new(model, forward)}"
    )
    return Step(model, Action.BLOCKED, (_double(offered),), remedy=remedy)


def retried(step: Step, given: Given, why: str) -> Step:
    """The portions of which rows are in quarantine are loaded again, as far as they are there."""
    model, facts = step.model, given.facts
    loaded = facts.loaded(model.name)
    offered = facts.offered(model, loaded)
    bad = {name for name, each in loaded.items() if each.bad}
    there = [each for each in (*offered.new, *offered.changed, *offered.same) if each.name in bad]
    known = {each.name for each in step.portions}
    more = [each for each in there if each.name not in known]
    if not more:
        return step
    reasons = () if step.action is Action.SKIP else step.reasons
    return _loaded_again(model, [*step.portions, *more], *reasons, f"{why}: {_named(more)}")


def _loaded_again(model: Model, portions: Sequence[Portion], *because: str) -> Step:
    if _source(model).trace.file is None:
        why = "its rows cannot be replaced: `trace` has no column for the file"
        return Step(model, Action.BLOCKED, (why,), remedy=f"mere run --full-refresh {model}   to reload everything")
    return _load(model, portions, *because)


def _within(portions: Sequence[Portion], only: Spans | None) -> list[Portion]:
    """Those of the windows that are asked for; all, if there are no windows."""
    if only is None or not any(each.span for each in portions):
        return list(portions)
    return [each for each in portions if each.span is not None and only.overlaps(each.span)]


def _refused(model: Model, offered: Offered) -> Step | None:
    if offered.problem is None:
        return None
    return Step(model, Action.BLOCKED, (offered.problem,), remedy=offered.remedy)


def _kinds(model: Model, offered: Offered) -> list[tuple[str, Sequence[Portion]]]:
    if not isinstance(_source(model).feed, Files):
        return [("may have something new", offered.new)]
    count, changed = len(offered.new), len(offered.changed)
    return [
        (counted(count, "new file"), offered.new),
        (counted(changed, "changed file"), offered.changed),
    ]


def _with_gone(step: Step, names: Sequence[str], rows: str) -> Step:
    """Said at each plan, whatever else is due: the table has what the world outside has no more. `rows`: what becomes
    of them."""
    if not names:
        return step
    count = len(names)
    what = "a file that was loaded is" if count == 1 else f"{count:,} files that were loaded are"
    shown = ", ".join(names[:_SHOWN]) + (" …" if count > _SHOWN else "")
    return replace(step, notes=(*step.notes, f"{what} gone, and {rows}: {shown}"))


def _load(model: Model, portions: Iterable[Portion], *because: str) -> Step:
    chosen = tuple(sorted(portions, key=lambda each: (each.span is not None, each.span or _NO_SPAN, each.name)))
    load = Load(0, sum(each.size for each in chosen))
    return Step(model, Action.LOAD, because, portions=chosen, load=load)


def _limited(portions: Sequence[Portion], wish: Wish) -> Sequence[Portion]:
    """The newest windows, or files where there are none."""
    if wish.limit is None:
        return portions
    windows = sorted({each.span for each in portions if each.span})[-wish.limit :]
    return [each for each in portions if each.span in windows] if windows else portions[-wish.limit :]


def _named(portions: Sequence[Portion]) -> str:
    """`a.csv, b.csv, c.csv …`"""
    names = [_shown(each) for each in portions]
    return ", ".join(names[:_SHOWN]) + (f" … {names[-1]}" if len(names) > _SHOWN else "")


def _shown(portion: Portion) -> str:
    if portion.until is not None or portion.since is not None:
        since = f" from {portion.since}" if portion.since is not None else ""
        return f"{portion.location}{since}"
    return portion.name


def _source(model: Model) -> Source:
    assert isinstance(model.body, Source)
    return model.body
