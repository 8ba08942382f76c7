"""Where a project is, and the lake that it works on."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from mere import config
from mere.config import S3Settings
from mere.errors import ConfigError, LakeNotFound
from mere.lake.lake import Lake


@dataclass(frozen=True)
class Address:
    """Where a lake is: its folder or place on S3, and the database of its catalog if that is not a file in there."""

    path: str
    catalog: str | None = field(default=None, repr=False)  # with its password
    s3: S3Settings | None = None

    @classmethod
    def of(cls, settings: config.Project) -> Address:
        return cls(settings.lake, settings.catalog, settings.s3)

    def open(self) -> Lake:
        return Lake.open(self.path, catalog=self.catalog, s3=self.s3)


def project_file(path: str | os.PathLike[str] = ".") -> Path:
    """The mere.yaml of a folder or of the nearest one above it; of `path` itself, if it is one."""
    start = Path(path)
    if start.name == config.FILE_NAME and start.is_file():
        return start.absolute()
    found = config.find_project(start)
    if found is None:
        where = "here" if start == Path() else f"in {start}"
        raise ConfigError(
            f"There is no {config.FILE_NAME} {where} or in a folder above.", remedy="Make a project: mere init DIR."
        )
    return found


def lake_address(profile: str | None = None, lake: str | None = None) -> Address:
    """Of the lake that is meant in the current folder: the one that is named, or that of the project."""
    if lake:
        return Address(lake)
    file = config.find_project(Path.cwd())
    if file is None:
        raise LakeNotFound(
            "There is no mere.yaml here or in a folder above, so there is no lake to work on.",
            remedy="Make one with: mere init DIR. Or name a lake: mere --lake PATH …",
        )
    return Address.of(config.load(file, profile))
