"""mere init, mere java."""

from __future__ import annotations

from pathlib import Path

import click

from mere import config
from mere.cli.output import example, json_option, print_json, say
from mere.engine import java as jvm
from mere.errors import ConfigError, LakeNotFound
from mere.lake.lake import Lake, open_store

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
@click.pass_context
def init(ctx: click.Context, folder: str, as_json: bool) -> None:
    """Make a project, by default in this folder: a mere.yaml and the lake that it names; what is there stays."""
    root = Path(folder).resolve()
    file = root / config.FILE_NAME
    profile = ctx.find_root().obj["profile"]
    project = config.load(file, profile) if file.exists() else None
    path, catalog = (project.lake, project.catalog) if project else (root / "lake", None)
    new = {"project": project is None, "lake": not _is_lake(path, catalog)}
    if not any(new.values()):
        raise ConfigError(f"There is already a project with a lake: {file}. Nothing was changed.")
    if new["lake"]:
        Lake.create(path, catalog=catalog).close()
    if new["project"]:
        file.write_text(_PROJECT.format(name=config.project_name(root.name)), encoding="utf-8")
    if as_json:
        print_json({"project": str(file), "lake": str(path), "made": [part for part, made in new.items() if made]})
    else:
        say(f"made {' and '.join(str({'project': file, 'lake': path}[part]) for part, made in new.items() if made)}")


def _is_lake(path: Path, catalog: str | None) -> bool:
    try:
        open_store(path.resolve(), catalog).close()
    except LakeNotFound:
        return False
    return True


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
