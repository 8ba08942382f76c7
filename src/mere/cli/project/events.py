"""Shows a run while it is in progress, and how it ended."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import click

from mere.api.events import (
    ROWS,
    Audited,
    Began,
    Building,
    Built,
    Ended,
    EngineOpened,
    Event,
    Failed,
    Fetching,
    LeftAsIs,
    Listener,
    Outcome,
    Planned,
    Rebased,
    RunState,
    Unchanged,
    Updated,
    Waiting,
    Warned,
)
from mere.api.project import Project
from mere.api.run import RunResult
from mere.api.update import BranchUpdate
from mere.cli.commands import as_typed
from mere.cli.output import console, open_project, say, tell_of_clock
from mere.cli.project.audit import where_to_look
from mere.cli.project.plan import print_plan
from mere.errors import MereError, UsageError
from mere.lake.lake import Lake
from mere.pipeline.plan.steps import Action
from mere.project.kinds import Kind
from mere.text.words import counted
from mere.text.words import size as bytes_shown

OpenLake = Callable[[], Lake]
Result = TypeVar("Result")


def open_to_run(ctx: click.Context, variables: Sequence[str] = ()) -> Project:
    """What is wrong with the lake is left to the run, which tells it to all who want to hear of it."""
    project = open_project(ctx, variables, with_lake=False)
    with contextlib.suppress(MereError):
        tell_of_clock(project.lake)
    return project


class Watch:
    """Around all of a run, also what comes before it: whatever goes wrong, `--json` ends with a line that says so."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._began: Began | None = None
        self._warned: list[Outcome] = []
        self._has_ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None or isinstance(error, UsageError) or self._has_ended or not self._as_json:
            return  # what was typed wrong, its author sees
        state = RunState.CANCELLED if isinstance(error, KeyboardInterrupt) else RunState.FAILED
        print_line(Ended.of_failure(state, error).to_dict())

    def follow(self, project: Project, run: Callable[[Listener], RunResult]) -> RunResult:
        """Carry out a run and show what happens in it."""
        result = self._followed(project, run)
        self._print_end(project, result)
        return result

    def follow_update(self, project: Project, update: Callable[[Listener], BranchUpdate]) -> None:
        """Update a branch, and carry out and show the run that this asks for."""
        done = self._followed(project, update)
        if done.run is not None:
            self._print_end(project, done.run)

    def show(self, event: Event, lake: Lake) -> None:
        """One event alone."""
        if self._as_json:
            print_line(event.to_dict())
        else:
            _echo(line_of(event, lambda: lake))

    def _followed(self, project: Project, work: Callable[[Listener], Result]) -> Result:
        try:
            with _watching(self._as_json, lambda: project.lake) as show:
                return work(lambda event: show(self._heard(event)))
        except BaseException:
            if self._began:
                self._print_warned(project.lake, project.lake.run(self._began.id).branch)
            raise

    def _print_end(self, project: Project, result: RunResult) -> None:
        if result.record:
            self._print_warned(project.lake, result.record.target)
        if not self._as_json:
            _print_end(result)

    def _heard(self, event: Event) -> Event:
        if isinstance(event, Began):
            self._began = event
        if isinstance(event, Outcome) and any(each["state"] == "warned" for each in event.audits):
            self._warned.append(event)
        if isinstance(event, Warned):
            click.echo(f"warning: {event.message}", err=True)
        self._has_ended = isinstance(event, Ended)
        return event

    def _print_warned(self, lake: Lake, at: str) -> None:
        """Where the rows are can be said only now: the branch of a run is gone when it is published."""
        for event in () if self._as_json else self._warned:
            for each in event.audits:
                if each["state"] == "warned" and each["query"]:
                    look = where_to_look(lake, each["query"], at, bool(each["sample"]))
                    say(f"{event.model} {each['audit']}: {look}")


def _print_end(done: RunResult) -> None:
    if done.skipped:
        say(done.skipped)
    elif done.record is None:
        if done.plan is not None:
            print_plan(done.plan)
    elif done.commit:
        say(f"published commit {done.commit.short_id} to {done.record.target}")
    else:
        say(f"nothing changed, so nothing was published to {done.record.target}")


def print_line(about: dict[str, Any]) -> None:
    click.echo(json.dumps(about, default=str))


@contextlib.contextmanager
def _watching(as_json: bool, lake: OpenLake) -> Iterator[Listener]:
    if as_json:
        yield lambda event: print_line(event.to_dict())
    elif sys.stderr.isatty():
        with _live(lake) as show:
            yield show
    else:
        yield lambda event: _echo(line_of(event, lake))


def _echo(text: str | None) -> None:
    if text:
        click.echo(as_typed(text))


