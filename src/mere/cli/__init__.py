"""The command line: arguments in, results out."""

from __future__ import annotations

from typing import Any

import click

from mere.cli.commits import drop, log, publish, revert
from mere.cli.files import gc, relocate
from mere.cli.output import fail
from mere.cli.project import init, java
from mere.cli.reading import sql, tables
from mere.cli.refs import branch, tag
from mere.errors import MereError


class _Mere(click.Group):
    """Turns every error of mere's own into a sentence and an exit code; anything else is a bug, with its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MereError as error:
            fail(error)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            ctx.exit(130)


@click.group(cls=_Mere, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mere", message="mere %(version)s")
@click.option("--lake", envvar="MERE_LAKE", metavar="PATH", help="The lake's folder. Default: from mere.yaml.")
@click.option("--profile", envvar="MERE_PROFILE", metavar="NAME", help="The profile of mere.yaml. Default: local.")
@click.pass_context
def main(ctx: click.Context, lake: str | None, profile: str | None) -> None:
    """A lakehouse that starts as a folder: Iceberg tables on branches, published atomically.

    \b
    A ref is a branch, a tag or a commit id, and may go on with ~N (N commits back)
    or @WHEN (a time in UTC or an age): main, v1, 3fa9c1, main~3, main@2h, main@2026-11-15T09:00
    """
    ctx.obj = {"lake": lake, "profile": profile}


for command in (init, branch, tag, tables, sql, log, publish, revert, drop, gc, relocate, java):
    main.add_command(command)
