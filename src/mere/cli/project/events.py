"""What is seen of a run while it goes on, and who is told how it ended."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click

from mere import config
from mere.cli.commands import as_typed
from mere.cli.output import console, say
from mere.cli.output import size as bytes_shown
from mere.cli.project.audit import where_to_look
from mere.cli.project.plan import print_plan
from mere.errors import ConfigError, MereError, RunLost, UsageError
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from mere.pipeline.plan.steps import Action
from mere.pipeline.run.record import said
from mere.pipeline.run.request import Event, Finished, Listener, Project, Request
from mere.pipeline.run.run import run as carry_out
from mere.project.kinds import Kind
from mere.words import counted

# What is said of the rows of every model, in the events and in the record with `rows_` before it.
ROWS = ("read", "written", "quarantined", "dropped")


class Watch:
    """Around all of a run, also what comes before it: if that fails, a machine and the project's hooks hear of it."""

    def __init__(self, ctx: click.Context, on: str, as_json: bool) -> None:
        self._profile: str | None = ctx.find_root().obj["profile"]
        self._on = on
        self._as_json = as_json
        self._started_at = datetime.now(UTC)
        self._record: Run | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None or isinstance(error, UsageError):  # what was typed wrong, its author sees
            return
        status = RunStatus.CANCELLED if isinstance(error, KeyboardInterrupt) else RunStatus.FAILED
        if self._as_json:
            print_line({"event": "end", "state": status, "commit": None, "error": said(error)})
        if isinstance(error, RunLost):  # it has not failed: whoever has it by now tells how it ends
            return
        if settings := self._settings():
            _tell(settings.on_failure, self._record.to_json() if self._record else self._refusal(status, error))

    def carry_out(self, project: Project, request: Request) -> None:
        warned: list[Event] = []
        try:
            with _watching(self._as_json, project.lake) as show:

                def listen(event: Event) -> None:
                    if event.kind == "run":
                        self._record = project.lake.run(event.about["id"])
                    if any(each["state"] == "warned" for each in event.about.get("audits", ())):
                        warned.append(event)
                    show(event)

                finished = carry_out(project, request, listen)
        except BaseException:
            if self._record:
                self._record = project.lake.run(self._record.id)
                self._print_warned(warned, project.lake, self._record.branch)
            raise
        self._print_warned(warned, project.lake, request.on if finished.run is None else finished.run.target)
        if finished.run and (settings := self._settings()):
            _tell(settings.on_success, finished.run.to_json())
        _print_end(finished, self._as_json)

    def _print_warned(self, events: list[Event], lake: Lake, at: str) -> None:
        """Where the rows are can be said only now: the branch of a run is gone when it is published."""
        if self._as_json:
            return
        for event in events:
            for each in event.about["audits"]:
                if each["state"] == "warned" and each["query"]:
                    say(
                        f"{event.model} {each['audit']}: {where_to_look(lake, each['query'], at, bool(each['sample']))}"
                    )

    def _settings(self) -> config.Project | None:
        file = config.find_project(Path.cwd())
        try:
            return config.load(file, self._profile) if file else None
        except ConfigError:
            return None

    def _refusal(self, status: RunStatus, error: BaseException) -> dict[str, Any]:
        """What stands for the record of a run that did not begin: it has no id and no branch."""
        now = datetime.now(UTC)
        run = Run("", self._on, "", status, config.default_author(), self._started_at, now, now, {"error": said(error)})
        return {**run.to_json(), "id": None, "branch": None}


def _tell(hook: config.Hook | None, run: Mapping[str, Any]) -> None:
    if hook is None:
        return
    from mere.pipeline.run import hooks  # and urllib

    try:
        hooks.tell(hook, run)
    except MereError as error:
        click.echo(f"warning: {error}", err=True)


def _print_end(finished: Finished, as_json: bool) -> None:
    commit = finished.commit
    if as_json:
        state = "skipped" if finished.skipped else "published" if commit else "nothing"
        print_line({"event": "end", "state": state, "commit": commit.id if commit else None})
    elif finished.skipped:
        say(finished.skipped)
    elif finished.run is None:
        print_plan(finished.plan)
    elif commit:
        say(f"published commit {commit.short_id} to {finished.run.target}")
    else:
        say(f"nothing changed, so nothing was published to {finished.run.target}")


def print_line(about: dict[str, Any]) -> None:
    click.echo(json.dumps(about, default=str))


@contextlib.contextmanager
def _watching(as_json: bool, lake: Lake) -> Iterator[Listener]:
    if as_json:
        yield lambda event: print_line(_json(event))
    elif sys.stderr.isatty():
        with _live(lake) as show:
            yield show
    else:
        yield lambda event: _echo(told(event, lake))


def _json(event: Event) -> dict[str, Any]:
    return {"event": event.kind, **({"model": str(event.model)} if event.model else {}), **event.about}


def _echo(text: str | None) -> None:
    if text:
        click.echo(as_typed(text))


