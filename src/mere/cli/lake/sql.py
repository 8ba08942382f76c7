"""mere tables, mere sql."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

import click

from mere.cli import rows as rendering
from mere.cli.output import example, json_option, open_lake, print_json, print_table, say, spark_settings
from mere.text.words import moment


@click.command(epilog=example("mere tables", "mere tables --at dev", "mere tables --at main@2h"))
@click.option("--at", default="main", show_default=True, metavar="REF", help="Any ref.")
@json_option
@click.pass_context
def tables(ctx: click.Context, at: str, as_json: bool) -> None:
    """List the tables and views of a ref, with rows, files and size."""
    found = open_lake(ctx).at(at)
    if as_json:
        print_json(found.to_dict())
    elif found.tables:
        print_table(*found.summary)
    else:
        say(f"no tables on {at} (commit {found.commit.short_id} of {moment(found.commit.at)})")


@click.command(
    epilog=example(
        'mere sql "select count(*) from gold.orders"',
        'mere sql --at main@2d "from gold.orders" --format csv > orders.csv',
        "mere sql 'select * from \"main~1\".gold.orders except from gold.orders'",
        "mere sql \"select * from gold.orders for timestamp as of '2h'\"",
        'mere sql "select * from mere.commits limit 5"',
        "mere sql - < report.sql",
        'mere sql --spark "select percentile(amount, 0.5) from gold.orders"',
    )
)
@click.argument("query")
@click.option(
    "--at", default="main", show_default=True, metavar="REF", help="The ref on which to look up schema.table."
)
@click.option("--format", "style", type=click.Choice(["table", *rendering.WRITERS]), default="table", show_default=True)
@click.option("--json", "style", flag_value="json", help="The same as --format json.")
@click.option("--spark", is_flag=True, help="Run Spark SQL on the warm engine: mere engine start.")
@click.option(
    "-n", "--max-rows", type=click.IntRange(min=1), default=1000, show_default=True, help="With --format table."
)
@click.pass_context
def sql(ctx: click.Context, query: str, at: str, style: str, spark: bool, max_rows: int) -> None:
    """Run one SQL query over one commit of a ref.

    DuckDB runs it, without a JVM. QUERY may be - for standard input. The first part of a name may be another ref:
    dev.gold.orders, "main~3".gold.orders.
    """
    text = sys.stdin.read() if query == "-" else query
    with _result(ctx, text, at, spark) as result:
        if style in rendering.WRITERS:
            rendering.WRITERS[style](result)
        else:
            rendering.table(result, max_rows)


def _result(ctx: click.Context, text: str, at: str, spark: bool) -> AbstractContextManager[rendering.Result]:
    lake = open_lake(ctx)
    if not spark:
        return lake.sql(text, at)
    from mere.engine.query import query

    return query(lake, text, at, spark_settings(ctx))
