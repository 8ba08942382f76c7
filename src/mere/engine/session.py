"""A Spark session for a ref: the ref is the current catalog, so `schema.table` is that table on that ref."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from mere.config import SparkSettings, default_author, find_project, is_s3, load
from mere.engine.driver import Driver
from mere.engine.jars import Jar, needed
from mere.errors import EngineError
from mere.lake.storage import place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Catalog(Protocol):
    """A ref as a catalog of Spark: its properties come without Spark's prefix."""

    @property
    def name(self) -> str: ...
    @property
    def properties(self) -> Mapping[str, str]: ...


class Lake(Protocol):
    """What the engine needs of a lake."""

    def spark_catalog(self, ref: str) -> Catalog: ...


class Session:
    """A Spark session whose current catalog is a ref. Use it as a context manager, or call `stop`.

    A Spark exception that leaves the `with` block becomes a SparkFailed with one readable message.
    """

    def __init__(self, driver: Driver, spark: SparkSession, lake: Lake) -> None:
        self.spark = spark
        self._driver = driver
        self._lake = lake
        self._attached: dict[str, dict[str, str]] = {}
        self._detached: set[str] = set()
        self._stopped = False

    def attach(self, ref: str) -> str:
        """Make the ref a catalog of this session, for names like `dev.gold.orders`; the name of that catalog."""
        catalog = self._lake.spark_catalog(ref)
        properties = dict(catalog.properties)
        if catalog.name in self._detached:
            raise EngineError(f"{catalog.name} was detached from this session.", remedy="Open a new session.")
        if lacking := self._driver.lacks(needed(properties)):
            raise EngineError(
                f"The JVM of this process was started without {lacking[0].name}, which this lake needs.",
                remedy="Open the session on this lake first, or in a process of its own.",
            )
        if catalog.name in self._attached:
            if self._attached[catalog.name] != properties:
                # Spark keeps a catalog for as long as the session lives, and would not see the new ones.
                raise EngineError(
                    f"The catalog {catalog.name} of this session has other properties by now.",
                    remedy="Open a new session.",
                )
            return catalog.name
        prefix = f"spark.sql.catalog.{catalog.name}"
        # Set at run time, never on a command line: a property can be a password.
        for key, value in properties.items():
            self.spark.conf.set(f"{prefix}.{key}", value)
        self.spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        self._attached[catalog.name] = properties
        return catalog.name

    def use(self, ref: str) -> str:
        """Attach the ref and make it the current catalog, where two-part names resolve; the name of that catalog."""
        name = self.attach(ref)
        # By SQL: setCurrentCatalog would load the catalog with the settings of whichever session was active before.
        self.spark.sql(f"SET CATALOG `{name}`")
        return name

    def detach(self, name: str) -> None:
        """Close the connections of a catalog that is not needed any more, such as that of a run that is over.

        Spark has no way to forget a catalog, so its name cannot be attached again in this session.
        """
        if name not in self._attached:
            return
        catalogs = self.spark._jsparkSession.sessionState().catalogManager()
        if catalogs.isCatalogRegistered(name):
            catalogs.catalog(name).icebergCatalog().close()
        del self._attached[name]
        self._detached.add(name)

    def cancel(self) -> None:
        """Cancel what Spark is doing for this process, whichever thread asked for it."""
        self._driver.cancel()

    def stop(self) -> None:
        """End the session, and Spark with it if no other session of this process is open."""
        with _lock:
            if not self._stopped:
                self._stopped = True
                _close(self._driver, self.spark)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        failure = self._driver.failure_of(exc) if exc is not None else None
        self.stop()
        if failure is not None:
            raise failure from exc


def session(
    lake: Lake,
    ref: str = "main",
    *,
    settings: SparkSettings | None = None,
    read_bytes: int = 0,
    author: str | None = None,
) -> Session:
    """Open a session on the ref.

    Without `settings`, those of the project's mere.yaml hold. `read_bytes` is how much it will read, as far as the
    caller knows: it decides how the JVM is tuned. All sessions of a process share one JVM, tuned for the first of
    them. `author` goes into the summary of each snapshot.
    """
    settings = settings or settings_of(lake)
    catalog = lake.spark_catalog(ref)  # a ref that does not exist is found before a JVM is started for it
    with _lock:
        driver = _running(settings, read_bytes, needed(catalog.properties))
        spark = driver.open(settings)
        try:
            spark.conf.set("spark.sql.iceberg.snapshot-property.mere.author", author or default_author())
            opened = Session(driver, spark, lake)
            opened.use(ref)
        except BaseException as exc:
            failure = driver.failure_of(exc)
            _close(driver, spark)
            if failure is not None:
                raise failure from exc
            raise
    return opened


def settings_of(lake: Lake) -> SparkSettings:
    """What the mere.yaml of the lake's own project says, under the current profile."""
    location = getattr(lake, "location", None)
    if not isinstance(location, str):
        return SparkSettings()
    # A lake on S3 has no folder above it; its project is where one works.
    file = find_project(Path.cwd() if is_s3(location) else Path(location))
    project = load(file) if file else None
    return project.spark if project and place(project.lake) == location else SparkSettings()


# One driver a process: Spark allows no second one.
_lock = threading.RLock()
_driver: Driver | None = None


def _running(settings: SparkSettings, read_bytes: int, drivers: Sequence[Jar]) -> Driver:
    global _driver
    if _driver is not None and not _driver.alive:
        # It died under its sessions, of memory for instance. They are lost; a new one can begin afresh.
        _driver.stop()
        _driver = None
    if _driver is None:
        _driver = Driver.start(settings, read_bytes, drivers)
    return _driver


def _close(driver: Driver, spark: SparkSession) -> None:
    global _driver
    if driver.close(spark) and driver is _driver:
        _driver = None
        driver.stop()


@atexit.register
def _stop_at_exit() -> None:
    global _driver
    if _driver is not None and _driver.owner == os.getpid():
        driver, _driver = _driver, None
        driver.stop()
