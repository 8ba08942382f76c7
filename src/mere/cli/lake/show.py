"""mere show, mere diff."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mere.cli.output import example, json_option, open_lake, print_json, print_table, say
from mere.errors import UsageError
from mere.lake.diff.diff import Diff, TableDiff, parent_of
from mere.lake.diff.lines import namespace_line, rows_lines, short, table_details, table_line
from mere.lake.iceberg.keys import names_in
from mere.lake.log.commits import growth
from mere.lake.query import Limits
from mere.lake.query.show import Description, Moment, history
from mere.text.notebook import Column
from mere.text.values import cell
from mere.text.words import counted, moment, size

if TYPE_CHECKING:
    from mere.lake.diff.rows import RowDiff

_WIDTH = 80  # of a value in a list of changes


@click.command(
    epilog=example(
        "mere show gold.orders --at main@2d", "mere show gold.orders --history", "mere show gold.orders --tree"
    )
)
@click.argument("table")
@click.option("--at", default="main", show_default=True, metavar="REF", help="Any ref.")
@click.option("--history", "through_time", is_flag=True, help="Show the table at each commit that changed it.")
@click.option("--tree", "as_tree", is_flag=True, help="Show its files, from the catalog's pointer down.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Show at most this many."
)
@json_option
@click.pass_context
def show(ctx: click.Context, table: str, at: str, through_time: bool, as_tree: bool, limit: int, as_json: bool) -> None:
    """Describe a table or view.

    Prints columns, partitioning, properties, size and snapshots, or the SQL of a view. Reads metadata only, no data
    files, and manifests only with --tree.
    """
    if through_time and as_tree:
        raise UsageError("--history and --tree exclude each other.")
    lake = open_lake(ctx)
    if as_tree:
        tree = lake.at(at).table(table).tree(limit)
        if as_json:
            print_json(tree.to_dict())
        else:
            say(str(tree))
        return
    if through_time:
        moments = list(islice(history(lake, table, at), limit))
        if as_json:
            print_json([each.to_dict() for each in moments])
        else:
            _print_history(moments)
        return
    found = lake.show(table, at)
    if as_json:
        print_json(found.to_dict(limit))
    else:
        _print_description(found, limit)


def _print_description(found: Description, limit: int) -> None:
    say(f"{found.kind} {found.table}")
    facts = list(_facts(found))
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        say(f"  {name.ljust(width)}  {value}")
    say("\ncolumns")
    # The names of fields that lie in others are whole paths.
    columns = [Column("  name"), Column("type"), Column("null"), Column("comment")]
    print_table(columns, [(f"  {c.name}", c.type, "no" if c.required else "yes", c.comment) for c in found.columns])
    if found.sql is not None:
        say(f"\nSQL ({found.dialect})")
        for line in found.sql.strip().splitlines():
            say(f"  {line}")
    if found.properties:
        say("\nproperties")
        for name, value in found.properties.items():
            say(f"  {name} = {value}")
    if found.state is not None:
        say("\nbuilt from")
        for line in _built_from(found.state):
            say(f"  {line}")
    if found.snapshots:
        _print_snapshots(found, limit)


def _built_from(state: str) -> Iterator[str]:
    """What the state of a model's table says, without its code."""
    try:
        raw = json.loads(state)
        inputs = [f"{name}, snapshot {point[1]}" for name, point in raw.get("inputs", {}).items()]
        windows = [f"windows from {start} to {end}" for start, end in raw.get("built", [])]
    except (ValueError, LookupError, TypeError, AttributeError):
        yield state
        return
    yield from inputs or ["nothing but itself"]
    yield from windows
    if "run" in raw:
        yield f"by run {raw['run']}"


def _facts(found: Description) -> Iterator[tuple[str, str]]:
    if found.rows is not None and found.size is not None:
        yield (
            "rows",
            f"{found.rows:,}" + ("" if found.rows_are_exact else " at most (equality deletes are not counted)"),
        )
        files = counted(found.data_files or 0, "data file")
        deletes = f", {counted(found.delete_files, 'delete file')}" if found.delete_files else ""
        yield "size", f"{size(found.size)} in {files}{deletes}"
        yield "partitioned by", ", ".join(found.partitioning) or "nothing"
        yield "sorted by", ", ".join(found.sort_order) or "nothing"
    if found.key:
        yield "key", ", ".join(found.key)
    yield "format", f"{found.format_version}"
    if found.location:
        yield "location", found.location
    yield "pointer", found.pointer


def _print_snapshots(found: Description, limit: int) -> None:
    say("\nsnapshots")
    columns = [Column("  id"), Column("time"), Column("operation"), Column("growth"), Column("rows", True)]
    shown = found.snapshots[:limit]
    rows = [
        (f"{'* ' if s.current else '  '}{s.id}", moment(s.at), s.operation, growth(s.growth), f"{s.rows:,}")
        for s in shown
    ]
    print_table(columns, rows)
    if len(found.snapshots) > limit:
        say(f"  … and {len(found.snapshots) - limit:,} older: -n shows more")


def _print_history(moments: Iterable[Moment]) -> None:
    columns = [
        Column("commit"), Column("time"), Column("author"), Column("change"), Column("rows", True),
        Column("size", True), Column("schema"), Column("message"),
    ]  # fmt: skip
    print_table(columns, [_history_row(each) for each in moments])


