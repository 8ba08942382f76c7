"""mere adopt."""

from __future__ import annotations

import click

from mere.cli.lake.log import message_option
from mere.cli.output import example, json_option, open_lake, print_json, print_table, say
from mere.lake.log.commits import Kind
from mere.lake.upkeep.adopt import Adoption, Candidate
from mere.text.notebook import Column
from mere.text.words import counted, size


@click.command(
    epilog=example(
        "mere adopt /data/warehouse/sales/orders --as bronze.orders",
        "mere adopt sqlite:////data/catalog.db 'sales.*' --on dev --dry-run",
        "PGPASSWORD=… mere adopt postgresql://reader@db/catalog --catalog prod",
        "MERE_REST_TOKEN=… mere adopt https://catalog.example/api --warehouse prod --into bronze",
    )
)
@click.argument("source")
@click.argument("tables", nargs=-1, metavar="[TABLE]…")
@click.option("--on", default="main", show_default=True, metavar="BRANCH", help="The branch to commit to.")
@click.option("--as", "name", metavar="NAME", help="The name on the branch, schema.table, for one table.")
@click.option("--into", metavar="SCHEMA", help="The schema on the branch, for all tables.")
@click.option("--catalog", metavar="NAME", help="Which catalog of a database, if it has several.")
@click.option("--warehouse", metavar="NAME", help="Which warehouse of a REST catalog.")
@click.option(
    "--metadata",
    multiple=True,
    metavar="FILE",
    help="The metadata file to take for a table whose folder has several. May be repeated.",
)
@click.option("--newest", is_flag=True, help="Where it is not clear which to take, take the newest, from any branch.")
@click.option("--dry-run", is_flag=True, help="List the tables, and why any is refused; change nothing.")
@message_option
@json_option
@click.pass_context
def adopt(
    ctx: click.Context,
    source: str,
    tables: tuple[str, ...],
    on: str,
    name: str | None,
    into: str | None,
    catalog: str | None,
    warehouse: str | None,
    metadata: tuple[str, ...],
    newest: bool,
    dry_run: bool,
    message: str | None,
    as_json: bool,
) -> None:
    """Put existing Iceberg tables onto a branch.

    In one commit, without copying data. SOURCE is a metadata file, a table's folder, a Hadoop warehouse, a database
    with an Iceberg catalog (sqlite:///FILE, postgresql://…) or a REST catalog (https://…). It is only read. TABLE is a
    name or a pattern such as 'sales.*'; default: all.
    """
    done = open_lake(ctx).adopt(
        source,
        *tables,
        on=on,
        name=name,
        into=into,
        catalog=catalog,
        warehouse=warehouse,
        metadata=metadata,
        newest=newest,
        message=message,
        dry_run=dry_run,
    )
    if as_json:
        print_json(_adoption_json(done))
    elif done.commit:
        say(f"adopted {counted(len(done.tables), 'table')} on {on}: commit {done.commit.short_id}")
        _print_tables(done)
    else:
        count = len(done.tables) - len(done.refused)
        say(f"would adopt {counted(count, 'table')} on {on}, and refuse {len(done.refused):,}")
        _print_tables(done)
    if done.refused:
        ctx.exit(1)


def _print_tables(done: Adoption) -> None:
    columns = [Column("table"), Column("kind"), Column("rows", True), Column("size", True), Column("format", True)]
    print_table(columns, [_row(table) for table in done.tables])
    for table in done.refused:
        for reason in table.refusals:
            click.echo(f"refused {table.name}: {reason}")
    for folder in done.left_out:
        click.echo(
            f"left out {folder}: main did not have it; to adopt it anyway, name one of its files with --metadata"
        )
    if done.doubt:
        say(done.doubt)


def _row(table: Candidate) -> tuple[object, ...]:
    metadata = table.original
    if metadata is None or table.kind is Kind.VIEW:
        return table.name, table.kind, None, None, None
    return table.name, table.kind, f"{metadata.rows:,}", size(metadata.size), f"v{metadata.format_version}"


def _adoption_json(done: Adoption) -> dict[str, object]:
    return {
        "on": done.on,
        "commit": done.commit.to_dict() if done.commit else None,
        "tables": [_table_json(table) for table in done.tables],
        "left_out": list(done.left_out),
    }


def _table_json(table: Candidate) -> dict[str, object]:
    is_table = table.original if table.kind is Kind.TABLE else None
    return {
        "name": table.name,
        "source": str(table.found) or None,
        "kind": table.kind,
        "metadata": table.found.pointer,
        "rows": is_table.rows if is_table else None,
        "bytes": is_table.size if is_table else None,
        "format_version": is_table.format_version if is_table else None,
        "refusals": list(table.refusals),
    }
