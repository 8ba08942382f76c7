"""The refs of a lake as catalogs of every session: those that are there, and new ones as soon as they are made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from mere.engine.door import Door
from mere.lake.iceberg.properties import AUTHOR
from mere.lake.lake import Lake
from mere.names import MAIN
from mere.sparkconfig import RestSettings

_GLANCE = 0.5  # seconds for which the list of refs is taken as it was
_PLUGIN = "org.apache.iceberg.spark.SparkCatalog"


class Catalogs:
    """`settings`: of a REST server that has the lake; without `uri`, one is opened here, so that nobody who works in
    Spark sees the password of the catalog's database."""

    def __init__(self, lake: Lake, settings: RestSettings, author: str) -> None:
        self._lake = lake
        self._author = author
        self._door = Door(lake, settings, author, lambda: None)
        self._lock = threading.Lock()
        self._known: tuple[str, ...] = ()
        self._looked = 0.0
        self._settings: dict[tuple[str, str], dict[str, str]] = {}

    def names(self) -> tuple[str, ...]:
        with self._lock:
            if time.monotonic() - self._looked > _GLANCE:
                self._known = tuple(sorted(ref.name for ref in self._lake.refs()))
                self._looked = time.monotonic()
            return self._known

    def session(self, user: str) -> dict[str, str]:
        """What every new session gets: two-part names are tables of main, and snapshots have an author."""
        return {"spark.sql.defaultCatalog": MAIN, f"spark.sql.iceberg.snapshot-property.{AUTHOR}": self._of(user)}

    def of(self, ref: str, user: str) -> Mapping[str, str]:
        """The settings by which the ref is a catalog."""
        author = self._of(user)
        with self._lock:
            if (ref, author) not in self._settings:
                prefix = f"spark.sql.catalog.{ref}"
                properties = self._door.spark_catalog(ref, author).properties
                found = {f"{prefix}.{key}": value for key, value in properties.items()}
                self._settings[ref, author] = {**found, prefix: _PLUGIN}
            return self._settings[ref, author]

    def _of(self, user: str) -> str:
        return user or self._author

    def close(self) -> None:
        self._door.close()
        self._lake.close()


Open = Callable[[], Catalogs]
