"""mere audit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click

from mere.audits.engines import columns_at, duckdb_sql
from mere.audits.evaluate import Finding, State
from mere.cli.output import Column, example, json_option, print_json, print_table, say
from mere.cli.project.plan import open_project
from mere.cli.rows import cell
from mere.errors import QueryError
from mere.lake.lake import Lake
from mere.pipeline.run.audit import Audited
from mere.pipeline.run.audit import audit as run_audits
from mere.words import counted

_MARKS = {State.OK: "·", State.WARNED: "!", State.FAILED: "✗", State.ERROR: "✗"}


@click.command(
    epilog=example("mere audit", "mere audit gold.daily_revenue --at dev", "mere audit 'gold.*' --at main~1")
)
@click.argument("select", nargs=-1, metavar="[SELECT]…")
@click.option("--at", default="main", show_default=True, metavar="REF", help="Any ref.")
@click.option("--spark", is_flag=True, help="Run them on Spark: for those that DuckDB cannot run.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@json_option
@click.pass_context
def audit(
    ctx: click.Context, select: tuple[str, ...], at: str, spark: bool, variables: tuple[str, ...], as_json: bool
) -> None:
    """Run the audits of the project's models on any ref. Nothing is built, and no JVM is started.

    SELECT: names, globs ('gold.*'), tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    Default: all models.
    Exits with 1 if an audit of severity error fails.
    """
    project = open_project(ctx, variables)
    selected = project.graph.select(select)
    found = run_audits(project.lake, project.graph, selected, at, project.lake.now(), project.spark if spark else None)
    if as_json:
        print_json(_to_json(project.lake, found, at))
    else:
        _print(project.lake, found, at)
    ctx.exit(int(found.blocks))


def _to_json(lake: Lake, found: Audited, at: str) -> dict[str, Any]:
    return {
        "ref": at,
        "commit": found.commit.id,
        "findings": [
            {**finding.to_json(), "duckdb": _in_duckdb(lake, finding.query, at)} for finding in found.findings
        ],
        "missing": [str(table) for table in found.missing],
    }


def _in_duckdb(lake: Lake, query: str, at: str) -> str | None:
    try:
        return duckdb_sql(query, columns_at(lake, at))
    except QueryError:
        return None


def _print(lake: Lake, found: Audited, at: str) -> None:
    for table in found.missing:
        say(f"{table} is not built on {at}")
    if not found.findings:
        say(f"no audits to run on {at}")
        return
    columns = [Column(""), Column("table"), Column("audit"), Column("state"), Column("result")]
    print_table(
        columns, [(_MARKS[each.state], each.table, each.audit, each.state, each.message) for each in found.findings]
    )
    bad = [finding for finding in found.findings if finding.state is not State.OK]
    for finding in bad:
        print_finding(lake, finding, at)
    states = [finding.state for finding in found.findings]
    counts = ", ".join(f"{states.count(state)} {state}" for state in State if state in states)
    say(f"\n{counted(len(states), 'audit')} at commit {found.commit.short_id}: {counts}")


def where_to_look(lake: Lake, query: str, at: str, bad_rows: bool) -> str:
    """What to type to see all the bad rows, or, of a rule about the whole table, what it looked at."""
    what = "all of them" if bad_rows else "it asked"
    translated = _in_duckdb(lake, query, at)
    if translated is None:
        return f"{what}: mere sql --spark --at {shlex.quote(at)} {shlex.quote(query)}"
    return f"{what}: mere sql --at {shlex.quote(at)} {shlex.quote(translated)}"


def print_finding(lake: Lake, finding: Finding, at: str) -> None:
    """What is bad, and how to see all of it."""
    say(f"\n{finding.table} {finding.audit}  ({finding.audit.place})")
    if finding.state is State.ERROR:
        say(f"  {finding.message}")
        return
    if finding.sample:
        _print_rows(finding.sample)
    say(f"  {where_to_look(lake, finding.query, at, bool(finding.sample))}")


def _print_rows(rows: Sequence[Any]) -> None:
    names = list(rows[0])
    indented = [Column(f"  {names[0]}"), *map(Column, names[1:])]
    values = [[cell(value) for value in row.values()] for row in rows]
    print_table(indented, [(f"  {first}", *rest) for first, *rest in values])
