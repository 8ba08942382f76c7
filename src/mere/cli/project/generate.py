"""mere generate."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mere.cli.output import example, json_option, print_json, progress, say
from mere.text.words import counted, size
from mere.windows import instant

if TYPE_CHECKING:
    from mere.generate.files import Dataset

Command = Callable[..., None]


class Day(click.ParamType[datetime]):
    name = "day"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            at = value if isinstance(value, datetime) else instant(str(value))
            if at.hour or at.minute or at.second or at.microsecond or not 1980 <= at.year < 2200:
                raise ValueError
        except ValueError:
            self.fail(f"{value!r} is not a day such as 2024-01-31, or a month such as 2024-01", param, ctx)
        return at


def _shared(command: Command) -> Command:
    """What every dataset takes."""
    for decorate in (
        json_option,
        click.option("--force", is_flag=True, help="Overwrite files that differ."),
        click.option(
            "--seed",
            type=click.IntRange(0, 2**32 - 1),
            default=1,
            show_default=True,
            help="Another seed gives other rows.",
        ),
        click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path)),
    ):
        command = decorate(command)
    return command


def _start_option(default: str, what: str) -> Callable[[Command], Command]:
    return click.option("--start", type=Day(), default=default, show_default=True, metavar="DAY", help=what)


@click.group(
    epilog=example(
        "mere generate taxi --months 3 --rows 1000000 data",
        "mere generate market --days 60 --tickers 50 data",
        "mere generate jaffle --customers 500 --days 365 data",
    )
)
def generate() -> None:
    """Generate sample files from a seed.

    They have the columns, sizes and errors of real ones. The same seed and options give the same files everywhere.
    Existing files that differ are not overwritten.
    """


@generate.command("taxi", epilog=example("mere generate taxi --months 12 --rows 3000000 --start 2024-01 data"))
@click.option("--months", type=click.IntRange(1), default=3, show_default=True, help="How many files.")
@click.option("--rows", type=click.IntRange(1), default=100_000, show_default=True, help="How many rows in each month.")
@_start_option("2024-01", "The first month.")
@_shared
def generate_taxi(months: int, rows: int, start: datetime, seed: int, folder: Path, force: bool, as_json: bool) -> None:
    """Trips of yellow taxis: a Parquet file a month, with the columns of New York's TLC, and a lookup of zones."""
    from mere.generate.taxi import Taxi

    _write(Taxi(months, rows, seed, start), folder, force, as_json)


@generate.command("market", epilog=example("mere generate market --days 60 --poison 0.001 data"))
@click.option(
    "--days", type=click.IntRange(1), default=60, show_default=True, help="How many trading days; one file each."
)
@click.option("--tickers", type=click.IntRange(1, 17_576), default=50, show_default=True, help="How many stocks.")
@click.option("--poison", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="Share of malformed lines.")
@click.option(
    "--new-column-at", type=Day(), metavar="DAY", help="When the column vwap appears. [after 30 trading days]"
)
@_start_option("2024-01-02", "The first day.")
@_shared
def generate_market(
    days: int,
    tickers: int,
    poison: float,
    new_column_at: datetime | None,
    start: datetime,
    seed: int,
    folder: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Minute bars of stocks: a gzip CSV for each trading day, such as 2024/01/2024-01-02.csv.gz."""
    from mere.generate.market import Market

    _write(Market(days, tickers, seed, start, poison, new_column_at), folder, force, as_json)


@generate.command("jaffle", epilog=example("mere generate jaffle --customers 500 --days 365 data"))
@click.option(
    "--customers", type=click.IntRange(1), default=500, show_default=True, help="How many customers join in all."
)
@click.option(
    "--days", type=click.IntRange(1, 36_500), default=365, show_default=True, help="An export for each month."
)
@_start_option("2024-01-01", "The first day.")
@_shared
def generate_jaffle(
    customers: int, days: int, start: datetime, seed: int, folder: Path, force: bool, as_json: bool
) -> None:
    """A shop: customers, orders and payments as CSV, as of the last day, with an export of each month in exports/."""
    from mere.generate.jaffle import Jaffle

    _write(Jaffle(customers, days, seed, start), folder, force, as_json)


def _write(dataset: Dataset, folder: Path, force: bool, as_json: bool) -> None:
    from mere.generate.files import State, write

    files = []
    with progress("writing files", as_json) as advance:
        for file in write(dataset, folder, force=force):
            files.append(file)
            if advance:
                advance(len(files), dataset.count)
    rows, total = sum(file.rows for file in files), sum(file.size for file in files)
    if as_json:
        shown = [{"file": each.name, "rows": each.rows, "bytes": each.size, "state": each.state} for each in files]
        print_json({"folder": str(folder), "files": shown, "rows": rows, "bytes": total})
        return
    there = sum(1 for file in files if file.state is State.UNCHANGED)
    already = f", {there:,} of them already there" if there else ""
    say(f"{counted(len(files), 'file')} in {folder}{already}: {counted(rows, 'row')}, {size(total)}")
