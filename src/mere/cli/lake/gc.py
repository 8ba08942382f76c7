"""mere gc, mere relocate."""

from __future__ import annotations

from datetime import timedelta

import click

from mere.api.place import Address
from mere.cli.output import Age, example, json_option, lake_address, landed, open_lake, print_json, progress, say
from mere.errors import LakeNotFound
from mere.lake.lake import Lake
from mere.lake.storage.port import place
from mere.lake.upkeep.gc import GRACE, KEEP_RUNS, Kept, Sweep
from mere.text.words import counted, moment, size

_NAMES = 5


@click.command(epilog=example("mere gc --dry-run", "mere gc --keep 90d"))
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@click.option(
    "--grace", type=Age(), default=GRACE, metavar="AGE", help="How long a file must have been unreachable. [24h]"
)
@click.option("--keep", type=Age(), metavar="AGE", help="Keep only commits younger than this. [all]")
@click.option("--keep-runs", type=Age(), default=KEEP_RUNS, metavar="AGE", help="How long to keep dead runs. [7d]")
@json_option
@click.pass_context
def gc(
    ctx: click.Context, dry_run: bool, grace: timedelta, keep: timedelta | None, keep_runs: timedelta, as_json: bool
) -> None:
    """Delete unreachable files and the branches of dead runs.

    A file is unreachable if no branch, tag, commit or run needs it. It is deleted in two phases: one gc marks it, and
    the first gc after the grace time deletes it, unless something needs it again. The same goes for commits, and for
    files of sources that were landed longer ago than `landing: {keep: AGE}` in mere.yaml says. An AGE is a number with
    s, m, h, d or w.
    """
    swept = open_lake(ctx).gc(dry_run=dry_run, grace=grace, keep=keep, keep_runs=keep_runs, landed=landed(ctx))
    if as_json:
        print_json(_sweep_json(swept))
    else:
        _print_sweep(swept)


def _sweep_json(swept: Sweep) -> dict[str, object]:
    return {
        "dry_run": swept.dry_run,
        "runs": [ref.name for ref in swept.runs],
        "aliases": [ref.name for ref in swept.aliases],
        "commits": [commit.id for commit in swept.commits],
        "commits_doomed": [commit.id for commit in swept.commits_doomed],
        "doomed": [{"location": file.location, "bytes": file.size} for file in swept.doomed],
        "deleted": [{"location": file.location, "bytes": file.size} for file in swept.deleted],
        "kept": {str(reason): count for reason, count in swept.kept.items()},
        "live": [{"who": live.who, "since": live.since.isoformat(timespec="milliseconds")} for live in swept.live],
        "dead_runs": [ref.name for ref in swept.dead],
    }


def _print_sweep(swept: Sweep) -> None:
    will = "would be " if swept.dry_run else ""
    lines = [
        (len(swept.runs), f"{counted(len(swept.runs), 'dead run')} {will}deleted"),
        (len(swept.aliases), f"{counted(len(swept.aliases), 'unused alias', 'unused aliases')} {will}deleted"),
        (len(swept.commits), f"{counted(len(swept.commits), 'commit')} {will}given up"),
        (len(swept.commits_doomed), f"{counted(len(swept.commits_doomed), 'commit')} {will}doomed"),
        (len(swept.deleted), f"{counted(len(swept.deleted), 'file')} {will}deleted, {size(swept.bytes_deleted)}"),
        (len(swept.doomed), f"{counted(len(swept.doomed), 'file')} {will}doomed, {size(swept.bytes_doomed)}"),
    ]
    shown = [line for count, line in lines if count]
    for line in shown or ["nothing to sweep"]:
        say(line)
    for reason, count in swept.kept.items():
        say(f"{counted(count, 'file')} kept: {reason}{_whose(reason, swept)}")
    if Kept.DEAD_RUN in swept.kept:
        say("to delete these branches: mere runs clean")


def _whose(reason: Kept, swept: Sweep) -> str:
    """Who is behind it, by name."""
    if reason is Kept.RUN:
        return f" ({swept.live[0].who}, {moment(swept.live[0].since)})"
    if reason is Kept.DEAD_RUN:
        names = [ref.name for ref in swept.dead]
        return f" ({', '.join(names[:_NAMES])}{', …' if len(names) > _NAMES else ''})"
    return ""


@click.command(
    epilog=example(
        "mv shop /data/shop && mere relocate /data/shop/lake",
        "aws s3 sync s3://old/shop s3://new/shop  # then write the new place into mere.yaml, and",
        "mere relocate",
    )
)
@click.argument("path", required=False, metavar="[LAKE]")
@json_option
@click.pass_context
def relocate(ctx: click.Context, path: str | None, as_json: bool) -> None:
    """Fix the paths in a lake whose files were moved or copied. Default: the lake of mere.yaml.

    Data files are not touched. A copied folder with its catalog.db becomes a lake of its own, independent of its
    original. A catalog in Postgres stays one, however often the files are copied: it then points to the new place.
    """
    with progress("fixing metadata", as_json) as advance:
        address = _address(ctx, path)
        done = Lake.relocate(address.path, catalog=address.catalog, s3=address.s3, progress=advance)
    if as_json:
        print_json(vars(done) | {"moved": done.moved})
    elif done.moved:
        say(
            f"{done.root} was at {done.old_root}: {counted(done.pointers, 'pointer')} fixed,"
            f" {counted(done.files, 'file')} rewritten ({size(done.size)})"
        )
        if done.copied:
            say(f"the original is still there, so this copy is a lake of its own now ({done.lake_id[:10]})")
    else:
        say(f"nothing to do: {done.root} is where it was made")


def _address(ctx: click.Context, path: str | None) -> Address:
    """The path alone does not tell where the catalog of the project's lake is."""
    if path is None:
        return lake_address(ctx)
    try:
        of_project = lake_address(ctx)
    except LakeNotFound:
        return Address(path)
    return of_project if place(of_project.path) == place(path) else Address(path)
