"""mere manifest."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mere.api.manifest import Manifest
from mere.cli.output import example, json_option, open_project, print_json, say
from mere.text.words import counted


@click.command(epilog=example("mere manifest --json", "mere manifest --at main@1d --json > manifest.json"))
@click.option("--at", default="main", show_default=True, metavar="REF", help="The ref whose state to show.")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Instead of the one in mere.yaml.")
@json_option
@click.pass_context
def manifest(ctx: click.Context, at: str, variables: Sequence[str], as_json: bool) -> None:
    """Describe the project and its state at a ref, for other tools.

    Starts no JVM. --json prints all of it, in a versioned format with a JSON Schema. Without it, a summary.
    """
    found = open_project(ctx, variables).manifest(at)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: Manifest) -> None:
    commit = found["ref"]["commit"]
    say(f"{found['project']['name']} at {found['ref']['name']}, commit {commit['id'][:10]}")
    nodes = found.nodes
    built = sum(each["state"] is not None for each in nodes)
    kinds = [
        counted(len(found[kind]), kind.removesuffix("s")) for kind in ("models", "sources", "seeds") if found[kind]
    ]
    say(f"{', '.join(kinds) or 'no models'}; {built} of {len(nodes)} built")
    say(f"{counted(len(found['edges']), 'edge')}, {counted(sum(len(each['audits']) for each in nodes), 'audit')}")
    say("Print all of it with: mere manifest --json")
