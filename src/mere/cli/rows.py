"""Query results as a table, CSV or JSON. CSV and JSON are streamed, however many rows there are."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

import click

from mere.cli.output import print_table
from mere.text.notebook import Column
from mere.text.values import cell, is_number, plain


class Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...


class Result(Protocol):
    """Of a query, whoever ran it."""

    @property
    def columns(self) -> Sequence[Named]: ...
    def rows(self) -> Iterator[tuple[Any, ...]]: ...


def table(result: Result, max_rows: int) -> None:
    rows = list(islice(result.rows(), max_rows + 1))
    columns = [Column(each.name, is_number(each.type)) for each in result.columns]
    print_table(columns, [[cell(value) for value in row] for row in rows[:max_rows]])
    if len(rows) > max_rows:
        click.echo(f"… more than {max_rows:,} rows: --max-rows shows more, --format csv all of them", err=True)


def write_csv(result: Result) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([column.name for column in result.columns])
    writer.writerows(["" if value is None else cell(value) for value in row] for row in result.rows())


def write_json(result: Result) -> None:
    names = [column.name for column in result.columns]
    separator = "["
    for row in result.rows():
        record = json.dumps({name: plain(value) for name, value in zip(names, row, strict=True)}, ensure_ascii=False)
        sys.stdout.write(f"{separator}\n{record}")
        separator = ","
    sys.stdout.write("[]\n" if separator == "[" else "\n]\n")


WRITERS: dict[str, Callable[[Result], None]] = {"csv": write_csv, "json": write_json}
