"""mere branch, mere tag."""

from __future__ import annotations

from typing import Any

import click

from mere.cli.output import Column, example, json_option, moment, open_lake, print_json, print_table, say
from mere.errors import UsageError
from mere.lake.lake import Lake
from mere.lake.refs import Ref, RefKind


def _ref_json(lake: Lake, ref: Ref) -> dict[str, Any]:
    commit = lake.store.commit_by_seq(ref.head)
    return {
        "name": ref.name,
        "kind": ref.kind,
        "commit": commit.id,
        "at": commit.at.isoformat(timespec="milliseconds"),
        "parent": ref.parent,
        "created_at": ref.created_at.isoformat(timespec="milliseconds"),
        "created_by": ref.created_by,
    }


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
        raise UsageError(f"--json goes behind {ctx.invoked_subcommand}.")
    return ctx.invoked_subcommand is None


class _Verbs(click.Group):
    """Says what was meant by `mere branch dev`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            raise UsageError(
                f"mere {ctx.info_name} has no verb {args[0]!r}.",
                remedy=f"To make one: mere {ctx.info_name} create {args[0]}. To see all: mere {ctx.info_name}",
            )
        return super().resolve_command(ctx, args)


def _created(lake: Lake, ref: Ref, as_json: bool) -> None:
    data = _ref_json(lake, ref)
    if as_json:
        print_json(data)
    else:
        say(f"{ref.kind} {ref.name} at commit {data['commit'][:10]} of {moment(lake.store.commit_by_seq(ref.head).at)}")


def _deleted(lake: Lake, name: str, as_json: bool, *kinds: RefKind) -> None:
    ref = lake.delete(name, *kinds)
    data = _ref_json(lake, ref)
    if as_json:
        print_json(data)
    else:
        say(f"{ref.kind} {name} deleted; it was at commit {data['commit'][:10]}, which stays until mere gc")


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
    """All branches, with the commit each is at."""
    _list(open_lake(ctx), as_json, RefKind.BRANCH, RefKind.RUN)


@branch.command("create", epilog=example("mere branch create dev", "mere branch create old --from main@2d"))
@click.argument("name")
@click.option("--from", "at", default="main", show_default=True, metavar="REF", help="Where it starts: any ref.")
@json_option
@click.pass_context
def branch_create(ctx: click.Context, name: str, at: str, as_json: bool) -> None:
    """Fork a branch."""
    lake = open_lake(ctx)
    _created(lake, lake.branch(name, at), as_json)


@branch.command("delete", epilog=example("mere branch delete dev"))
@click.argument("name")
@json_option
@click.pass_context
def branch_delete(ctx: click.Context, name: str, as_json: bool) -> None:
    """Delete a branch. What it published stays where it was published."""
    _deleted(open_lake(ctx), name, as_json, RefKind.BRANCH, RefKind.RUN)


@click.group(
    cls=_Verbs, invoke_without_command=True, epilog=example("mere tag create v1", "mere tag create before --at main~1")
)
@json_option
@click.pass_context
def tag(ctx: click.Context, as_json: bool) -> None:
    """List, create and delete tags: names for a commit, which engines can read but not write."""
    if _lists(ctx, as_json):
        _list(open_lake(ctx), as_json, RefKind.TAG)


@tag.command("list", epilog=example("mere tag list --json"))
@json_option
@click.pass_context
def tag_list(ctx: click.Context, as_json: bool) -> None:
    """All tags."""
    _list(open_lake(ctx), as_json, RefKind.TAG)


@tag.command("create", epilog=example("mere tag create v1", "mere tag create q3 --at main@2026-09-30T23:59"))
@click.argument("name")
@click.option("--at", default="main", show_default=True, metavar="REF", help="What it names: any ref.")
@json_option
@click.pass_context
def tag_create(ctx: click.Context, name: str, at: str, as_json: bool) -> None:
    """Give a commit a name that stays."""
    lake = open_lake(ctx)
    _created(lake, lake.tag(name, at), as_json)


@tag.command("delete", epilog=example("mere tag delete v1"))
@click.argument("name")
@json_option
@click.pass_context
def tag_delete(ctx: click.Context, name: str, as_json: bool) -> None:
    """Delete a tag. The commit stays in the history of its branch."""
    _deleted(open_lake(ctx), name, as_json, RefKind.TAG)
