"""mere lake delete."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import asdict

import click

from mere.cli.output import example, json_option, lake_address, print_json, say
from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.lake.upkeep.deletion import Removal
from mere.text.words import counted, size

_NAMED = 20


@click.group(epilog=example("mere lake delete --dry-run", "mere lake delete --yes"))
def lake() -> None:
    """Delete the lake."""


@lake.command(
    "delete",
    epilog=example("mere lake delete --dry-run", "mere --profile team lake delete", "mere lake delete --yes --json"),
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")
@json_option
@click.pass_context
def delete(ctx: click.Context, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete the lake of mere.yaml, or that of --lake: its catalog, all its tables, branches and history.

    Lists what it will delete, and asks. The project stays, and so do files of adopted tables outside of the lake.
    Deletes nothing while a run is in progress, or if the lake's folder holds anything that is not the lake's.
    """
    if as_json and not (yes or dry_run):
        raise UsageError("With --json nobody is asked.", remedy="Add --yes to delete, or --dry-run to look.")
    address = lake_address(ctx)
    with closing(Lake.deletion(address.path, catalog=address.catalog, s3=address.s3)) as deletion:
        if not as_json:
            _print(deletion.removal)
        deleted = not dry_run and (yes or _agreed())
        if deleted:
            deletion.carry_out()
        if as_json:
            print_json(_json(deletion.removal, deleted))
        elif deleted:
            say(f"deleted the lake at {deletion.removal.location}")
        else:
            say("Nothing was changed.")


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to confirm on. Nothing was changed.", remedy="Add --yes to delete it.")
    return click.confirm("Delete all of it? This cannot be undone.")


def _print(removal: Removal) -> None:
    rest = "what is left of the lake" if removal.resumed else "the lake"
    say(f"{rest} at {removal.location}: {counted(removal.files, 'file')}, {size(removal.size)}")
    if removal.catalog:
        say(f"  its catalog: {removal.catalog}")
    if removal.refs:
        say(f"  {counted(len(removal.refs), 'branch or tag', 'branches and tags')}: {_listed(removal.refs)}")
    if removal.tables:
        say(f"  {counted(len(removal.tables), 'table')}: {_listed(tuple(map(str, removal.tables)))}")


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _json(removal: Removal, deleted: bool) -> dict[str, object]:
    return {"deleted": deleted, **asdict(removal), "tables": [str(each) for each in removal.tables]}
