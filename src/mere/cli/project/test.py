"""mere test."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from mere import config
from mere.cli.output import example, json_option, open_lake, parse_variables, print_json, progress, say
from mere.config import SparkSettings
from mere.engine.session import get_ready
from mere.errors import ConfigError, LakeNotFound, UsageError
from mere.lake.lake import Lake
from mere.names import MAIN
from mere.pipeline.run.request import Project
from mere.project.cases import Case, read_cases
from mere.project.load import Loader
from mere.testing.run import Outcome, chosen, run_cases
from mere.words import counted


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
@click.option("--at", default=MAIN, show_default=True, metavar="REF", help="Where columns of tables are looked up.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@click.option("--create", metavar="MODEL", help="Write a test of this model from real rows; nothing is run but it.")
@click.option("--from", "source", metavar="REF", help="With --create: where the rows are. Default: main.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="With --create: so many. Default: 5.")
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
    """Run the unit tests of tests/*.yaml: rows are given, a model is run on them, its rows are compared. No table is
    read or written. NAME: names of tests, or globs.

    \b
    Exit codes: 0 all passed; 1 some failed; 2 wrong usage.
    """
    if create is None and (source or rows):
        raise UsageError("--from and --rows are for --create.", remedy="mere test --create MODEL --from REF")
    if create is not None and (names or select):
        raise UsageError("--create writes a test; it runs none.", remedy="Leave out the names and --select.")
    file = config.find_project(Path.cwd())
    if file is None:
        raise ConfigError("There is no mere.yaml here or in a folder above.", remedy="Make a project: mere init DIR.")
    settings = config.load(file, ctx.find_root().obj["profile"])
    given = parse_variables(variables)
    lake, spark = _lake(ctx, settings.spark)
    get_ready(lake, spark)
    loader = Loader(file.parent, given)
    graph = loader.load()
    project = Project(lake, graph, file.parent, spark, given)
    if create is not None:
        _create(project, create, source or MAIN, rows or 5, as_json)
        return
    cases = chosen(read_cases(loader.files, graph), names, graph.select(select))
    outcomes = _run(project, cases, at, as_json)
    failed = [each for each in outcomes if not each.passed]
    if as_json:
        found = {"passed": len(outcomes) - len(failed), "failed": len(failed)}
        print_json({**found, "tests": [each.to_json() for each in outcomes]})
    elif not outcomes:
        say("no tests")
    else:
        counts = f"{len(outcomes) - len(failed):,} passed" + (f", {len(failed):,} failed" if failed else "")
        say(f"{counted(len(outcomes), 'test')}: {counts}")
    ctx.exit(1 if failed else 0)


def _lake(ctx: click.Context, spark: SparkSettings) -> tuple[Lake, SparkSettings]:
    """A project can be tested where its lake is not, such as in a merge request: then in an empty one. An engine that
    is kept warm belongs to a lake: nobody would find that of one that is thrown away."""
    try:
        return open_lake(ctx), spark
    except LakeNotFound as error:
        click.echo(f"without the lake, so columns of its tables are not known: {error.message}", err=True)
    folder = ctx.with_resource(tempfile.TemporaryDirectory(prefix="mere-test-"))
    lake = Lake.create(Path(folder) / "lake")
    ctx.call_on_close(lake.close)
    return lake, replace(spark, keep_warm=None)


def _run(project: Project, cases: Sequence[Case], at: str, as_json: bool) -> list[Outcome]:
    outcomes = []
    with progress("tests", as_json) as watched:
        for outcome in run_cases(project, cases, project.lake.at(at)):
            outcomes.append(outcome)
            if watched:
                watched(len(outcomes), len(cases))
            elif not as_json:
                _print(outcome)
    if not as_json and sys.stderr.isatty():
        for outcome in outcomes:
            _print(outcome)
    return outcomes


def _print(outcome: Outcome) -> None:
    case = outcome.case
    if outcome.passed:
        say(f"✓ {case.model}  {case.name}  {outcome.seconds:.1f} s")
        return
    step = f", step {outcome.step}" if outcome.step else ""
    say(f"✗ {case.model}  {case.name}  ({case.place}{step})")
    lines = outcome.difference.lines() if outcome.difference else str(outcome.message).splitlines()
    say("\n".join(f"    {line}" for line in lines))


def _create(project: Project, model: str, source: str, rows: int, as_json: bool) -> None:
    from mere.testing.create import create

    made = create(project, model, source, rows)
    if as_json:
        print_json({"file": made.file, "name": made.name, "rows": made.rows})
        return
    say(f"wrote {made.name} to {made.file}: {made.told}")
    say("These are real rows. Look through them before they go into version control.")
