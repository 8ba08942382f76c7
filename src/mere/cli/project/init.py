"""mere init, mere java."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mere import config
from mere.api.place import Address
from mere.cli.commands import as_typed
from mere.cli.output import example, json_option, print_json, say
from mere.engine.jvm import java as jvm
from mere.errors import BucketMissing, ConfigError, LakeNotFound, UsageError
from mere.lake.lake import Lake
from mere.lake.place.places import open_store
from mere.lake.storage import storage_at
from mere.lake.storage.port import place
from mere.project import examples, ignored
from mere.project.load import FOLDERS
from mere.text.words import counted, size

if TYPE_CHECKING:
    from mere.generate.files import Written

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


class Generated(NamedTuple):
    """The data with which an example starts."""

    folder: Path
    files: list[Written]
    more: str  # the command that writes more of the same

    @property
    def about(self) -> dict[str, object]:
        return {"folder": str(self.folder), "files": len(self.files), **self._sums, "more": self.more}

    def __str__(self) -> str:
        rows, total = self._sums.values()
        return f"generated {counted(len(self.files), 'file')} in {self.folder}: {counted(rows, 'row')}, {size(total)}"

    @property
    def _sums(self) -> dict[str, int]:
        return {"rows": sum(file.rows for file in self.files), "bytes": sum(file.size for file in self.files)}


@click.command(
    epilog=example("mere init shop", "mere init shop --example orders", "mere --profile team init --create-bucket")
)
@click.argument("folder", default=".", metavar="[DIR]")
@click.option("--example", "name", metavar="NAME", help=f"Start from a worked example: {', '.join(examples.names())}.")
@click.option("--create-bucket", is_flag=True, help="Create the bucket of a lake on S3 if it does not exist.")
@json_option
@click.pass_context
def init(ctx: click.Context, folder: str, name: str | None, create_bucket: bool, as_json: bool) -> None:
    """Make a project with a lake, by default in this folder.

    Writes a mere.yaml, folders for models, sources, seeds, audits, macros and tests, and a .gitignore. Existing
    files stay. For examples that load files, a few are generated."""
    root = Path(folder).resolve()
    file = root / config.FILE_NAME
    generated = _start_from(name, root) if name else None
    if name:
        ignored.ignore(root, ignored.ignored(file, *([generated.folder.relative_to(root)] if generated else [])))
    profile = ctx.find_root().obj["profile"]
    project = config.load(file, profile) if file.exists() else None
    address = Address(project.lake, project.catalog, project.s3) if project else Address(str(root / "lake"))
    path = address.path
    new = {"project": project is None or name is not None, "lake": not _is_lake(address)}
    if not any(new.values()):
        raise ConfigError(f"There is already a project with a lake: {file}. Nothing was changed.")
    made_bucket = _make_bucket(address) if create_bucket else False
    if new["lake"]:
        _make_lake(address, folder)
    if project is None:
        _write_project(root)
    elif (root / ignored.FILE_NAME).exists():
        ignored.ignore(root, ignored.ignored(file))
    if as_json:
        about = {"project": str(file), "lake": path, "made": [part for part, made in new.items() if made]}
        print_json({**about, "bucket": made_bucket, "generated": generated.about if generated else None})
        return
    if made_bucket:
        say(f"made the bucket of {path}")
    say(f"made {' and '.join(str({'project': file, 'lake': path}[part]) for part, made in new.items() if made)}")
    if generated:
        say(f"{generated}\nfor more, in {root}: {generated.more}")
    click.echo(as_typed(_NEXT) if project else _FIRST_MODEL + as_typed(_NEXT))


def _write_project(root: Path) -> None:
    file = root / config.FILE_NAME
    file.write_text(_PROJECT.format(name=config.project_name(root.name)), encoding="utf-8")
    for each in FOLDERS:
        (root / each).mkdir(exist_ok=True)
    ignored.ignore(root, ignored.ignored(file))


def _make_bucket(address: Address) -> bool:
    if address.s3 is None:
        raise UsageError(
            f"--create-bucket is for a lake on S3, and this one is at {address.path}.",
            remedy="Leave it out, or name a profile whose lake is on S3: mere --profile NAME init --create-bucket",
        )
    from mere.lake.storage.s3 import make_bucket

    return make_bucket(address.path, address.s3)


def _make_lake(address: Address, folder: str) -> None:
    try:
        Lake.create(address.path, catalog=address.catalog, s3=address.s3).close()
    except BucketMissing as error:
        words = ["mere", "init", *([folder] if folder != "." else [])]
        raise BucketMissing(
            error.message,
            remedy=f"Create it as well: {shlex.join(words)} --create-bucket\n"
            "Or correct `lake` or `s3.endpoint` in mere.yaml.",
        ) from None


def _start_from(name: str, root: Path) -> Generated | None:
    from mere.generate import samples
    from mere.generate.files import write

    sample, folder = samples.sample(name), root / samples.FOLDER
    if sample and folder.exists():
        raise ConfigError(
            f"{folder} already exists. Nothing was changed.", remedy="Choose another folder: mere init DIR"
        )
    examples.copy(name, root)
    return Generated(folder, list(write(sample.dataset, folder)), sample.more) if sample else None


def _is_lake(address: Address) -> bool:
    location = place(address.path)
    try:
        open_store(location, storage_at(location, address.s3), address.catalog).close()
    except LakeNotFound:
        return False
    return True


@click.group(epilog=example("mere java show", "mere java install"))
def java() -> None:
    """Show or install the Java that Spark runs on."""


@java.command("show", epilog=example("mere java show"))
@json_option
def java_show(as_json: bool) -> None:
    """Show which Java is used, or what to install if none fits."""
    found = jvm.find()
    if as_json:
        print_json({"home": str(found.home), "version": found.version})
    else:
        say(f"Java {found.version} at {found.home}")


@java.command("install", epilog=example("mere java install"))
@json_option
def java_install(as_json: bool) -> None:
    """Fetch a JDK 17 into mere's own folder. Needs the extra mere[java]."""
    found = jvm.install()
    if as_json:
        print_json({"home": str(found.home), "version": found.version})
    else:
        say(f"Java {found.version} at {found.home}")
