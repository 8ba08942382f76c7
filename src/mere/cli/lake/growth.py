"""mere growth."""

from __future__ import annotations

from dataclasses import asdict

import click

from mere.cli.output import example, json_option, open_lake, print_json, print_table
from mere.lake.query.growth import Step
from mere.text.notebook import Column
from mere.text.words import size


@click.command(epilog=example("mere growth bronze.trips", "mere growth bronze.trips --at main@2d --json"))
@click.argument("table")
@click.option("--at", default="main", show_default=True, metavar="REF", help="Any ref.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True, help="Show at most this many.")
@json_option
@click.pass_context
def growth(ctx: click.Context, table: str, at: str, limit: int, as_json: bool) -> None:
    """Show how a table grew, snapshot by snapshot.

    Reads each snapshot by time travel and counts its rows. Snapshots that were compacted, expired or rolled back are
    gone; mere log has all commits.
    """
    from mere.lake.query.growth import growth as grown

    with open_lake(ctx) as lake:
        steps = grown(lake, table, at, limit)
    before = [None, *(each.rows for each in steps[:-1])]
    if as_json:
        print_json([{**asdict(each), "at": each.at.isoformat()} for each in steps])
        return
    columns = [Column("snapshot"), Column("at"), Column("what"), Column("rows", True), Column("growth", True)]
    columns += [Column("files", True), Column("size", True), Column("run")]
    print_table(columns, [_cells(each, rows) for each, rows in zip(steps, before, strict=True)])


def _cells(step: Step, before: int | None) -> list[object]:
    grown = step.rows - (before or 0)
    share = f" ({grown / before:+.0%})" if before else ""
    at = f"{step.at:%Y-%m-%d %H:%M:%S}"
    change = f"{grown:+,}{share}"
    return [step.snapshot, at, step.operation, f"{step.rows:,}", change, f"{step.files:,}", size(step.size), step.run]
