"""What the checks examine. Each part is opened when a check first asks for it, and closed at the end."""

from __future__ import annotations

import contextlib
import os
import posixpath
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mere.config import LandingSettings, Project, load
from mere.engine.jvm import java
from mere.engine.jvm.jars import LOCAL, Jar, needed
from mere.engine.session import Session, session
from mere.errors import LakeError, MereError
from mere.lake.lake import Lake
from mere.lake.place.places import database_of
from mere.lake.refs.engines import by_jdbc, by_rest, spark_catalog
from mere.lake.storage.port import Storage, local_path
from mere.lake.store.health import PROBE, Database
from mere.names import MAIN
from mere.sparkconfig import SparkSettings


@dataclass(frozen=True)
class Subject:
    """`file` is the mere.yaml, if there is one. `open_lake` is None where there is no lake to open."""

    file: Path | None
    profile: str | None
    open_lake: Callable[[], Lake] | None

    @cached_property
    def project(self) -> Project | None:
        return load(self.file, self.profile) if self.file else None

    @cached_property
    def lake(self) -> Lake:
        if self.open_lake is None:
            raise LakeError("There is no lake.", remedy="Make one with: mere init")
        return self.open_lake()

    @cached_property
    def database(self) -> Database:
        return database_of(self.lake.store)

    @cached_property
    def java(self) -> java.Java:
        return java.find()

    @property
    def settings(self) -> SparkSettings:
        try:
            return self.project.spark if self.project else SparkSettings()
        except MereError:
            return SparkSettings()  # what is wrong with the file is another check's matter

    @property
    def landing(self) -> LandingSettings | None:
        try:
            return self.project.landing if self.project else None
        except MereError:
            return None  # as above

    @property
    def is_elsewhere(self) -> bool:
        """Whether Spark works on other machines, or as somebody else's server."""
        return self.settings.master is not None or self.settings.remote is not None

    @cached_property
    def session(self) -> Session:
        return session(self.lake, settings=self.settings)

    @property
    def names_trino(self) -> bool:
        try:
            return self.project is not None and self.project.trino is not None
        except MereError:
            return False

    @property
    def drivers(self) -> tuple[Jar, ...]:
        """The jars that Spark needs for this lake alone; none, if it did not open: nobody waits for that twice."""
        if "lake" not in vars(self):
            return ()
        # Not lake.spark_catalog, which tries the storage: jars are there or not, whether that answers or not.
        lake, rest = self.lake, self.settings.rest
        way = by_rest(MAIN, rest) if rest else by_jdbc(lake.store.jdbc, lake.warehouse)
        return needed(spark_catalog(MAIN, way, lake.storage.s3).properties)

    @property
    def jars(self) -> tuple[Jar, ...]:
        return (*LOCAL, *self.drivers)

    @cached_property
    def probe(self) -> str:
        """A file of the warehouse that nobody else can mean."""
        return posixpath.join(self.lake.warehouse, PROBE, secrets.token_hex(8), "probe")

    def close(self) -> None:
        if "session" in vars(self):
            self.session.stop()
        if "probe" in vars(self):
            with contextlib.suppress(Exception):  # it was said already that the storage does not work
                clear(self.lake.storage, posixpath.dirname(self.probe))


def clear(storage: Storage, folder: str) -> None:
    """Delete a folder of the warehouse that was made for a check."""
    storage.delete(*[file.location for file in storage.files(folder)])
    with contextlib.suppress(LakeError):  # only disks have folders without files
        root = local_path(folder)
        for parent, _, _ in os.walk(root, topdown=False):
            Path(parent).rmdir()
        with contextlib.suppress(OSError):  # another doctor is at work there
            root.parent.rmdir()