@contextlib.contextmanager
def _live(lake: OpenLake) -> Iterator[Listener]:
    """For people: a line for each model that is done, and below, what is being built."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=True,
    )
    tasks: dict[Any, Any] = {}
    with bar:
        engine = bar.add_task("starting Spark", visible=False)

        def show(event: Event) -> None:
            match event:
                case Planned():
                    bar.update(engine, visible=True)
                case Building():
                    bar.update(engine, visible=False)
                    tasks[event.model] = bar.add_task(f"{event.model}  {'; '.join(event.reasons)}")
                case Fetching() if event.model in tasks:
                    bar.update(tasks[event.model], description=f"{event.model}  {_fetched(event)}")
                case Outcome() if event.model in tasks:
                    bar.remove_task(tasks.pop(event.model))
            if text := line_of(event, lake):
                bar.console.print(as_typed(text), markup=False, highlight=False)

        yield show


def _fetched(event: Fetching) -> str:
    """`fetching trips_2024-01.parquet, 12 of 48 MB`"""
    of = f" of {bytes_shown(event.of)}" if event.of else ""
    return f"fetching {event.portion}, {bytes_shown(event.bytes)}{of}"


def line_of(event: Event, lake: OpenLake) -> str | None:
    """An event as a line; None if it is not worth one."""
    match event:
        case Waiting():
            return f"waiting: {event.why}"
        case Began():
            return f"run {event.id} on branch {event.branch}, for {event.on}"
        case EngineOpened():
            return f"Spark: {event.where}"
        case Built() if event.action == Action.ALTER:
            return f"✓ {event.model}  {'; '.join(event.reasons)}"
        case Built():
            by_part = (Action.WINDOWS, Action.KEYS, Action.LOAD)
            why = f"  ({'; '.join(event.reasons)})" if event.action in by_part else ""
            done = f"✓ {event.model}  {_growth(event)}  {event.seconds:.1f} s{_counts(event)}"
            return f"{done}{why}{_put_aside(event)}{_notes(event)}{_bad(event, lake)}"
        case Unchanged():
            return f"· {event.model}  nothing new in its inputs"
        case Failed():
            return f"✗ {event.model}  {_counts(event).strip() or _first_line(event.error or '')}{_bad(event, lake)}"
        case Audited():
            return f"✓ {event.model}{_counts(event)}{_bad(event, lake)}"
        case Updated():
            return _updated(event)
        case LeftAsIs():
            names = " ".join(event.models)
            return (
                f"left as they are, because they were built from a part of the data: {names}\n"
                f"to rebuild them, with --limit-windows or --sample: mere run --on {event.branch} {names}"
            )
        case Rebased():
            return f"{', '.join(event.tables)} moved meanwhile: catching up"
    return None


def _updated(event: Updated) -> str:
    own = counted(len(event.kept), "change")
    lines = [f"{event.branch} is now based on commit {event.base[:10]} of {event.parent}, with {own} of its own"]
    if event.dropped:
        lines.append(f"changed on both, so taken from {event.parent}: {', '.join(event.dropped)}")
    if event.after != event.before:
        back = f"mere revert --to {event.before[:10]} --on {event.branch}"
        lines.append(f"it was at commit {event.before[:10]}, kept until mere gc; to go back: {back}")
    return "\n".join(lines)


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "failed")


def _growth(event: Built) -> str:
    if event.action == Action.AUDIT:
        return "audited again, nothing built"
    if event.model_kind == Kind.VIEW:
        return "view made"
    added, removed = event.rows_added, event.rows_removed
    rows = " ".join(f"{sign}{count:,}" for sign, count in (("+", added), ("-", removed)) if count)
    noun = "row" if (added, removed) in ((1, 0), (0, 1)) else "rows"
    grown = f"{rows} {noun}, {bytes_shown(event.bytes_added)}" if rows else "no rows changed"
    return ", ".join([grown, *_accounting(event)])


def _accounting(event: Built) -> Iterator[str]:
    """`165 read`, `161 written`, `4 quarantined`: what came in and what became of it."""
    for word in ROWS:
        if (count := getattr(event, f"rows_{word}")) or word in ROWS[:2]:
            yield f"{count:,} {word}"


def _counts(event: Outcome) -> str:
    """`  4 audits passed, 1 failed`"""
    good = sum(each["state"] == "ok" for each in event.audits)
    counts = [f"{counted(good, 'audit')} passed"] if good else []
    if bad := len(event.audits) - good:
        word = "failed" if any(each["state"] in ("failed", "error") for each in event.audits) else "warned"
        counts.append(f"{bad} {word}" if good else f"{counted(bad, 'audit')} {word}")
    return f"  {', '.join(counts)}" if counts else ""


def _put_aside(event: Outcome) -> str:
    """A line, if rows went to the quarantine, with the rules that they break."""
    found = event.quarantine
    if not found or not found["bad"]:
        return ""
    rules = ", ".join(f"{rule} {count:,}" for rule, count in found["rules"].items() if count)
    return f"\n    {found['bad']:,} of {counted(found['rows'], 'row')} to {found['table']}: {rules}"


def _notes(event: Outcome) -> str:
    return "".join(f"\n    {note}" for note in event.notes)


def _bad(event: Outcome, lake: OpenLake) -> str:
    """A line for each audit that did not pass, with some of the rows; of one that failed also the way to all of them,
    for that branch will stay."""
    lines = []
    for each in event.audits:
        if each["state"] != "ok":
            lines.append(f"\n    {each['state']}: {each['audit']}: {each['message']}")
            lines += [f"\n      {_row(row)}" for row in each["sample"][:3]]
            if each["query"] and each["state"] != "warned":
                look = where_to_look(lake(), each["query"], event.branch or "", bool(each["sample"]))
                lines.append(f"\n      {look}")
    return "".join(lines)


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in row.items())
