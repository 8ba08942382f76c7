"""mere user add, list, remove."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from mere import config
from mere.cli.output import Command, example, json_option, open_lake, print_json, print_table, say
from mere.errors import UsageError
from mere.text.notebook import Column
from mere.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mere.serve.access.users import Users


def users_option(command: Command) -> Command:
    return click.option(
        "--users",
        type=click.Path(path_type=Path),
        envvar="MERE_USERS",
        metavar="FILE",
        help="The users and their verifiers. [.mere/users.json beside mere.yaml]",
    )(command)


def roles_option(command: Command) -> Command:
    return click.option(
        "--roles",
        type=click.Path(path_type=Path),
        envvar="MERE_ROLES",
        metavar="FILE",
        callback=_named,
        help="Who may read what, and how much: a YAML file.",
    )(command)


def _named(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    """An empty variable names no file, and is no way to say that everybody may read all."""
    if file is None and os.environ.get("MERE_ROLES") == "":
        raise UsageError(
            "MERE_ROLES is set, and names no file of roles.",
            remedy="Set it to the file, or without roles: unset MERE_ROLES",
        )
    return file


def users_file(ctx: click.Context, given: Path | None) -> Users:
    from mere.serve.access.users import Users

    path = users_path(ctx, given)
    if path is None:
        raise UsageError(
            "There is no mere.yaml beside which the users are kept.", remedy="Name a file for them: --users FILE"
        )
    return Users(path)


def users_path(ctx: click.Context, given: Path | None) -> Path | None:
    from mere.serve.access.users import FILE_NAME

    if given is not None:
        return given
    project = None if ctx.find_root().obj["lake"] else config.find_project(Path.cwd())
    return project.parent / ".mere" / FILE_NAME if project is not None else None


@click.group(epilog=example("mere user add ann", "mere user list", "mere user can ann", "mere user remove ann"))
def user() -> None:
    """Manage the users of mere serve.

    The file holds no passwords, only what is needed to check them (SCRAM-SHA-256); only its owner can read it. A
    running server applies changes at once.
    """


@user.command(epilog=example("mere user add ann", "mere user add ann --password-file - < secret"))
@click.argument("name")
@click.option(
    "--password-file",
    type=click.File("r"),
    metavar="FILE",
    help="Read the password from its first line; - is standard input.",
)
@users_option
@json_option
@click.pass_context
def add(ctx: click.Context, name: str, password_file: IO[str] | None, users: Path | None, as_json: bool) -> None:
    """Add a user, or change a user's password. Asks for the password, or reads it from a file."""
    file = users_file(ctx, users)
    new = file.add(name, _password(password_file))
    if as_json:
        print_json({"user": name, "added": new, "file": str(file.path)})
    else:
        say(f"{name} {'was added' if new else 'has a new password'}: {file.path}")


def _password(file: IO[str] | None) -> str:
    if file is not None:
        return file.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError(
            "There is no terminal to ask for the password on.",
            remedy="Pipe it in: mere user add NAME --password-file -",
        )
    typed: str = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return typed


@user.command("list", epilog=example("mere user list", "mere user list --json"))
@users_option
@json_option
@click.pass_context
def list_(ctx: click.Context, users: Path | None, as_json: bool) -> None:
    """List the users."""
    names = users_file(ctx, users).names()
    if as_json:
        print_json({"users": names})
    else:
        say("\n".join(names) if names else "no users; add one: mere user add NAME")


@user.command(epilog=example("mere user remove ann"))
@click.argument("name")
@users_option
@json_option
@click.pass_context
def remove(ctx: click.Context, name: str, users: Path | None, as_json: bool) -> None:
    """Remove a user with its tokens, and end its connections to a running server."""
    from mere.serve.access.tokens import Tokens

    file = users_file(ctx, users)
    if not file.remove(name):
        raise UsageError(f"There is no user {name} in {file.path}.", remedy="See who there is: mere user list")
    revoked = Tokens(Tokens.beside(file.path)).revoke_of(name)
    if as_json:
        print_json({"user": name, "removed": True, "tokens": [each.id for each in revoked]})
    else:
        say(f"{name} was removed" + (f", with {counted(len(revoked), 'token')}" if revoked else ""))


@user.command(
    epilog=example("mere user can ann --roles roles.yaml", "mere user can ann --roles roles.yaml --at dev --json")
)
@click.argument("name")
@click.option(
    "--at", metavar="REF", help="The ref whose tables to list. Default: main, or the first the user may read."
)
@roles_option
@json_option
@click.pass_context
def can(ctx: click.Context, name: str, at: str | None, roles: Path | None, as_json: bool) -> None:
    """Show what a user may see and write: refs, tables, columns, rows. Without --roles: everything."""
    from mere.serve.access.roles import Everybody
    from mere.serve.roles import file as rolefile
    from mere.serve.roles import sights

    found = sights.of_user(open_lake(ctx), rolefile.load(roles) if roles else Everybody(), name, at)
    if as_json:
        print_json(sights.as_json(found))
        return
    if found.role is None:
        say(f"{name} has no role in {roles}, and cannot connect.")
        return
    say(f"{name} has the role {found.role.name}." if roles else f"{name} may read everything: there are no roles.")
    past = "" if found.role.history else ", without their history"
    say(f"refs: {', '.join(found.refs) or 'none'}{past}")
    if (writes := found.role.writes) is not None:
        say(f"writes over REST: {shown_schemas(writes.schemas)} on {shown_branches(writes.refs, found.written)}")
        if writes.publish:
            say(f"publishes into {', '.join(writes.publish)}")
    limits = found.role.limits
    if limits.time is not None:
        say(f"a statement takes at most {limits.time}")
    if limits.rows is not None:
        say(f"a result has at most {limits.rows} rows")
    if found.ref is None:
        return
    say(f"tables of {found.ref}:" if found.tables else f"tables of {found.ref}: none")
    if found.refused:
        say(f"  {found.refused}")
    rows = [
        (f"  {each.table}", each.kind, each.refused or ", ".join(each.columns), " AND ".join(each.rows))
        for each in found.tables
    ]
    if rows:
        print_table([Column("  table"), Column("kind"), Column("columns"), Column("rows")], rows)


def shown_branches(patterns: Sequence[str], there: Sequence[str]) -> str:
    """As the role names them; what a pattern means at the moment is in brackets."""
    if set(patterns) == set(there):
        return ", ".join(patterns)
    return f"{', '.join(patterns)} (there now: {', '.join(there) or 'none'})"


def shown_schemas(patterns: Sequence[str]) -> str:
    return "all schemas" if "*" in patterns else f"schema{'s' * (len(patterns) > 1)} {', '.join(patterns)}"
