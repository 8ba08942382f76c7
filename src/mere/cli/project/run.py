"""mere run, mere runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import click
from click.core import ParameterSource

from mere.api.events import ROWS
from mere.cli.commands import as_typed
from mere.cli.output import Age, example, json_option, open_lake, print_json, print_table, say
from mere.cli.project.events import Watch, open_to_run
from mere.cli.project.plan import choosing, chosen
from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.lake.log.refs import Ref
from mere.lake.log.run_list import COLUMNS, cells
from mere.lake.log.runs import RunStatus
from mere.lake.refs.attempts import Ended
from mere.lake.refs.clock import length
from mere.names import run_of
from mere.pipeline.run.request import IfRunning
from mere.text.notebook import Column
from mere.text.words import moment
from mere.text.words import size as bytes_shown


@click.command(
    epilog=example(
        "mere run",
        "mere run +gold.daily_revenue",
        "mere run --on dev --limit-windows 3",
        "mere run --allow-breaking silver.orders",
        "mere run --resume 3fa9c1d2b4e5",
    )
)
@choosing
@click.option("--resume", metavar="ID", help="Resume a run that failed or was interrupted.")
@click.option(
    "--accept",
    multiple=True,
    metavar="MODEL",
    help="For an append model: skip rows of its input that were replaced, and take the new ones. For a source: load "
    "renamed files as new ones.",
)
@click.option(
    "--if-running",
    type=click.Choice([each.value for each in IfRunning]),
    default=IfRunning.WAIT.value,
    show_default=True,
    help="What to do while another run writes the same tables.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), default=4, show_default=True, help="How many models to build at once."
)
@click.option("-m", "--message", help="The reason, shown by mere log.")
@click.option("--id", "id_", metavar="ID", help="The id of the run, 12 hex digits of your own: to follow it at once.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    resume: str | None,
    id_: str | None,
    as_json: bool,
    variables: tuple[str, ...],
    **options: Any,
) -> None:
    """Build what is due, audit it, and publish all of it or nothing.

    A run works on a branch of its own, which is published in one commit.

    \b
    Exit codes: 0 published, or nothing to do; 1 failed, nothing was published; 2 wrong usage; 130 interrupted.
    """
    if resume and variables:
        raise UsageError("A resumed run keeps its own options.", remedy="Leave out --var.")
    given = chosen(options)
    if resume and ctx.get_parameter_source("on") is not ParameterSource.COMMANDLINE:
        given["on"] = None
    with Watch(as_json) as watch:
        project = open_to_run(ctx, variables)
        watch.follow(project, lambda listen: project.run(**given, resume=resume, id=id_, listen=listen))


@click.group(
    invoke_without_command=True,
    epilog=example("mere runs", "mere runs -n 50", "mere runs end 3fa9c1d2b4e5", "mere runs clean"),
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many."
)
@json_option
@click.pass_context
def runs(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List the runs of the last 90 days, newest first."""
    if ctx.invoked_subcommand:
        return
    found = open_lake(ctx).runs(limit)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    print_table(COLUMNS, [cells(each) for each in found])


@runs.command("show", epilog=example("mere runs show 3fa9c1d2b4e5"))
@click.argument("id_", metavar="ID")
@json_option
@click.pass_context
def runs_show(ctx: click.Context, id_: str, as_json: bool) -> None:
    """Show one run: each model with its time, rows, bytes, files and audits, attempt by attempt."""
    found = open_lake(ctx).run(id_)
    if as_json:
        print_json(found.to_dict())
        return
    say(f"run {found.id} for {found.target}: {found.status}, started {moment(found.started_at)} by {found.author}")
    for number, attempt in enumerate(found.attempts, start=1):
        if len(found.attempts) > 1:
            started = moment(datetime.fromisoformat(attempt["started_at"]))
            click.echo(f"\nattempt {number}: {attempt['status']}, started {started} by {attempt['author']}")
        _print_models(attempt["models"])
        if error := attempt["error"]:
            click.echo(f"\n{as_typed(error)}")