@contextlib.contextmanager
def _live(lake: Lake) -> Iterator[Listener]:
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
            if event.kind == "plan":
                bar.update(engine, visible=True)
            elif event.kind == "building":
                bar.update(engine, visible=False)
                tasks[event.model] = bar.add_task(f"{event.model}  {'; '.join(event.about['reasons'])}")
            elif event.kind == "fetching" and event.model in tasks:
                bar.update(tasks[event.model], description=f"{event.model}  {_fetched(event.about)}")
            elif event.model in tasks:
                bar.remove_task(tasks.pop(event.model))
            if text := told(event, lake):
                bar.console.print(as_typed(text), markup=False, highlight=False)

        yield show


def _fetched(about: Mapping[str, Any]) -> str:
    """`fetching trips_2024-01.parquet, 12 of 48 MB`"""
    of = f" of {bytes_shown(about['of'])}" if about["of"] else ""
    return f"fetching {about['portion']}, {bytes_shown(about['bytes'])}{of}"


def told(event: Event, lake: Lake) -> str | None:
    """An event as a line; None if it is not worth one."""
    about = event.about
    match event.kind:
        case "waiting":
            return f"waiting: {about['for']}"
        case "run":
            return f"run {about['id']} on branch {about['branch']}, for {about['on']}"
        case "engine":
            return f"Spark: {about['where']}"
        case "built":
            if about["action"] == Action.ALTER:
                return f"✓ {event.model}  {'; '.join(about['reasons'])}"
            by_part = (Action.WINDOWS, Action.KEYS, Action.LOAD)
            why = f"  ({'; '.join(about['reasons'])})" if about["action"] in by_part else ""
            done = f"✓ {event.model}  {_growth(about)}  {about['seconds']:.1f} s{_counts(about)}"
            return f"{done}{why}{_put_aside(about)}{_notes(about)}{_bad(about, lake)}"
        case "unchanged":
            return f"· {event.model}  nothing new in its inputs"
        case "failed":
            return f"✗ {event.model}  {_counts(about).strip() or _first_line(about['error'])}{_bad(about, lake)}"
        case "audited":
            return f"✓ {event.model}{_counts(about)}{_bad(about, lake)}"
        case "rebase":
            return f"{', '.join(about['tables'])} moved meanwhile: catching up"
    return None


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "failed")


def _growth(about: Mapping[str, Any]) -> str:
    if about["kind"] == Kind.VIEW:
        return "view made"
    added, removed = about["rows_added"], about["rows_removed"]
    rows = " ".join(f"{sign}{count:,}" for sign, count in (("+", added), ("-", removed)) if count)
    noun = "row" if (added, removed) in ((1, 0), (0, 1)) else "rows"
    grown = f"{rows} {noun}, {bytes_shown(about['bytes_added'])}" if rows else "no rows changed"
    return ", ".join([grown, *_accounting(about)])


def _accounting(about: Mapping[str, Any]) -> Iterator[str]:
    """`165 read`, `161 written`, `4 quarantined`: what came in and what became of it."""
    for word in ROWS:
        if (count := about[f"rows_{word}"]) or word in ROWS[:2]:
            yield f"{count:,} {word}"


def _counts(about: Mapping[str, Any]) -> str:
    """`  4 audits passed, 1 failed`"""
    audits = about.get("audits", [])
    good = sum(each["state"] == "ok" for each in audits)
    counts = [f"{counted(good, 'audit')} passed"] if good else []
    if bad := len(audits) - good:
        word = "failed" if any(each["state"] in ("failed", "error") for each in audits) else "warned"
        counts.append(f"{bad} {word}" if good else f"{counted(bad, 'audit')} {word}")
    return f"  {', '.join(counts)}" if counts else ""


def _put_aside(about: Mapping[str, Any]) -> str:
    """A line, if rows went to the quarantine, with the rules that they break."""
    quarantine = about.get("quarantine")
    if not quarantine or not quarantine["bad"]:
        return ""
    rules = ", ".join(f"{rule} {count:,}" for rule, count in quarantine["rules"].items() if count)
    return f"\n    {quarantine['bad']:,} of {counted(quarantine['rows'], 'row')} to {quarantine['table']}: {rules}"


def _notes(about: Mapping[str, Any]) -> str:
    return "".join(f"\n    {note}" for note in about.get("notes", ()))


def _bad(about: Mapping[str, Any], lake: Lake) -> str:
    """A line for each audit that did not pass, with some of the rows; of one that failed also the way to all of them,
    for that branch will stay."""
    lines = []
    for each in about.get("audits", []):
        if each["state"] != "ok":
            lines.append(f"\n    {each['state']}: {each['audit']}: {each['message']}")
            lines += [f"\n      {_row(row)}" for row in each["sample"][:3]]
            if each["query"] and each["state"] != "warned":
                lines.append(f"\n      {where_to_look(lake, each['query'], about['branch'], bool(each['sample']))}")
    return "".join(lines)


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in row.items())
