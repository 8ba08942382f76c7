"""mere token create, list, revoke."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mere.cli.output import Age, example, json_option, print_json, print_table, say
from mere.cli.service.user import roles_option, users_file, users_option
from mere.errors import UsageError
from mere.names import near
from mere.text.notebook import Column
from mere.text.words import moment

if TYPE_CHECKING:
    from mere.serve.access.tokens import Token, Tokens


def tokens_file(ctx: click.Context, users: Path | None) -> Tokens:
    from mere.serve.access.tokens import Tokens

    return Tokens(Tokens.beside(users_file(ctx, users).path))


@click.group(
    epilog=example(
        "export MERE_TOKEN=$(mere token create ann --role analyst --expires 90d)",
        "mere token list",
        "mere token revoke 3fa2c1d0",
    )
)
def token() -> None:
    """Manage the tokens with which programs log in over HTTP.

    A token is shown only once: the token file, next to the user file, has only hashes. A running server applies changes
    at once.
    """


@token.command(epilog=example("mere token create ann", "mere token create etl --role writer --expires 30d --json"))
@click.argument("name")
@click.option("--role", metavar="ROLE", help="The role of the token. [that of the user]")
@click.option("--expires", type=Age(), default="90d", show_default=True, metavar="AGE", help="How long it is valid.")
@roles_option
@users_option
@json_option
@click.pass_context
def create(
    ctx: click.Context,
    name: str,
    role: str | None,
    expires: timedelta,
    roles: Path | None,
    users: Path | None,
    as_json: bool,
) -> None:
    """Create a token for a user or a program. Whatever it does is recorded under NAME.

    With --roles, or MERE_ROLES, the role must be in that file.
    """
    if roles is not None:
        _require_role(roles, name, role)
    file = tokens_file(ctx, users)
    made, text = file.create(name, role, expires)
    if as_json:
        print_json({**_as_json(file, made), "token": text, "file": str(file.path)})
    else:
        click.echo(f"{made.id} is valid until {moment(made.expires)}, and is not shown again:", err=True)
        say(text)


@token.command("list", epilog=example("mere token list", "mere token list --json"))
@users_option
@json_option
@click.pass_context
def list_(ctx: click.Context, users: Path | None, as_json: bool) -> None:
    """List the tokens, without their secrets."""
    file = tokens_file(ctx, users)
    found = file.all()
    if as_json:
        print_json([_as_json(file, each) for each in found])
    elif not found:
        say("no tokens; create one: mere token create NAME")
    else:
        columns = [Column("id"), Column("user"), Column("role"), Column("created"), Column("expires")]
        print_table(columns, [(*_cells(each), _end(file, each)) for each in found])


@token.command(epilog=example("mere token revoke 3fa2c1d0"))
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@users_option
@json_option
@click.pass_context
def revoke(ctx: click.Context, ids: tuple[str, ...], users: Path | None, as_json: bool) -> None:
    """Revoke tokens. A running server refuses them at once."""
    revoked = tokens_file(ctx, users).revoke(*ids)
    if as_json:
        print_json({"revoked": [each.id for each in revoked]})
    for each in revoked if not as_json else ():
        say(f"{each.id} of {each.user} was revoked")


def _require_role(file: Path, name: str, role: str | None) -> None:
    from mere.serve.roles import file as rolefile

    declared = rolefile.load(file)
    found = declared.of(name) if role is None else declared.named(role)
    if found is None and role is None:
        raise UsageError(f"{name} has no role in {file}.", remedy="Name one: --role ROLE")
    if found is None:
        raise UsageError(f"There is no role {role} in {file}.", remedy=near(role or "", declared.roles).strip() or None)


def _as_json(file: Tokens, found: Token) -> dict[str, Any]:
    return {
        "id": found.id,
        "user": found.user,
        "role": found.role,
        "created": found.created.isoformat(),
        "expires": found.expires.isoformat(),
        "expired": file.is_expired(found),
    }


def _cells(found: Token) -> tuple[str, str, str, str]:
    return found.id, found.user, found.role or "", moment(found.created)


def _end(file: Tokens, found: Token) -> str:
    return moment(found.expires) + (" (expired)" if file.is_expired(found) else "")
