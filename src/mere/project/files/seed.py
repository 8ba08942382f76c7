"""Seeds: small CSV files that belong to the project, with their settings in a .yaml beside them."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from mere import entries
from mere.audits.audit import Custom
from mere.errors import ConfigError
from mere.names import TableName, near
from mere.project.files.defaults import Defaults
from mere.project.files.inputs import with_lookups
from mere.project.files.settings import SEED_KEYS, Settings, name_by_path, read_settings
from mere.project.kinds import Kind
from mere.project.model import Csv, Model
from mere.project.problems import Problems

DEFAULT_SCHEMA = "seeds"
_NO_DEFAULTS = Defaults()


def read_seed(
    path: Path,
    content: bytes,
    sidecar: tuple[Path, str] | None,
    customs: Mapping[str, Custom],
    defaults: Defaults = _NO_DEFAULTS,
) -> Model:
    """The model, or a ProjectError. Paths are relative to the project."""
    problems = Problems()
    file = path.as_posix()
    name, settings = TableName("", ""), Settings(Kind.SEED)
    with problems.gather():
        name = name_by_path(path, "seed", DEFAULT_SCHEMA)
    with problems.gather():
        entry = entries.parse(sidecar[1], sidecar[0]) if sidecar else entries.parse("", path)
        given = defaults.of(path, name.namespace)
        settings = read_settings(entry, SEED_KEYS, customs, problems, Kind.SEED, given)
    with problems.gather():
        columns = _columns(file, content, settings.delimiter)
        for column in settings.types:
            if column not in columns:
                problems.add(
                    ConfigError(
                        f"`types` names `{column}`, which {path.name} does not have.{near(column, columns)}",
                        file=sidecar[0].as_posix() if sidecar else file,
                    )
                )
    problems.raise_any()
    how = json.dumps([dict(settings.types), settings.delimiter], sort_keys=True)
    code = hashlib.sha256(how.encode() + b"\n" + content).hexdigest()
    body = Csv(file, code, settings.types, settings.delimiter)
    inputs = tuple(with_lookups((), settings.fields.get("audits", ())))
    return Model(name, Kind.SEED, file, body, inputs, **settings.fields)


def columns_of(content: bytes, delimiter: str) -> list[str]:
    first = content.decode("utf-8-sig").splitlines()[:1]
    return next(csv.reader(first, delimiter=delimiter), [])


def _columns(file: str, content: bytes, delimiter: str) -> list[str]:
    try:
        columns = columns_of(content, delimiter)
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8 text", file=file) from error
    if not columns or any(not column.strip() for column in columns):
        raise ConfigError("the first line must name every column", file=file, line=1)
    lowered = [column.lower() for column in columns]
    if twice := sorted({column for column in lowered if lowered.count(column) > 1}):
        raise ConfigError(f"the column `{twice[0]}` appears twice", file=file, line=1)
    return columns
