"""What plan and run share: the options by which models are chosen, and how a plan looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import click

from mere import config
from mere.cli.commands import as_typed
from mere.cli.output import (
    Column,
    Command,
    example,
    json_option,
    open_lake,
    parse_variables,
    print_json,
    print_table,
    say,
    size,
)
from mere.cli.project.check import finding_json
from mere.errors import LakeNotFound, UsageError
from mere.pipeline.plan.facts import facts
from mere.pipeline.plan.steps import Action, LeftBehind, Plan, Step, Wish
from mere.pipeline.run.documents import plan_document
from mere.pipeline.run.request import Project, Request, errors_in, planned, selected
from mere.project.check.findings import Finding
from mere.project.load import load
from mere.windows import FIRST, LAST, Span, Spans, instant
from mere.words import counted


class ExitCode(IntEnum):
    """Of `mere plan --exit-code`."""

    NOTHING = 0
    WORK = 3
    DECISION = 4


MARKS = {
    Action.SKIP: "·",
    Action.BUILD: "+",
    Action.WINDOWS: "~",
    Action.ROWS: "~",
    Action.KEYS: "~",
    Action.LOAD: "~",
    Action.ALTER: "=",
    Action.AUDIT: "?",
    Action.BLOCKED: "!",
}


def choosing(command: Command) -> Command:
    for option in reversed(
        (
            click.argument("select", nargs=-1, metavar="[SELECT]…"),
            click.option("--select", "more", multiple=True, metavar="SELECT", help="Another way to say [SELECT]."),
            click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to build for."),
            click.option("--full-refresh", is_flag=True, help="Build the selected models again, all of them."),
            click.option("--from", "start", metavar="TIME", help="Build windows from here on, due or not."),
            click.option("--to", "end", metavar="TIME", help="Build windows up to here, without it."),
            click.option("--forward-only", is_flag=True, help="New code for new windows; what is built stays."),
            click.option("--allow-breaking", is_flag=True, help="Let columns be dropped or narrowed."),
            click.option("--limit-windows", type=click.IntRange(min=1), metavar="N", help="Only the newest N windows."),
            click.option("--sample", metavar="SHARE", help="Read only a share of each input, such as 1%."),
            click.option("--no-check", is_flag=True, help="Go on although mere check finds errors."),
            click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable."),
        )
    ):
        command = option(command)
    return command


def open_project(ctx: click.Context, variables: Sequence[str] = ()) -> Project:
    file = config.find_project(Path.cwd())
    if file is None:
        raise LakeNotFound(
            "There is no mere.yaml here or in a folder above.", remedy="Make a project with: mere init DIR"
        )
    settings = config.load(file, ctx.find_root().obj["profile"])
    lake, given = open_lake(ctx), parse_variables(variables)
    graph = load(file.parent, given).placed(settings.sources)
    return Project(lake, graph, file.parent, settings.spark, given)


def request_of(project: Project, options: Mapping[str, Any]) -> Request:
    if options["full_refresh"] and options["forward_only"]:
        raise UsageError(
            "--full-refresh builds everything by the new code, --forward-only keeps what is built.",
            remedy="Leave one of them out.",
        )
    known = facts(project.lake, options["on"], project.lake.now())
    patterns = (*options["select"], *options["more"])
    chosen = frozenset(selected(project.graph, patterns, known))
    wish = Wish(
        refresh=chosen if options["full_refresh"] else frozenset(),
        forward_only=chosen if options["forward_only"] else frozenset(),
        breaking=chosen if options["allow_breaking"] else frozenset(),
        only=_between(options["start"], options["end"]),
        limit=options["limit_windows"],
        sample=_share(options["sample"]),
    )
    return Request(on=options["on"], selection=patterns, wish=wish, check=not options["no_check"])


def _between(start: str | None, end: str | None) -> Spans | None:
    if start is None and end is None:
        return None
    try:
        span = Span(instant(start) if start else FIRST, instant(end) if end else LAST)
    except ValueError:
        raise UsageError(
            "--from and --to must be times in UTC.", remedy="Write for example 2024-02, 2024-02-11 or 2024-02-11T05."
        ) from None
    if span.start >= span.end:
        raise UsageError("--from must be before --to.")
    return Spans((span,))


def _share(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"--sample {text} is not a share.", remedy="Write for example 1% or 0.01.")
    return share


@click.command(
    epilog=example(
        "mere plan", "mere plan +gold.daily_revenue", "mere plan --accept silver.orders", "mere plan --exit-code"
    )
)
@choosing
@click.option("--accept", multiple=True, metavar="MODEL", help="Take the model as built, as it stands now.")
@click.option("--exit-code", is_flag=True, help="Exit with 3 if there is something to do, 4 if a decision is needed.")
@json_option
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    accept: tuple[str, ...],
    exit_code: bool,
    as_json: bool,
    variables: tuple[str, ...],
    **options: Any,
) -> None:
    """What a run would build, and why. Nothing is started and nothing is changed, unless a change is accepted.

    SELECT: names, globs ('gold.*'), tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    Default: all models.

    \b
    Exit codes: 0; 1 if there are errors; 2 wrong usage.
    With --exit-code: 0 nothing to do, 3 something to do, 4 a decision is needed.
    """
    project = open_project(ctx, variables)
    now = project.lake.now()
    request = request_of(project, options)
    if accept:
        from mere.pipeline.run import accept as accepting

        names = [name for each in accept for name in sorted(project.graph.select([each]))]
        known = facts(project.lake, request.on, now)
        accepting.accept(project.lake, project.graph, names, known, request.on)
        if not as_json:
            say(f"accepted as built: {', '.join(map(str, names))}")
    due = planned(project, request, now)
    errors = errors_in(project, due) if request.check else ()
    if as_json:
        print_json({**plan_document(due, project.lake.at(due.ref)), "errors": [finding_json(each) for each in errors]})
    else:
        print_plan(due)
        print_errors(errors)
    ctx.exit(_exit_code(due, errors, exit_code))


def _exit_code(due: Plan, errors: Sequence[Finding], as_state: bool) -> int:
    if errors:
        return 1
    if not as_state:
        return 0
    return ExitCode.DECISION if due.undecided else ExitCode.WORK if due.building else ExitCode.NOTHING


def print_errors(errors: Sequence[Finding]) -> None:
    for each in errors:
        click.secho("\nerror", fg="red", nl=False)
        click.echo(f" {each.rule}: {each}")
        if each.remedy:
            click.echo(f"  {as_typed(each.remedy)}")
    if errors:
        say(f"{counted(len(errors), 'error')}: mere run refuses to start")


def print_plan(due: Plan) -> None:
    shown = [step for step in due.steps if step.action is not Action.SKIP]
    if shown:
        columns = [Column(""), Column("model"), Column("kind"), Column("why"), Column("reads", True), Column("", True)]
        print_table(columns, [_cells(step) for step in shown])
    skipped = len(due.steps) - len(shown)
    if not due.steps:
        say("nothing to do: no models")
    elif skipped:
        say(
            f"{counted(skipped, 'model')} up to date"
            if shown
            else f"nothing to do: {counted(skipped, 'model')} up to date"
        )
    for step in due.steps:
        for note in step.notes:
            click.echo(f"note: {step.model}: {note}")
    for step in due.undecided:
        why = step.asks or "; ".join(step.reasons)
        click.echo(f"\n{step.model} {'will need' if step.asks else 'needs'} a decision: {why}")
        click.echo("\n".join(f"  {line}" for line in as_typed(step.remedy).splitlines()))
    for each in due.left_behind:
        click.echo(f"\n{each.table} is on {due.ref}, but {_why_left(each)}.")
        if each.renamed_to:
            say(f"  mere rename {each.table} {each.renamed_to}   if it was renamed: keeps its rows and history")
        say(f"  mere drop {each.table}   if it is not needed; until then it stays")


def _why_left(each: LeftBehind) -> str:
    return f"no rule of {each.quarantine_of} quarantines" if each.quarantine_of else "no model makes it any more"


def _cells(step: Step) -> tuple[object, ...]:
    reads = (f"{step.load.rows:,} rows", size(step.load.bytes)) if step.load.rows else ("", "")
    return MARKS[step.action], str(step.model), str(step.model.kind), "; ".join(step.reasons), *reads
