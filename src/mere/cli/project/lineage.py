"""mere lineage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import click

from mere.api.lineage.columns import ColumnLineage, Step
from mere.api.lineage.tables import TableLineage
from mere.cli.output import example, json_option, open_project, print_json, say, tell_without_lake
from mere.errors import UsageError
from mere.names import TableName
from mere.project.lineage import ANY, ColumnName, Edge, EdgeKind
from mere.text.words import counted


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
@click.option("--up", "way", flag_value="up", help="Show only what it is made of.")
@click.option("--down", "way", flag_value="down", help="Show only what is made of it.")
@json_option
@click.option("--mermaid", "drawing", flag_value="mermaid", help="Print a flowchart for Markdown.")
@click.option("--html", "drawing", flag_value="html", help="Print an HTML page, in one file.")
@click.option("--at", metavar="REF", help="The ref on which to look up tables that no model makes. Default: main.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Instead of the one in mere.yaml.")
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
    """Show what a table or column is made of, and what uses it.

    Needs no JVM. Without a name: which tables of the project are made of which. SELECT limits them: a glob ('gold.*'),
    tag:NAME, owner:NAME; +NAME with all upstream, NAME+ with all downstream.
    """
    if as_json and drawing:
        raise UsageError(f"--json and --{drawing} exclude each other.", remedy="Leave out one of them.")
    found = open_project(ctx, variables, with_lake=False).lineage(name, way=way, at=at)
    if isinstance(found, ColumnLineage):
        tell_without_lake(found.without_lake)
    if as_json:
        print_json(found.to_dict())
    elif drawing is not None:
        click.echo(found.html() if drawing == "html" else found.mermaid(), nl=False)
    elif isinstance(found, ColumnLineage):
        _print(found.name, found.starts, found.ways)
    else:
        _print_tables(found)


# For people

HEADINGS = {"up": "is made of", "down": "goes into"}


def _print(name: str, starts: Sequence[ColumnName], ways: Mapping[str, Step]) -> None:
    for way, step in ways.items():
        lines = list(_tree(starts, step))
        say(f"{name} {HEADINGS[way]}" if lines else f"{name} {HEADINGS[way]} nothing in this project")
        for line, note in lines:
            click.echo(line + (click.style(f"  {note}", dim=True) if note else ""))


def _print_tables(found: TableLineage) -> None:
    """Schema by schema, each table with what it is made of."""
    made: dict[TableName, list[str]] = {}
    for source, target, _ in found.edges:
        made.setdefault(target, []).append(str(source))
    for schema, names in found.schemas.items():
        say(schema)
        width = max(len(each.name) for each in names)
        for at, name in enumerate(names, 1):
            reads = f"  ← {', '.join(made[name])}" if name in made else ""
            branch = "├──" if at < len(names) else "└──"
            click.echo(f"{branch} {name.name.ljust(width)}{reads or f'  {found.kind(name)}'}".rstrip())
    edges, schemas = counted(len(found.edges), "edge"), counted(len(found.schemas), "schema")
    say(f"\n{counted(len(found.depths), 'table')} in {schemas}, {edges}")


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
