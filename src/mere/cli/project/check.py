"""mere check."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mere.api.check import CheckResult
from mere.cli.output import example, json_option, open_project, print_json, say, tell_without_lake


@click.command(epilog=example("mere check", "mere check 'gold.*' --strict", "mere check --at dev --var currency=USD"))
@click.argument("select", nargs=-1)
@click.option("--at", metavar="REF", help="The ref on which to look up tables that no model makes. Default: main.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Instead of the one in mere.yaml.")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@json_option
@click.pass_context
def check(
    ctx: click.Context, select: Sequence[str], at: str | None, variables: Sequence[str], strict: bool, as_json: bool
) -> None:
    """Check the project's files for mistakes, without a JVM. Exits with 1 if there are errors.

    SELECT: names, globs ('gold.*'), tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    Default: all models.
    """
    found = open_project(ctx, variables, with_lake=False).check(select, at=at, strict=strict)
    tell_without_lake(found.without_lake)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    if not found.ok:
        ctx.exit(1)


def _print(found: CheckResult) -> None:
    for finding in found.findings:
        is_error = finding in found.errors
        click.secho("error" if is_error else "warning", fg="red" if is_error else "yellow", nl=False)
        click.echo(f" {finding.rule}: {finding.place}: {finding.message}")
        if finding.remedy:
            say(f"  {finding.remedy}")
    say(found.counts)