def _history_row(found: Moment) -> tuple[object, ...]:
    schema = {True: "changed", False: "", None: "?"}[found.schema_changed]
    if found.change.old is None or found.change.new is None:
        schema = ""
    grown = growth(found.change.stats)
    return (
        found.commit.short_id,
        moment(found.commit.at),
        found.commit.author or "an engine",
        f"{found.change.verb} {grown}".strip(),
        None if found.rows is None else f"{found.rows:,}",
        None if found.size is None else size(found.size),
        schema,
        found.commit.message or found.commit.kind,
    )


@click.command(
    epilog=example(
        "mere diff dev",
        "mere diff main@2d main --json",
        "mere diff dev --rows --key id --table gold.orders",
        "mere diff dev --rows --html review.html",
    )
)
@click.argument("refs", nargs=-1, required=True, metavar="[A] B")
@click.option("--rows", is_flag=True, help="Also compare the rows of all changed tables.")
@click.option(
    "--table", "tables", multiple=True, metavar="TABLE", help="With --rows: compare only this table. May be repeated."
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="COL,…",
    help="With --rows: match rows by these columns. May be repeated. Default: the table's own key. Put a name "
    "that contains a comma in double quotes.",
)
@click.option("--no-key", is_flag=True, help="With --rows: compare whole rows, even if the table has a key.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=10, show_default=True, help="Show at most this many samples."
)
@click.option("--memory", metavar="SIZE", help="With --rows: DuckDB's memory, such as 2GB; the rest goes to disk.")
@click.option("--html", type=click.Path(dir_okay=False, writable=True), help="Write an HTML page for review.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if they differ.")
@json_option
@click.pass_context
def diff(
    ctx: click.Context, /, refs: tuple[str, ...], html: str | None, exit_code: bool, as_json: bool, **of_rows: Any
) -> None:
    """Show what changed from A to B.

    Compares tables, columns and settings, and counts the rows, files and bytes added and removed. A and B are any refs.
    With B alone, A is the branch that B was forked from. Without --rows, reads metadata only, no data files or
    manifests.
    """
    if len(refs) > 2:
        raise click.UsageError("Name one ref or two.")
    lake = open_lake(ctx)
    old, new = refs if len(refs) == 2 else (parent_of(lake, refs[0]), refs[0])
    found = lake.diff(old, new)
    compared = _compared_rows(found, **of_rows)
    if html:
        from mere.cli.lake.diff_page import page

        Path(html).write_text(page(found, compared), encoding="utf-8")
    if as_json:
        print_json(found.to_dict(compared.values()))
    elif html:
        say(f"wrote {html}")
    else:
        _print_diff(found, compared, found.companions if of_rows["rows"] else ())
    if exit_code and found:
        ctx.exit(1)


def _compared_rows(
    found: Diff,
    rows: bool,
    tables: tuple[str, ...],
    keys: tuple[str, ...],
    no_key: bool,
    limit: int,
    memory: str | None,
) -> dict[str, RowDiff]:
    """The rows that differ by the table's name; none if they were not asked for."""
    if not rows:
        if tables or keys or no_key or memory:
            raise UsageError("--table, --key, --no-key and --memory go with --rows.", remedy="Add --rows.")
        return {}
    if keys and no_key:
        raise UsageError("--key and --no-key exclude each other.")
    columns = [name for key in keys for name in names_in(key)] if keys else [] if no_key else None
    compared = found.rows(key=columns, tables=tables, samples=limit, limits=Limits(memory=memory))
    return {str(each.table): each for each in compared}


def _print_diff(found: Diff, compared: Mapping[str, RowDiff], companions: Sequence[TableDiff]) -> None:
    """Where rows are shown, companions are only counted: they are named by those who want to see them."""
    if not found:
        say(f"{found.before.ref} and {found.after.ref} are equal")
    folded = [table for table in companions if str(table.table) not in compared]
    told = set()
    for table in found.tables:
        if table in folded:
            continue
        say(table_line(table))
        for line in table_details(table):
            say(f"    {line}")
        if rows := compared.get(str(table.table)):
            told.add(str(table.table))
            _print_rows(rows)
    for name, rows in compared.items():
        if name not in told:  # a view whose tables changed, say
            say(name)
            _print_rows(rows)
    if folded:
        names = ", ".join(str(table.table) for table in folded)
        say(
            f"and {counted(len(folded), 'companion')} of these tables: {names};"
            " to see their rows, name them with --table"
        )
    for setting in found.namespaces:
        say(namespace_line(setting))


def _print_rows(found: RowDiff) -> None:
    for line in rows_lines(found):
        say(f"    {line}")
    for sign, rows in (("+", found.added_rows), ("-", found.removed_rows)):
        for row in rows:
            say(f"    {sign} {_record(row)}")
    for changed in found.changed_rows:
        changes = ", ".join(f"{name} {cell(old)} → {cell(changed.new[name])}" for name, old in changed.old.items())
        say(f"    ~ {_record(changed.key)}: {changes}")


def _record(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {short(cell(value))}" for name, value in row.items())
