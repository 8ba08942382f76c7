"""mere log, publish, revert, drop."""

from __future__ import annotations

import sys
from itertools import islice

import click

from mere.cli.output import example, json_option, open_lake, print_json, say
from mere.errors import LakeConflict, UsageError
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit, change_lines
from mere.lake.log.refs import RefKind
from mere.lake.refs.publish import Publication
from mere.names import run_of
from mere.text.words import counted, moment

message_option = click.option("-m", "--message", help="The reason, shown by mere log.")


@click.command(epilog=example("mere log", "mere log dev -n 5", "mere log --table gold.daily_revenue"))
@click.argument("ref", default="main")
@click.option("--table", metavar="TABLE", help="Only commits that changed this table.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many."
)
@json_option
@click.pass_context
def log(ctx: click.Context, ref: str, table: str | None, limit: int, as_json: bool) -> None:
    """Show who changed what, and when.

    Lists the commits that lead to REF, newest first."""
    commits = list(islice(open_lake(ctx).log(ref, table), limit))
    if as_json:
        print_json([commit.to_dict() for commit in commits])
        return
    for commit in commits:
        _print_commit(commit)


def _print_commit(commit: Commit) -> None:
    about = f"{moment(commit.at)}  {commit.by}  {commit.message or commit.kind}"
    if commit.expired:
        about += "  (files swept)"
    if sys.stdout.isatty():
        about = f"{click.style(commit.short_id, fg='yellow')}  {about}"
    else:
        about = f"{commit.short_id}  {about}"
    click.echo(about)
    for line in change_lines(commit.changes):
        click.echo(f"    {line}")


@click.command(epilog=example("mere publish dev --dry-run", "mere publish dev -m 'prices in euro'"))
@click.argument("branch")
@click.option("--into", metavar="BRANCH", help="The target. Default: the branch it was forked from.")
@click.option("--dry-run", is_flag=True, help="Show what would change and what conflicts; change nothing.")
@click.option("--expect", metavar="COMMIT", help="Only if BRANCH is at this commit, as a dry run has shown it.")
@message_option
@json_option
@click.pass_context
def publish(
    ctx: click.Context,
    branch: str,
    into: str | None,
    dry_run: bool,
    expect: str | None,
    message: str | None,
    as_json: bool,
) -> None:
    """Publish a branch: all that it changed, in one atomic commit."""
    lake = open_lake(ctx)
    if not dry_run:
        _refuse_runs(lake, branch)
    try:
        result = lake.publish(branch, into, message=message, dry_run=dry_run, expect=expect)
    except LakeConflict as error:
        if as_json:
            print_json({"source": branch, "commit": None, "conflicts": [each.to_dict() for each in error.conflicts]})
        raise
    if as_json:
        print_json(result.to_dict())
    else:
        _print_publication(result, dry_run)
    if result.conflicts:
        ctx.exit(1)


def _refuse_runs(lake: Lake, branch: str) -> None:
    """A run publishes by itself when all its models are built and all audits passed; what is left of it is not so."""
    ref = lake.store.ref(branch)
    if ref and ref.kind is RefKind.RUN:
        raise UsageError(
            f"{branch} is the branch of a run that did not finish. Nothing was published.",
            remedy=f"Fix what failed and resume: mere run --resume {run_of(branch)}",
        )


def _print_publication(result: Publication, dry_run: bool) -> None:
    if not result.changes and not result.conflicts:
        say(f"nothing to publish: {result.source} has changed nothing since it left {result.target}")
        return
    what = counted(len(result.changes), "change")
    if result.commit:
        say(f"published {result.source} into {result.target}: commit {result.commit.short_id}, {what}")
    elif dry_run:
        say(f"would publish {result.source} into {result.target}: {what}")
    for line in change_lines(result.changes):
        click.echo(f"    {line}")
    for conflict in result.conflicts:
        by = f" by {conflict.theirs.by} (commit {conflict.theirs.short_id})" if conflict.theirs else ""
        click.echo(f"    conflict: {conflict.key} was changed on {result.target}{by}")


@click.command(epilog=example("mere revert 3fa9c1d2", "mere revert --to main@2h"))
@click.argument("commit", required=False)
@click.option("--to", metavar="REF", help="Go back to the state at REF.")
@click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to commit to.")
@message_option
@json_option
@click.pass_context
def revert(ctx: click.Context, commit: str | None, to: str | None, on: str, message: str | None, as_json: bool) -> None:
    """Undo COMMIT, or everything since a ref, in a new commit. Nothing is lost: the undone commits stay in the log."""
    if (commit is None) == (to is None):
        raise UsageError("Name a commit to undo, or --to REF, not both.", remedy="See mere revert --help.")
    lake = open_lake(ctx)
    made = lake.revert(commit, on, message=message) if commit else lake.restore(str(to), on, message=message)
    if as_json:
        print_json(made.to_dict() if made else None)
    elif made:
        _print_commit(made)
    else:
        say(f"nothing to do: {on} is already what it was {f'at {to}' if to else f'before {commit}'}")


@click.command(epilog=example("mere drop staging.old_orders --on dev"))
@click.argument("tables", nargs=-1, required=True, metavar="TABLE…")
@click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to drop from.")
@message_option
@json_option
@click.pass_context
def drop(ctx: click.Context, tables: tuple[str, ...], on: str, message: str | None, as_json: bool) -> None:
    """Drop tables or views from one branch. Other refs keep them, and mere revert brings them back."""
    commit = open_lake(ctx).drop(*tables, on=on, message=message)
    if as_json:
        print_json(commit.to_dict())
    else:
        _print_commit(commit)


@click.command(epilog=example("mere rename gold.revenue gold.daily_revenue"))
@click.argument("table")
@click.argument("to", metavar="NEW_NAME")
@click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to rename on.")
@message_option
@json_option
@click.pass_context
def rename(ctx: click.Context, table: str, to: str, on: str, message: str | None, as_json: bool) -> None:
    """Give a table or view another name on one branch. Its rows, its history and its state go with it."""
    commit = open_lake(ctx).rename(table, to, on, message=message)
    if as_json:
        print_json(commit.to_dict())
    else:
        _print_commit(commit)
