"""The command line: arguments in, results out."""

from __future__ import annotations

import errno
import importlib
from typing import Any

import click

from mere.cli import logs
from mere.cli.commands import MODULES, as_typed, before_the_command
from mere.cli.repeated import refuse_repeated
from mere.errors import MereError
from mere.text.printable import printable

_WORDS = "mere.words"  # of the command line, as they were typed
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _Mere(click.Group):
    """Turns every error of mere's own into a sentence and an exit code; anything else is a bug, with its traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in MODULES:
            return None
        command: click.Command = getattr(importlib.import_module(f"mere.cli.{MODULES[cmd_name]}"), cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            refuse_repeated(self, ctx, args)
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if again := before_the_command(self, ctx.meta[_WORDS], error.option_name):
                raise click.UsageError(f"{error.option_name} goes before the command: {again}", error.ctx) from None
            raise
        except MereError as error:
            click.secho("error: ", fg="red", err=True, nl=False)
            text = printable(str(error), lines=True)
            if error.remedy and text.endswith(remedy := printable(error.remedy, lines=True)):
                text = text.removesuffix(remedy) + as_typed(remedy)
            click.echo(text, err=True)
            ctx.exit(error.exit_code)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            what = f"write {error.filename}" if error.filename else "continue"
            click.secho("error: ", fg="red", err=True, nl=False)
            click.echo(f"There is no room to {what}: {error.strerror}.\nFree some space and try again.", err=True)
            ctx.exit(1)
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
    A ref is a branch, a tag or a commit id, optionally followed by ~N (N commits back)
    or @WHEN (a time in UTC or an age): main, v1, 3fa9c1, main~3, main@2h, main@2026-11-15T09:00
    """
    logs.silence()
    ctx.obj = {"lake": lake, "profile": profile}
