"""Refuses an option that takes one value but was given twice: either could be meant."""

from __future__ import annotations

from collections.abc import Sequence

import click


def refuse_repeated(command: click.Command, ctx: click.Context, arguments: Sequence[str]) -> None:
    """In all of a command line, before anything is done. What is wrong with it otherwise, click says afterwards."""
    try:
        _, rest, order = command.make_parser(ctx).parse_args(list(arguments))
    except click.UsageError:
        return
    options = [each for each in order if isinstance(each, click.Option) and not (each.multiple or each.count)]
    for at, option in enumerate(options):
        same = [each for each in options[:at] if each.name == option.name]
        # A flag may be said twice, unless it says something else: --up --down.
        is_one = option.is_flag and not option.secondary_opts and all(each is option for each in same)
        if same and not is_one:
            raise click.UsageError(_words(same[0], option), ctx)
    if isinstance(command, click.Group) and rest and (inner := command.get_command(ctx, rest[0])) is not None:
        below = click.Context(inner, parent=ctx, info_name=rest[0], **inner.context_settings)
        refuse_repeated(inner, below, rest[1:])


def _words(first: click.Option, second: click.Option) -> str:
    if first is second:
        return f"{second.opts[-1]} is given twice, and takes one value."
    return f"{first.opts[-1]} and {second.opts[-1]} exclude each other."
