"""What plan and run share: the options that select models, and how a plan is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from mere.api.plan import Plan, PlanState, decision
from mere.cli.commands import as_typed
from mere.cli.output import Command, example, json_option, open_project, print_json, print_table, say
from mere.pipeline.plan.steps import LeftBehind
from mere.project.check.findings import Finding
from mere.text.words import counted

# The exit codes of `mere plan --exit-code`.
_STATES = {PlanState.NOTHING: 0, PlanState.WORK: 3, PlanState.DECISION: 4}


def choosing(command: Command) -> Command:
    for option in reversed(
        (
            click.argument("select", nargs=-1, metavar="[SELECT]…"),
            click.option("--select", "more", multiple=True, metavar="SELECT", help="The same as [SELECT]."),
            click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to build for."),
            click.option("--full-refresh", is_flag=True, help="Rebuild the selected models from scratch."),
            click.option("--from", "start", metavar="TIME", help="Build windows from this time on, due or not."),
            click.option("--to", "end", metavar="TIME", help="Build windows up to, but not including, this time."),
            click.option("--forward-only", is_flag=True, help="Use new code for new windows only; keep what is built."),
            click.option("--allow-breaking", is_flag=True, help="Allow columns to be dropped or narrowed."),
            click.option(
                "--limit-windows", type=click.IntRange(min=1), metavar="N", help="Build only the newest N windows."
            ),
            click.option("--sample", metavar="SHARE", help="Read only a share of each input, such as 1%."),
            click.option("--no-check", is_flag=True, help="Run even if mere check finds errors."),
            click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable."),
        )
    ):
        command = option(command)
    return command


def chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `choosing` as keywords."""
    own = {name: value for name, value in options.items() if name not in ("more", "no_check")}
    return {**own, "select": (*options["select"], *options["more"]), "check": not options["no_check"]}


@click.command(
    epilog=example(
        "mere plan", "mere plan +gold.daily_revenue", "mere plan --accept silver.orders", "mere plan --exit-code"
    )
)
@choosing
@click.option("--accept", multiple=True, metavar="MODEL", help="Accept the model's table as it is now.")
@click.option("--exit-code", is_flag=True, help="Exit with 3 if there is something to do, 4 if a decision is needed.")
@json_option
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    accept: tuple[str, ...],
    exit_code: bool,
    as_json: bool,
    variables: tuple[str, ...],
    **options: Any,
) -> None:
    """Show what a run would build, and why. Starts nothing and changes nothing, except with --accept.

    SELECT: names, globs ('gold.*'), tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    Default: all models.

    \b
    Exit codes: 0; 1 if there are errors; 2 wrong usage.
    With --exit-code: 0 nothing to do, 3 something to do, 4 a decision is needed.
    """
    due = open_project(ctx, variables).plan(**chosen(options), accept=accept)
    if as_json:
        print_json(due.to_dict())
    else:
        if accept:
            say(f"accepted as built: {', '.join(map(str, due.accepted))}")
        print_plan(due)
        print_errors(due.errors)
    ctx.exit(_exit_code(due, exit_code))


def _exit_code(due: Plan, as_state: bool) -> int:
    if due.errors:
        return 1
    return _STATES[due.state] if as_state else 0


def print_errors(errors: Sequence[Finding]) -> None:
    for each in errors:
        click.secho("\nerror", fg="red", nl=False)
        click.echo(f" {each.rule}: {each}")
        if each.remedy:
            click.echo(f"  {as_typed(each.remedy)}")
    if errors:
        say(f"{counted(len(errors), 'error')}: mere run refuses to start")


def print_plan(due: Plan) -> None:
    columns, rows = due.summary
    if rows:
        print_table(columns, rows)
    if due.rest:
        say(due.rest)
    for note in due.notes:
        click.echo(f"note: {note}")
    for step in due.undecided:
        click.echo(f"\n{decision(step)}")
        click.echo("\n".join(f"  {line}" for line in as_typed(step.remedy).splitlines()))
    for each in due.left_behind:
        click.echo(f"\n{each.table} is on {due.ref}, but {_why_left(each)}.")
        if each.renamed_to:
            say(f"  mere rename {each.table} {each.renamed_to}   if it was renamed: keeps its rows and history")
        say(f"  mere drop {each.table}   if it is not needed; until then it stays")


def _why_left(each: LeftBehind) -> str:
    return f"no rule of {each.quarantine_of} quarantines" if each.quarantine_of else "no model makes it now"
