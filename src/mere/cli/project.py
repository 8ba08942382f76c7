"""mere init, mere java."""

from __future__ import annotations

from pathlib import Path

import click

from mere import config
from mere.cli.output import example, json_option, print_json, say
from mere.engine import java as jvm
from mere.errors import ConfigError
from mere.lake.lake import Lake

_PROJECT = """\
# A mere project. See the docs: config.
name: {name}

profiles:
  local:
    lake: lake        # a folder, relative to this file
    spark:
      memory: 2g
"""


@click.command(epilog=example("mere init shop", "cd shop && mere branch create dev"))
@click.argument("folder", default=".", metavar="[DIR]")
@json_option
def init(folder: str, as_json: bool) -> None:
    """Make a project: a mere.yaml, and a lake beside it. Default: in this folder."""
    root = Path(folder).resolve()
    file = root / "mere.yaml"
    if file.exists():
        raise ConfigError(f"There is already a project: {file}. Nothing was changed.")
    lake = Lake.create(root / "lake")
    lake.close()
    file.write_text(_PROJECT.format(name=config.project_name(root.name)))
    if as_json:
        print_json({"project": str(file), "lake": str(lake.root)})
    else:
        say(f"made {file} and a lake in {lake.root}")


@click.group(epilog=example("mere java show", "mere java install"))
def java() -> None:
    """The Java that Spark runs on."""


@java.command("show", epilog=example("mere java show"))
@json_option
def java_show(as_json: bool) -> None:
    """Which Java is used, or what to install if none fits."""
    found = jvm.find()
    if as_json:
        print_json({"home": str(found.home), "version": found.version})
    else:
        say(f"Java {found.version} at {found.home}")


@java.command("install", epilog=example("mere java install"))
@json_option
def java_install(as_json: bool) -> None:
    """Fetch a JDK 17 into mere's own folder. Needs the extra: pip install 'mere[java]'."""
    found = jvm.install()
    if as_json:
        print_json({"home": str(found.home), "version": found.version})
    else:
        say(f"Java {found.version} at {found.home}")
