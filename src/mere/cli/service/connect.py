"""mere connect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mere.api.place import lake_address
from mere.cli.output import example, json_option, print_json
from mere.config import S3Settings, default_author, is_s3
from mere.errors import ConfigError, LakeNotFound, UsageError
from mere.names import MAIN

if TYPE_CHECKING:
    from mere.serve.connect.place import Place

NAMES = (
    "duckdb", "pyiceberg", "spark", "spark-connect", "trino", "flink",
    "psql", "jdbc", "superset", "metabase", "dbeaver", "power-bi",
)  # fmt: skip


@click.command(
    epilog=example(
        "mere connect duckdb --ref dev",
        "mere connect trino --host lake.example.org --write etc/catalog/main.properties",
        "mere connect trino --ref dev --sql",
        "mere connect psql --user ann",
    )
)
@click.argument("tool", type=click.Choice(NAMES, case_sensitive=False))
@click.option("--ref", default=MAIN, show_default=True, help="The ref to connect to: a branch, a tag, main~3, main@2h.")
@click.option("--user", metavar="NAME", help="The user for Postgres clients. [you]")
@click.option("--host", default="localhost", show_default=True, help="Where mere serve listens.")
@click.option("--port", type=click.IntRange(1, 65535), default=5439, show_default=True, help="For Postgres clients.")
@click.option("--http-port", type=click.IntRange(1, 65535), default=8181, show_default=True, help="For REST.")
@click.option("--tls/--no-tls", default=None, help="Whether to use TLS. [yes, unless on this machine]")
@click.option("--trust", is_flag=True, help="The server was started with --trust: no token is needed.")
@click.option("--sql", is_flag=True, help="For trino: the statement that makes the catalog while Trino runs.")
@click.option("--jdbc", is_flag=True, help="For trino: straight to the catalog's database, without mere serve.")
@click.option("--write", type=click.Path(path_type=Path), metavar="FILE", help="Write to this new file instead.")
@json_option
@click.pass_context
def connect(
    ctx: click.Context,
    tool: str,
    ref: str,
    user: str | None,
    host: str,
    port: int,
    http_port: int,
    tls: bool | None,
    trust: bool,
    sql: bool,
    jdbc: bool,
    write: Path | None,
    as_json: bool,
) -> None:
    """Print what a tool needs to reach a served lake.

    It is ready to paste, and contains no secrets: engines read a token from MERE_TOKEN (mere token create), and
    Postgres clients prompt for the password, or read it from PGPASSWORD.
    """
    from mere.serve.connect.place import TOKEN, Place
    from mere.serve.connect.tools import TOOLS

    if (sql or jdbc) and tool != "trino":
        raise UsageError(f"{'--sql' if sql else '--jdbc'} is for trino only.", remedy="Leave it out.")
    on_s3, s3 = _s3(ctx)
    place = Place(ref, user or default_author(), host, port, http_port, bool(tls), trust, on_s3, s3)
    if tls is None and not place.is_here:
        place = replace(place, tls=True)
    found = TOOLS[tool]
    variable = TOKEN if found.token and not trust else None
    if sql or jdbc:
        text, variable = _trino(ctx, place, variable, sql, jdbc)
    else:
        text = found.text(place)
    if write is not None:
        _write(write, text)
    if as_json:
        print_json(
            {"tool": tool, "ref": ref, "text": text, "variable": variable, "file": str(write) if write else None}
        )
        return
    if write is None:
        click.echo(text, nl=False)
    if variable == TOKEN:
        click.echo(f"It reads the token from {variable}: export {variable}=$(mere token create NAME)", err=True)


def _s3(ctx: click.Context) -> tuple[bool, S3Settings | None]:
    """Whether the lake is on S3, and how that is reached."""
    options = ctx.find_root().obj
    try:
        address = lake_address(options["profile"], options["lake"])
    except LakeNotFound:
        return False, None  # the lake that is meant may be served elsewhere
    return is_s3(address.path), address.s3


def _trino(ctx: click.Context, place: Place, variable: str | None, sql: bool, jdbc: bool) -> tuple[str, str | None]:
    """The text, and the variable in which Trino finds a token or a password."""
    from mere.serve.connect import trino

    settings = trino.by_rest(place)
    if jdbc:
        options = ctx.find_root().obj
        with lake_address(options["profile"], options["lake"]).open() as lake:
            settings = trino.by_jdbc(lake, place.ref)
        asked = f"${{ENV:{trino.PASSWORD}}}"
        variable = trino.PASSWORD if asked in settings.values() else None
        if variable is not None:
            click.echo(f"It reads the password of the catalog's database from {variable}.", err=True)
    return (trino.as_sql if sql else trino.as_file)(place.catalog, settings), variable


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{file} already exists, and was not changed.", remedy="Name another file.") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
