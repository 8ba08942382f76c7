"""mere lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import click

from mere import config
from mere.cli.output import example, json_option, parse_variables, print_json, say
from mere.cli.project.check import tables_if_any
from mere.cli.project.lineage_page import WRITERS, of_columns
from mere.cli.project.project_lineage import Tables, print_tables, print_tree, write_mermaid, write_page
from mere.errors import ConfigError, UsageError
from mere.names import TableName, near
from mere.project.lineage import ANY, ColumnName, Edge, EdgeKind, Lineage, named, reached
from mere.project.load import load
from mere.project.schemas import KnownPlans, KnownSchemas, with_views

Step = Callable[[ColumnName], list[Edge]]


@click.command(
    epilog=example(
        "mere lineage gold.daily_revenue.revenue",
        "mere lineage raw.orders.amount --down",
        "mere lineage gold.daily_revenue --html > lineage.html",
        "mere lineage --html > project.html",
        "mere lineage tag:finance --mermaid",
    )
)
@click.argument("name", required=False, metavar="[TABLE[.COLUMN]|SELECT]")
@click.option("--up", "way", flag_value="up", help="Only what it is made of.")
@click.option("--down", "way", flag_value="down", help="Only what is made of it.")
@json_option
@click.option("--mermaid", "drawing", flag_value="mermaid", help="Print a flowchart for Markdown.")
@click.option("--html", "drawing", flag_value="html", help="Print a page to look at, in one file.")
@click.option("--at", metavar="REF", help="The ref on which tables that no model makes are looked up. Default: main.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="In place of the one in mere.yaml.")
@click.pass_context
def lineage(
    ctx: click.Context,
    name: str | None,
    way: str | None,
    as_json: bool,
    drawing: str | None,
    at: str | None,
    variables: Sequence[str],
) -> None:
    """What a column, or all columns of a table, are made of, and what is made of them, without a JVM.

    Without a name: which tables of the project are made of which. SELECT is a part of them: a glob ('gold.*'),
    tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    """
    file = config.find_project(Path.cwd())
    if file is None:
        raise ConfigError("There is no mere.yaml here or in a folder above.", remedy="Make a project: mere init DIR.")
    if as_json and drawing:
        raise UsageError(f"--json and --{drawing} are two outputs.", remedy="Leave one of them out.")
    graph = load(file.parent, parse_variables(variables))
    if name is None or _is_pattern(name):
        if way:
            said = f"--{way} goes with one table or column."
            raise UsageError(said, remedy="Write +NAME for all upstream, NAME+ for all downstream.")
        _draw_tables(Tables(graph, graph.select([name] if name else [])), name or file.parent.name, as_json, drawing)
        return
    tables = tables_if_any(ctx, at)
    known = KnownSchemas(graph, file.parent, tables)
    found = Lineage(with_views(graph, tables) if tables is not None else graph, known, KnownPlans(graph, tables))
    starts = _starts(found, name, [*found.graph.models, *found.graph.externals, *known])
    ways: dict[str, Step] = {key: step for key, step in (("up", found.up), ("down", found.down)) if way in (None, key)}
    if not as_json and drawing is None:
        _print(name, starts, ways)
        return
    edges = list(dict.fromkeys(edge for step in ways.values() for edge in reached(starts, step)))
    if as_json:
        print_json(_json(found, starts, edges))
    else:
        click.echo(WRITERS[drawing or ""](of_columns(name, starts, edges)), nl=False)


def _is_pattern(name: str) -> bool:
    """Whether it chooses models, as for other commands; a plain name is that of a table, whose columns are shown."""
    return name.startswith(("+", "tag:", "owner:")) or name.endswith("+") or any(each in name for each in "*?[")


def _draw_tables(tables: Tables, title: str, as_json: bool, drawing: str | None) -> None:
    if as_json:
        print_tables(tables)
    elif drawing is None:
        print_tree(tables)
    else:
        click.echo({"mermaid": write_mermaid, "html": write_page}[drawing](tables, title), nl=False)


def _starts(found: Lineage, name: str, tables: Sequence[TableName]) -> list[ColumnName]:
    by_text = {str(each): each for each in tables}
    if name in by_text:
        table = by_text[name]
        return [*(ColumnName(table, each) for each in found.columns(table) or ()), ColumnName(table)]
    text, _, column = name.rpartition(".")
    if text not in by_text:
        remedy = "Name a table, or a column of one: gold.daily_revenue, gold.daily_revenue.revenue."
        guess = near(name, by_text) or (near(text, by_text) if "." in text else "")
        raise UsageError(f"No model makes {name}, nor does one read it, nor is it in the lake.{guess}", remedy=remedy)
    table = by_text[text]
    columns = found.columns(table)
    if columns is not None and column.lower() not in (each.lower() for each in columns):
        raise UsageError(f"{table} has no column {column}.{near(column, columns)}", remedy=f"See: mere lineage {table}")
    return [named(found, table, column)]


# For people

HEADINGS = {"up": "is made of", "down": "goes into"}


def _print(name: str, starts: Sequence[ColumnName], ways: dict[str, Step]) -> None:
    for way, step in ways.items():
        lines = list(_tree(starts, step))
        say(f"{name} {HEADINGS[way]}" if lines else f"{name} {HEADINGS[way]} nothing in this project")
        for line, note in lines:
            click.echo(line + (click.style(f"  {note}", dim=True) if note else ""))


def _tree(starts: Sequence[ColumnName], step: Step) -> Iterator[tuple[str, str]]:
    """A line for each edge and what to say about it. What is below a name is shown where the name comes first."""
    seen: set[ColumnName] = set()

    @cache
    def children(name: ColumnName) -> list[Edge]:
        """What decides about the rows of a table decides about those of its readers, and is shown once, for these."""
        edges = [each for each in step(name) if not (_is_of_own_rows(each) and (name not in starts or starts[1:]))]
        # Nothing more can be said of the rows of a table that no query makes.
        return [each for each in edges if each.source.column or each.source == name or step(each.source)]

    def below(name: ColumnName, indent: str) -> Iterator[tuple[str, str]]:
        seen.add(name)
        edges = children(name)
        for at, edge in enumerate(edges, 1):
            other = edge.target if edge.source == name else edge.source
            again = " …" if other in seen and children(other) else ""
            yield f"{indent}{'├── ' if at < len(edges) else '└── '}{_label(other)}{again}", _note(edge)
            if other not in seen:
                yield from below(other, indent + ("│   " if at < len(edges) else "    "))

    if len(starts) == 1:
        yield from below(starts[0], "")
        return
    shown = [each for each in starts if children(each)]
    for at, start in enumerate(shown, 1):
        yield f"{'├── ' if at < len(shown) else '└── '}{_label(start)}{' …' if start in seen else ''}", ""
        if start not in seen:
            yield from below(start, "│   " if at < len(shown) else "    ")


def _is_of_own_rows(edge: Edge) -> bool:
    return edge.source.table == edge.target.table


def _label(name: ColumnName) -> str:
    return str(name) if name.column else f"rows of {name.table}"


def _note(edge: Edge) -> str:
    if _is_of_own_rows(edge):
        return ""
    says = "by table" if edge.kind is EdgeKind.TABLE else explained(edge)
    return "  ".join(filter(None, [says, "" if edge.certain or says == "by table" else "perhaps", place_of(edge)]))


def explained(edge: Edge) -> str:
    """`WHERE amount > 0`, `sum(amount) AS revenue`; nothing of a column that is passed on as it is."""
    if edge.kind is EdgeKind.VALUE and edge.sql.rpartition(".")[2] in (edge.source.column, ANY):
        return ""
    clause = "" if edge.clause in ("FROM", "PLAN") or edge.sql.upper().startswith(edge.clause) else edge.clause
    return f"{clause} {edge.sql}".strip()


def place_of(edge: Edge) -> str:
    return f"{edge.file}:{edge.line}"


# For machines


def _json(found: Lineage, starts: Sequence[ColumnName], edges: Iterable[Edge]) -> dict[str, Any]:
    edges = list(edges)
    nodes = dict.fromkeys([*starts, *(name for edge in edges for name in (edge.source, edge.target))])
    return {
        "start": [str(each) for each in starts],
        "nodes": [_node(found, each) for each in nodes],
        "edges": [
            {
                "source": str(edge.source),
                "target": str(edge.target),
                "kind": edge.kind,
                "certain": edge.certain,
                "file": edge.file,
                "line": edge.line,
                "clause": edge.clause or None,
                "sql": edge.sql or None,
            }
            for edge in edges
        ],
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
