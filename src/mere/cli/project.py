"""mere init, mere java."""

from __future__ import annotations

from pathlib import Path

import click

from mere import config
from mere.cli.output import Address, example, json_option, print_json, say
from mere.engine import java as jvm
from mere.errors import ConfigError, LakeNotFound
from mere.lake.lake import Lake
from mere.lake.places import open_store
from mere.lake.storage import place
from mere.project import examples
from mere.project.load import FOLDERS

_PROJECT = """\
# A mere project. See the docs: config.
name: {name}

profiles:
  local:
    lake: lake        # a folder, relative to this file
    spark:
      memory: 2g
"""

_FIRST_MODEL = """\
Write a model, such as models/gold/hello.sql:
  SELECT 1 AS id, 'hello' AS greeting
"""
_NEXT = "See what would be built with: mere plan. Build it with: mere run"


@click.command(epilog=example("mere init shop", "mere init shop --example orders"))
@click.argument("folder", default=".", metavar="[DIR]")
@click.option("--example", "name", metavar="NAME", help=f"Start from a worked example: {', '.join(examples.names())}.")
@json_option
@click.pass_context
def init(ctx: click.Context, folder: str, name: str | None, as_json: bool) -> None:
    """Make a project, by default in this folder: a mere.yaml, folders for models, seeds, audits, macros and tests, and
    the lake; what is there stays."""
    root = Path(folder).resolve()
    file = root / config.FILE_NAME
    if name:
        examples.copy(name, root)
    profile = ctx.find_root().obj["profile"]
    project = config.load(file, profile) if file.exists() else None
    address = Address(project.lake, project.catalog, project.s3) if project else Address(str(root / "lake"))
    path, catalog = address.path, address.catalog
    new = {"project": project is None or name is not None, "lake": not _is_lake(path, catalog)}
    if not any(new.values()):
        raise ConfigError(f"There is already a project with a lake: {file}. Nothing was changed.")
    if new["lake"]:
        Lake.create(path, catalog=catalog, s3=address.s3).close()
    if project is None:
        file.write_text(_PROJECT.format(name=config.project_name(root.name)), encoding="utf-8")
        for each in FOLDERS:
            (root / each).mkdir(exist_ok=True)
    if as_json:
        print_json({"project": str(file), "lake": path, "made": [part for part, made in new.items() if made]})
        return
    say(f"made {' and '.join(str({'project': file, 'lake': path}[part]) for part, made in new.items() if made)}")
    click.echo(_NEXT if project else _FIRST_MODEL + _NEXT)


def _is_lake(path: str, catalog: str | None) -> bool:
    try:
        open_store(place(path), catalog).close()
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
