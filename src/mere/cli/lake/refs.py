"""mere branch, mere tag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mere.api.update import updated
from mere.cli.output import example, json_option, open_lake, print_json, print_table, say
from mere.config import find_project
from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.lake.log.refs import Ref, RefKind
from mere.text.notebook import Column
from mere.text.words import moment


def _ref_json(lake: Lake, ref: Ref) -> dict[str, Any]:
    return ref.to_dict(lake.store.commit_by_seq(ref.head))


def _list(lake: Lake, as_json: bool, *kinds: RefKind) -> None:
    found = [_ref_json(lake, ref) for ref in lake.refs(*kinds)]
    if as_json:
        print_json(found)
        return
    columns = [
        Column("name"),
        Column("kind"),
        Column("commit"),
        Column("committed"),
        Column("from"),
        Column("by"),
    ]
    print_table(
        columns,
        [
            (
                r["name"],
                r["kind"],
                r["commit"][:10],
                r["at"][:19].replace("T", " ") + "Z",
                r["parent"],
                r["created_by"],
            )
            for r in found
        ],
    )


def _lists(ctx: click.Context, as_json: bool) -> bool:
    """Whether the group was called by itself."""
    if ctx.invoked_subcommand and as_json:
        raise UsageError(f"--json goes after {ctx.invoked_subcommand}.")
    return ctx.invoked_subcommand is None


class _Verbs(click.Group):
    """Says what was meant by `mere branch dev`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(
                f"mere {ctx.info_name} has no subcommand {args[0]!r}.",
                remedy=f"To make one: mere {ctx.info_name} create {args[0]}. To see all: mere {ctx.info_name}",
            )
        return super().resolve_command(ctx, args)


def _created(lake: Lake, ref: Ref, as_json: bool) -> None:
    data = _ref_json(lake, ref)
    if as_json:
        print_json(data)
    else:
        say(f"{ref.kind} {ref.name} at commit {data['commit'][:10]} of {moment(lake.store.commit_by_seq(ref.head).at)}")


def _deleted(lake: Lake, patterns: tuple[str, ...], dry_run: bool, as_json: bool, *kinds: RefKind) -> None:
    at = {ref.name: _ref_json(lake, ref) for ref in lake.refs(*kinds)}
    done = lake.delete_matching(*patterns, kinds=kinds, dry_run=dry_run)
    if as_json:
        print_json([at[ref.name] for ref in done.refs])
        return
    will = "would be deleted; it is" if dry_run else "deleted; it was"
    for ref in done.refs:
        say(f"{ref.kind} {ref.name} {will} at commit {at[ref.name]['commit'][:10]}, kept until mere gc")
    for ref in done.spared:
        say(f"{ref.name} was kept: its run is in progress")


_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be deleted; change nothing.")


@click.group(
    cls=_Verbs,
    invoke_without_command=True,
    epilog=example("mere branch create dev", "mere branch create fix --from v1"),
)
@json_option
@click.pass_context
def branch(ctx: click.Context, as_json: bool) -> None:
    """List, create and delete branches. A fork copies no data."""
    if _lists(ctx, as_json):
        _list(open_lake(ctx), as_json, RefKind.BRANCH, RefKind.RUN)


@branch.command("list", epilog=example("mere branch list --json"))
@json_option
@click.pass_context
def branch_list(ctx: click.Context, as_json: bool) -> None:
    """List all branches, with the commit each is at."""
    _list(open_lake(ctx), as_json, RefKind.BRANCH, RefKind.RUN)


@branch.command("create", epilog=example("mere branch create dev", "mere branch create old --from main@2d"))
@click.argument("name")
@click.option("--from", "at", default="main", show_default=True, metavar="REF", help="The ref to start from.")
@json_option
@click.pass_context
def branch_create(ctx: click.Context, name: str, at: str, as_json: bool) -> None:
    """Fork a branch."""
    lake = open_lake(ctx)
    _created(lake, lake.branch(name, at), as_json)


@branch.command("delete", epilog=example("mere branch delete dev", "mere branch delete 'try-*' old --dry-run"))
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@_dry_run
@json_option
@click.pass_context
def branch_delete(ctx: click.Context, names: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Delete branches, by name or by pattern (* ? []). What they published stays published.

    If one of them cannot be deleted, none is. A pattern skips main, and runs in progress.
    """
    _deleted(open_lake(ctx), names, dry_run, as_json, RefKind.BRANCH, RefKind.RUN)


@branch.command("update", epilog=example("mere branch update dev", "mere branch update dev --no-run"))
@click.argument("name")
@click.option("--no-run", is_flag=True, help="Do not rebuild the models that the changes touch.")
@json_option
@click.pass_context
def branch_update(ctx: click.Context, name: str, no_run: bool, as_json: bool) -> None:
    """Bring the changes of its parent into a branch, and rebuild the branch's own models that they touch.

    Models that were built from a part of the data are left as they are. --json prints each event as a line.
    """
    from mere.cli.project.events import Watch, open_to_run

    with Watch(as_json) as watch:
        if find_project(Path.cwd()) is None:
            lake = open_lake(ctx)
            watch.show(updated(lake, name).updated, lake)
            return
        project = open_to_run(ctx)
        watch.follow_update(project, lambda listen: project.update_branch(name, run=not no_run, listen=listen))


@click.group(
    cls=_Verbs, invoke_without_command=True, epilog=example("mere tag create v1", "mere tag create before --at main~1")
)
@json_option
@click.pass_context
def tag(ctx: click.Context, as_json: bool) -> None:
    """List, create and delete tags: permanent names of commits.

    Engines can read a tag but not write to it."""
    if _lists(ctx, as_json):
        _list(open_lake(ctx), as_json, RefKind.TAG)


@tag.command("list", epilog=example("mere tag list --json"))
@json_option
@click.pass_context
def tag_list(ctx: click.Context, as_json: bool) -> None:
    """List all tags."""
    _list(open_lake(ctx), as_json, RefKind.TAG)


@tag.command("create", epilog=example("mere tag create v1", "mere tag create q3 --at main@2026-09-30T23:59"))
@click.argument("name")
@click.option("--at", default="main", show_default=True, metavar="REF", help="The ref to name.")
@json_option
@click.pass_context
def tag_create(ctx: click.Context, name: str, at: str, as_json: bool) -> None:
    """Give a commit a permanent name."""
    lake = open_lake(ctx)
    _created(lake, lake.tag(name, at), as_json)


@tag.command("delete", epilog=example("mere tag delete v1", "mere tag delete 'nightly-*' --dry-run"))
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@_dry_run
@json_option
@click.pass_context
def tag_delete(ctx: click.Context, names: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Delete tags, by name or by pattern (* ? []). Their commits stay in the history of their branches.

    If one of them cannot be deleted, none is.
    """
    _deleted(open_lake(ctx), names, dry_run, as_json, RefKind.TAG)
