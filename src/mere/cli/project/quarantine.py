"""mere quarantine."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.core import ParameterSource

from mere.api.quarantine import quarantined
from mere.cli.output import example, json_option, open_lake, print_json, print_table, say
from mere.cli.project.events import Watch, open_to_run
from mere.errors import UsageError
from mere.text.notebook import Column
from mere.text.words import counted, moment

_at_option = click.option("--at", default="main", show_default=True, metavar="REF", help="Any ref.")


@click.group(
    invoke_without_command=True,
    epilog=example("mere quarantine", "mere quarantine list silver.orders --at dev", "mere quarantine retry"),
)
@_at_option
@json_option
@click.pass_context
def quarantine(ctx: click.Context, at: str, as_json: bool) -> None:
    """List or retry quarantined rows, which broke a rule."""
    if ctx.invoked_subcommand is None:
        _show(ctx, (), at, as_json)
        return
    for name, written in (("at", "--at"), ("as_json", "--json")):
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{written} before {ctx.invoked_subcommand} has no effect.",
                remedy=f"mere quarantine {ctx.invoked_subcommand} --help",
            )


@quarantine.command("list", epilog=example("mere quarantine list", "mere quarantine list silver.orders --at main~1"))
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@_at_option
@json_option
@click.pass_context
def quarantine_list(ctx: click.Context, tables: tuple[str, ...], at: str, as_json: bool) -> None:
    """Count the rows in quarantine by table, rule and run. A row that breaks two rules counts for both.

    TABLE: a model, or its quarantine. Default: all.
    """
    _show(ctx, tables, at, as_json)


def _show(ctx: click.Context, tables: Sequence[str], at: str, as_json: bool) -> None:
    found = quarantined(open_lake(ctx), tables, at)
    if as_json:
        print_json([each.to_dict() for each in found])
        return
    held = [(each, held) for each in found for held in each.held]
    if not held:
        say(f"no rows in quarantine on {at}")
        return
    columns = [Column("table"), Column("rule"), Column("run"), Column("at"), Column("rows", True)]
    print_table(columns, [(of.of, each.rule, each.run, moment(each.at), f"{each.rows:,}") for of, each in held])
    rows = sum(each.rows for each in found)
    say(f"{counted(rows, 'row')} of {counted(sum(1 for each in found if each.rows), 'table')} in quarantine on {at}")


@quarantine.command("retry", epilog=example("mere quarantine retry", "mere quarantine retry silver.orders --on dev"))
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to build for.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("-m", "--message", help="The reason, shown by mere log.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as one line of JSON.")
@click.pass_context
def quarantine_retry(
    ctx: click.Context,
    tables: tuple[str, ...],
    on: str,
    variables: tuple[str, ...],
    message: str | None,
    as_json: bool,
) -> None:
    """Retry quarantined rows with today's rules and data, in a run like any other.

    \b
    Incremental models: their windows are rebuilt. Append models: rows that no longer break a rule move to the
    table. Merge models: their keys are rebuilt. All others: the whole table is. TABLE: a model, or its quarantine.
    Default: all that have rows in quarantine.
    Exit codes: those of mere run.
    """
    with Watch(as_json) as watch:
        project = open_to_run(ctx, variables)
        done = watch.follow(project, lambda listen: project.retry(tables, on=on, message=message, listen=listen))
        if done.plan is None and not as_json:
            say(f"no rows in quarantine on {on}")
