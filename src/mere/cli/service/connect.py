"""mere connect."""

from __future__ import annotations

from pathlib import Path

import click

from mere.api.place import lake_address
from mere.cli.output import example, json_option, print_json
from mere.config import default_author, is_s3
from mere.errors import ConfigError, LakeNotFound, UsageError
from mere.names import MAIN

NAMES = (
    "duckdb", "pyiceberg", "spark", "spark-connect", "trino", "flink",
    "psql", "jdbc", "superset", "metabase", "dbeaver", "power-bi",
)  # fmt: skip


@click.command(
    epilog=example(
        "mere connect duckdb --ref dev",
        "mere connect trino --host lake.example.org --write etc/catalog/main.properties",
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
    write: Path | None,
    as_json: bool,
) -> None:
    """Print what a tool needs to reach a served lake.

    It is ready to paste, and contains no secrets: engines read a token from MERE_TOKEN (mere token create), and
    Postgres clients prompt for the password, or read it from PGPASSWORD.
    """
    from mere.serve.connect.place import TOKEN, Place
    from mere.serve.connect.tools import TOOLS

    place = Place(ref, user or default_author(), host, port, http_port, bool(tls), trust, _is_on_s3(ctx))
    if tls is None and not place.is_here:
        place = Place(ref, place.user, host, port, http_port, True, trust, place.on_s3)
    found = TOOLS[tool]
    text = found.text(place)
    variable = TOKEN if found.token and not trust else None
    if write is not None:
        _write(write, text)
    if as_json:
        print_json(
            {"tool": tool, "ref": ref, "text": text, "variable": variable, "file": str(write) if write else None}
        )
        return
    if write is None:
        click.echo(text, nl=False)
    if variable is not None:
        click.echo(f"It reads the token from {variable}: export {variable}=$(mere token create NAME)", err=True)


def _is_on_s3(ctx: click.Context) -> bool:
    options = ctx.find_root().obj
    try:
        return is_s3(lake_address(options["profile"], options["lake"]).path)
    except LakeNotFound:
        return False  # the lake that is meant may be served elsewhere


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{file} already exists, and was not changed.", remedy="Name another file.") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}.") from error
