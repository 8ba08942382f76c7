"""Views that cannot be read from Trino, for projects whose profile names one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mere.errors import QueryError
from mere.names import MAIN
from mere.project.check.findings import Finding, about
from mere.project.kinds import Kind
from mere.project.model import Model, Sql
from mere.project.rules import Rule

if TYPE_CHECKING:
    from mere.lake.query.tables import TableSet


def not_in_trino(model: Model, tables: TableSet) -> Iterator[Finding]:
    """The types of what the view reads decide: while a table of it is not in the lake, nobody knows."""
    from mere.lake.query.bindings import Directory, schema_of
    from mere.lake.query.trino import translated

    if model.kind is not Kind.VIEW or not isinstance(model.body, Sql):
        return
    if any(each.table not in tables for each in model.inputs):
        return
    directory = Directory(tables)
    try:
        translated(
            str(model), model.body.text, {}, MAIN, directory.find, lambda table: schema_of(directory.tables, table)
        )
    except QueryError as error:
        told = error.message.removeprefix(f"View {model} ").rstrip(".")
        yield about(Rule.NOT_IN_TRINO, model, told, error.remedy)