def _print_models(models: Mapping[str, Any]) -> None:
    columns = [
        Column("model"),
        Column("state"),
        Column("seconds", True),
        *(Column(word, True) for word in ROWS),
        Column("change", True),
        Column("files", True),
        Column("size", True),
        Column("audits"),
    ]
    print_table(columns, [_model_cells(name, each) for name, each in models.items()])


@runs.command("end", epilog=example("mere runs end 3fa9c1d2b4e5"))
@click.argument("id_", metavar="ID")
@json_option
@click.pass_context
def runs_end(ctx: click.Context, id_: str, as_json: bool) -> None:
    """End a run that is stuck or unwanted. It will publish nothing, and its tables are free.

    A process that still works on it, here or on another machine, is refused from now on and stops. What it built stays
    on a branch, so it can be resumed.
    """
    ended = open_lake(ctx).end_run(id_)
    if as_json:
        print_json(ended.to_dict())
        return
    for line in _lines(ended):
        say(line)


def _lines(ended: Ended) -> Iterator[str]:
    run = ended.run
    if ended.already:
        yield f"run {run.id} had ended already: {run.status}"
    elif run.status is RunStatus.SUCCEEDED:
        yield f"run {run.id} was published before it died: commit {str(run.about['commit'])[:10]}"
        return
    elif ended.was_alive:
        yield f"ended run {run.id}: {run.process or 'what works on it'} is refused from now on, and stops"
    else:
        yield f"ended run {run.id}, which was interrupted"
    if ended.released:
        yield f"free again: {', '.join(sorted(str(each.table) for each in ended.released))}"
    if ended.branch:
        yield f"what it built is on the branch {ended.branch}; to resume it: mere run --resume {run.id}"


@runs.command("clean", epilog=example("mere runs clean --dry-run", "mere runs clean --older-than 2d"))
@click.option(
    "--older-than",
    type=Age(),
    default=timedelta(0),
    metavar="AGE",
    help="Only branches that have not moved for this long. [all]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@json_option
@click.pass_context
def runs_clean(ctx: click.Context, older_than: timedelta, dry_run: bool, as_json: bool) -> None:
    """Delete the branches of runs that ended without publishing. These runs can no longer be resumed.

    mere runs keeps their records; mere gc deletes the files that only their branches reach. Runs in progress are left
    alone. An AGE is a number with s, m, h, d or w.
    """
    lake = open_lake(ctx)
    done = lake.clean_runs(older_than, dry_run=dry_run)
    if as_json:
        print_json(done.to_dict())
        return
    for ref in done.refs:
        say(f"{ref.name} {'would be ' if dry_run else ''}deleted: {_ending(lake, ref)}")
    for ref in done.spared:
        say(f"{ref.name} was kept: its run is in progress")
    if not done.refs:
        waits = f" that has not moved for {length(older_than)}" if older_than else ""
        say(f"nothing to clean: no run that ended without publishing has left a branch{waits}")


def _ending(lake: Lake, ref: Ref) -> str:
    """Of a run whose branch is deleted: how it ended, as far as there is a record."""
    past = lake.store.run(run_of(ref.name))
    if past is None:
        return f"its run left no record, and was for {ref.parent}"
    past = past.seen(lake.now())
    return f"run {past.id} for {past.target}, {past.status}, started {moment(past.started_at)}"


def _model_cells(name: str, about: dict[str, Any]) -> tuple[object, ...]:
    audits = about.get("audits", [])
    passed = f"{sum(each['state'] == 'ok' for each in audits)} of {len(audits)} passed" if audits else ""
    if about["state"] != "built" or "seconds" not in about:  # or not known, for its attempt ended before it could say
        return name, about["state"], "", *_rows(about), "", "", "", passed
    return (
        name,
        about["state"],
        f"{about['seconds']:.1f}",
        *_rows(about),
        f"+{about['rows_added']:,} -{about['rows_removed']:,}",
        f"+{about['files_added']:,} -{about['files_removed']:,}",
        bytes_shown(about["bytes_added"]),
        passed,
    )


def _rows(about: dict[str, Any]) -> list[str]:
    """Nothing of what was never built, nor of a record from before they were counted."""
    return [f"{about[key]:,}" if (key := f"rows_{word}") in about else "" for word in ROWS]
