"""mere test."""

from __future__ import annotations

import sys
from typing import Any

import click

from mere.api.project import Project
from mere.api.test import TestResult, why_failed
from mere.cli.output import example, json_option, open_project, print_json, progress, say, tell_without_lake
from mere.errors import UsageError
from mere.names import MAIN
from mere.testing.run import Outcome


@click.command(
    epilog=example(
        "mere test",
        "mere test --select 'gold.*'",
        "mere test 'revenue_*' --json",
        "mere test --create gold.daily_revenue --from main --rows 5",
    )
)
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("-s", "--select", multiple=True, metavar="MODEL", help="Only tests of these models, as in run.")
@click.option(
    "--at", default=MAIN, show_default=True, metavar="REF", help="The ref on which to look up columns of tables."
)
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("--create", metavar="MODEL", help="Write a test of this model from real rows, and run no others.")
@click.option("--from", "source", metavar="REF", help="With --create: where the rows are. Default: main.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="With --create: how many rows. Default: 5.")
@json_option
@click.pass_context
def test(
    ctx: click.Context,
    names: tuple[str, ...],
    select: tuple[str, ...],
    at: str,
    variables: tuple[str, ...],
    create: str | None,
    source: str | None,
    rows: int | None,
    as_json: bool,
) -> None:
    """Run the unit tests of models, as written in tests/*.yaml.

    Each runs a model on given rows and compares its rows with those expected. No table is read or written. NAME: names
    of tests, or globs.

    \b
    Exit codes: 0 all passed; 1 some failed; 2 wrong usage.
    """
    if create is None and (source or rows):
        raise UsageError("--from and --rows go with --create.", remedy="mere test --create MODEL --from REF")
    if create is not None and (names or select):
        raise UsageError("--create writes a test and runs none.", remedy="Leave out the names and --select.")
    project = open_project(ctx, variables, with_lake=False)
    if create is not None:
        _create(project, create, source or MAIN, rows or 5, as_json)
        return
    found = _run(project, as_json, names=names, select=select, at=at)
    tell_without_lake(found.without_lake)
    if as_json:
        print_json(found.to_dict())
    elif not found.outcomes:
        say("no tests")
    else:
        say(found.counts)
    ctx.exit(0 if found.ok else 1)


def _run(project: Project, as_json: bool, **chosen: Any) -> TestResult:
    done = 0
    with progress("tests", as_json) as watched:

        def listen(outcome: Outcome, of: int) -> None:
            nonlocal done
            done += 1
            if watched:
                watched(done, of)
            elif not as_json:
                _print(outcome)

        found = project.test(**chosen, listen=listen)
    if not as_json and sys.stderr.isatty():
        for outcome in found.outcomes:
            _print(outcome)
    return found


def _print(outcome: Outcome) -> None:
    case = outcome.case
    if outcome.passed:
        say(f"✓ {case.model}  {case.name}  {outcome.seconds:.1f} s")
        return
    step = f", step {outcome.step}" if outcome.step else ""
    say(f"✗ {case.model}  {case.name}  ({case.place}{step})")
    say("\n".join(f"    {line}" for line in why_failed(outcome).splitlines()))


def _create(project: Project, model: str, source: str, rows: int, as_json: bool) -> None:
    made = project.create_test(model, source=source, rows=rows)
    if as_json:
        print_json(made.to_dict())
        return
    say(f"wrote {made.name} to {made.file}: {made.told}")
    say("These are real rows. Review them before you commit them to version control.")
