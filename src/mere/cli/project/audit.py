"""mere audit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click

from mere.api.audit import AuditResult, in_duckdb
from mere.audits.evaluate import Finding, State
from mere.cli.output import example, json_option, open_project, print_json, print_table, say
from mere.lake.lake import Lake
from mere.text.notebook import Column
from mere.text.values import cell


@click.command(
    epilog=example("mere audit", "mere audit gold.daily_revenue --at dev", "mere audit 'gold.*' --at main~1")
)
@click.argument("select", nargs=-1, metavar="[SELECT]…")
@click.option("--at", default="main", show_default=True, metavar="REF", help="Any ref.")
@click.option("--spark", is_flag=True, help="Run them on Spark, including those that DuckDB cannot run.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@json_option
@click.pass_context
def audit(
    ctx: click.Context, select: tuple[str, ...], at: str, spark: bool, variables: tuple[str, ...], as_json: bool
) -> None:
    """Run the audits of the project's models on any ref. Builds nothing and starts no JVM.

    SELECT: names, globs ('gold.*'), tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    Default: all models.
    Exits with 1 if an audit of severity error fails.
    """
    found = open_project(ctx, variables).audit(select, at=at, spark=spark)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    ctx.exit(int(not found.ok))


def _print(found: AuditResult) -> None:
    for table in found.missing:
        say(f"{table} is not built on {found.at}")
    if not found.findings:
        say(f"no audits to run on {found.at}")
        return
    print_table(*found.summary)
    for finding in found.bad:
        print_finding(found.lake, finding, found.at)
    say(f"\n{found.counts}")


def where_to_look(lake: Lake, query: str, at: str, bad_rows: bool) -> str:
    """What to type to see all the bad rows, or, of a rule about the whole table, what it looked at."""
    what = "all of them" if bad_rows else "it asked"
    translated = in_duckdb(lake, query, at)
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
