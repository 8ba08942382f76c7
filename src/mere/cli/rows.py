"""The rows of a query as a table, CSV or JSON. CSV and JSON are written as the rows come, whatever their number."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Protocol

import click

from mere.cli.output import Column, print_table

_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT")


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
    columns = [Column(each.name, _is_number(each.type)) for each in result.columns]
    print_table(columns, [[cell(value) for value in row] for row in rows[:max_rows]])
    if len(rows) > max_rows:
        click.echo(f"… more than {max_rows:,} rows: --max-rows shows more, --format csv all of them", err=True)


def _is_number(type_: str) -> bool:
    return any(word in type_ for word in _NUMBERS) and not any(mark in type_ for mark in "[<")


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


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | dict | list | tuple):
        found = plain(value)
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return "NULL" if value is None else str(value)


def plain(value: Any) -> Any:
    """A value that JSON has: exact where JSON can be, else its text."""
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, int | str | None) else str(value)
