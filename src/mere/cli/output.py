"""What all commands share: finding the lake, `--json`, examples in the help, the look of results and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mere import config
from mere.api import place
from mere.api.place import Address
from mere.cli.commands import as_typed
from mere.errors import LakeError, UsageError
from mere.lake.lake import Lake
from mere.lake.refs.clock import skew
from mere.names import parse_age
from mere.sparkconfig import SparkSettings
from mere.text.notebook import Column
from mere.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from mere.api.project import Project
    from mere.lake.upkeep.gc import Landed

Command = Callable[..., Any]


class Age(click.ParamType[timedelta]):
    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        age = parse_age(str(value))
        if age is None:
            self.fail(f"{value!r} is not an age such as 90s, 30m, 24h, 7d or 2w", param, ctx)
        return age


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")(command)


def example(*lines: str) -> str:
    """An epilog that click prints as it stands."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def lake_address(ctx: click.Context) -> Address:
    options = ctx.find_root().obj
    return place.lake_address(options["profile"], options["lake"])


def open_lake(ctx: click.Context) -> Lake:
    lake = lake_address(ctx).open()
    ctx.call_on_close(lake.close)
    tell_of_clock(lake)
    return lake


def open_project(ctx: click.Context, variables: Sequence[str] = (), *, with_lake: bool = True) -> Project:
    """The project that is meant here. Its lake is opened when it is needed, unless it is needed at once."""
    from mere.api.project import Project

    options = ctx.find_root().obj
    project = Project.open(".", options["profile"], options["lake"], parse_variables(variables))
    ctx.call_on_close(project.close)
    if with_lake:
        tell_of_clock(project.lake)
    return project


def tell_of_clock(lake: Lake) -> None:
    with suppress(LakeError):  # a damaged catalog is told by what needs it, or examined by the doctor
        if found := skew(lake.store):
            click.echo(f"{found.message}\n{as_typed(found.remedy)}", err=True)


def tell_without_lake(message: str | None) -> None:
    if message is not None:
        click.echo(f"without the lake, so columns of its tables are not known: {message}", err=True)


def spark_settings(ctx: click.Context) -> SparkSettings:
    """Those of the profile. A lake that was named by its place may be another one than the project's."""
    options = ctx.find_root().obj
    file = config.find_project(Path.cwd())
    return SparkSettings() if file is None or options["lake"] else config.load(file, options["profile"]).spark


def landed(ctx: click.Context) -> Landed | None:
    """Where files of sources are kept for a time only, and for how long."""
    from mere.lake.upkeep.gc import Landed

    options = ctx.find_root().obj
    file = config.find_project(Path.cwd())
    found = None if file is None or options["lake"] else config.load(file, options["profile"]).landing
    return Landed(found.location, found.keep) if found is not None and found.keep is not None else None


def parse_variables(given: Sequence[str]) -> dict[str, str]:
    """`--var NAME=VALUE`, as often as it stands there, each of another name."""
    found: dict[str, str] = {}
    for each in given:
        name, written, value = each.partition("=")
        if not written:
            raise UsageError(f"--var {each} has no value.", remedy=f"Write --var {each}=VALUE.")
        if found.setdefault(name, value) != value:
            raise UsageError(
                f"--var {name} is given twice: {found[name]} and {value}.", remedy="Leave out one of them."
            )
    return found


def print_json(data: object) -> None:
    click.echo(json.dumps(data, indent=2, default=str))


def console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, soft_wrap=True, emoji=False)


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> None:
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        _print_plain(columns, cells)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(Text(column.name), justify="right" if column.right else "left", no_wrap=True)
    for row in cells:
        table.add_row(*map(Text, row))
    console().print(table)


def _print_plain(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """For pipes: as wide as it has to be, and without the time that rich takes to import."""
    lines = [[column.name for column in columns], *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def say(text: str, style: str | None = None) -> None:
    """One line for people, or some. Commands in it can be typed as they stand."""
    text = as_typed(printable(text, lines=True))
    if sys.stdout.isatty():
        console().print(text, style=style, markup=False)
    else:
        click.echo(text)


@contextmanager
def progress(what: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar for people; nothing where nobody is watching."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
