"""The lineage of a column, or of all columns of a table, upstream and downstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mere.api.lineage import picture
from mere.errors import UsageError
from mere.lake.query.tables import TableSet
from mere.names import TableName, near
from mere.project.graph import Graph
from mere.project.lineage import ColumnName, Edge, Lineage, named, reached
from mere.project.schemas import KnownPlans, KnownSchemas, with_views

Step = Callable[[ColumnName], list[Edge]]
WAYS = ("up", "down")


@dataclass(frozen=True)
class ColumnLineage:
    """`starts`: the columns that were asked about; of a table all of them, and its rows."""

    name: str
    starts: tuple[ColumnName, ...]
    ways: Mapping[str, Step] = field(repr=False)  # `up`: what it is made of; `down`: what is made of it
    known: Lineage = field(repr=False)
    without_lake: str | None = None  # why columns of the lake's tables are not known, if they are not

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Each column that goes into another, as far as the ways lead."""
        return tuple(dict.fromkeys(edge for step in self.ways.values() for edge in reached(self.starts, step)))

    def mermaid(self) -> str:
        """A flowchart for Markdown."""
        return picture.mermaid(picture.of_columns(self.name, self.starts, self.edges))

    def html(self) -> str:
        """A page to look at, in one file."""
        return picture.page(picture.of_columns(self.name, self.starts, self.edges))

    def to_dict(self) -> dict[str, Any]:
        """What `mere lineage NAME --json` prints."""
        nodes = dict.fromkeys([*self.starts, *(name for edge in self.edges for name in (edge.source, edge.target))])
        return {
            "start": [str(each) for each in self.starts],
            "nodes": [_node(self.known, each) for each in nodes],
            "edges": [_edge(each) for each in self.edges],
        }


def of_column(
    graph: Graph, folder: Path, name: str, way: str | None, tables: TableSet | None, without_lake: str | None
) -> ColumnLineage:
    """`tables`: a ref of the lake, whose tables and their columns are then known."""
    schemas = KnownSchemas(graph, folder, tables)
    found = Lineage(with_views(graph, tables) if tables is not None else graph, schemas, KnownPlans(graph, tables))
    starts = _starts(found, name, [*found.graph.models, *found.graph.externals, *schemas])
    steps: dict[str, Step] = {"up": found.up, "down": found.down}
    ways = {each: step for each, step in steps.items() if way in (None, each)}
    return ColumnLineage(name, tuple(starts), ways, found, without_lake)


def _starts(found: Lineage, name: str, tables: Sequence[TableName]) -> list[ColumnName]:
    by_text = {str(each): each for each in tables}
    if name in by_text:
        table = by_text[name]
        return [*(ColumnName(table, each) for each in found.columns(table) or ()), ColumnName(table)]
    text, _, column = name.rpartition(".")
    if text not in by_text:
        remedy = "Name a table, or a column of one: gold.daily_revenue, gold.daily_revenue.revenue."
        guess = near(name, by_text) or (near(text, by_text) if "." in text else "")
        raise UsageError(f"No model makes or reads {name}, and it is not in the lake.{guess}", remedy=remedy)
    table = by_text[text]
    columns = found.columns(table)
    if columns is not None and column.lower() not in (each.lower() for each in columns):
        raise UsageError(f"{table} has no column {column}.{near(column, columns)}", remedy=f"See: mere lineage {table}")
    return [named(found, table, column)]


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "source": str(edge.source),
        "target": str(edge.target),
        "kind": edge.kind,
        "certain": edge.certain,
        "file": edge.file,
        "line": edge.line,
        "clause": edge.clause or None,
        "sql": edge.sql or None,
    }


def _node(found: Lineage, name: ColumnName) -> dict[str, Any]:
    model = found.graph.models.get(name.table)
    return {
        "id": str(name),
        "table": str(name.table),
        "column": name.column,
        "kind": model.kind if model else "external",
        "file": model.file if model else None,
    }
