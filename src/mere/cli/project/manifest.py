"""mere manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mere import config
from mere.cli.output import example, json_option, open_lake, parse_variables, print_json, say
from mere.errors import ConfigError
from mere.pipeline.plan.facts import facts
from mere.pipeline.run.manifest import manifest as make_manifest
from mere.project.load import load
from mere.words import counted


@click.command(epilog=example("mere manifest --json", "mere manifest --at main@1d --json > manifest.json"))
@click.option("--at", default="main", show_default=True, metavar="REF", help="The ref whose state is shown.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="In place of the one in mere.yaml.")
@json_option
@click.pass_context
def manifest(ctx: click.Context, at: str, variables: Sequence[str], as_json: bool) -> None:
    """The project and its state at a ref, as one document for other tools. Starts no JVM.

    --json prints all of it; its form is versioned and described by a JSON Schema. Without it, a summary.
    """
    file = config.find_project(Path.cwd())
    if file is None:
        raise ConfigError("There is no mere.yaml here or in a folder above.", remedy="Make a project: mere init DIR.")
    settings = config.load(file, ctx.find_root().obj["profile"])
    lake = open_lake(ctx)
    graph = load(file.parent, parse_variables(variables))
    found = make_manifest(settings, lake, graph, facts(lake, at, lake.now()))
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: dict[str, Any]) -> None:
    commit = found["ref"]["commit"]
    say(f"{found['project']['name']} at {found['ref']['name']}, commit {commit['id'][:10]}")
    nodes = [*found["models"], *found["sources"], *found["seeds"]]
    built = sum(each["state"] is not None for each in nodes)
    kinds = [
        counted(len(found[kind]), kind.removesuffix("s")) for kind in ("models", "sources", "seeds") if found[kind]
    ]
    say(f"{', '.join(kinds) or 'no models'}; {built} of {len(nodes)} built")
    say(f"{counted(len(found['edges']), 'edge')}, {counted(sum(len(each['audits']) for each in nodes), 'audit')}")
    say("Print all of it with: mere manifest --json")
