"""A Spark session for a ref. The ref is the current catalog, so `schema.table` is that table on that ref."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from mere.config import default_author, find_project, is_s3, load
from mere.engine import client, connect
from mere.engine.door import Catalog, Check, Door, Lake
from mere.engine.driver import SHUFFLE_PARTITIONS, Driver, shuffle_partitions
from mere.engine.jvm.jars import Jar, needed
from mere.engine.jvm.work import TOO_MUCH_FOR_WARM, Work
from mere.engine.translate import is_from_spark, was_interrupted
from mere.engine.warm import discovery
from mere.engine.warm import engine as warm
from mere.errors import EngineError, SparkFailed
from mere.lake.iceberg.properties import AUTHOR
from mere.lake.log.refs import RefLike, spelled
from mere.lake.storage.port import place
from mere.names import MAIN
from mere.sparkconfig import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Refs(Protocol):
    """What a session needs of a lake: its refs, as catalogs."""

    def spark_catalog(self, ref: str) -> Catalog: ...


class Engine(Protocol):
    """What runs Spark: a JVM of this process (driver.py), or a server (connect.py)."""

    def lacks(self, drivers: Sequence[Jar]) -> list[Jar]: ...
    def configure(self, spark: SparkSession, conf: Mapping[str, str]) -> None: ...
    def forget_catalog(self, spark: SparkSession, name: str) -> None: ...
    def failure_of(self, exc: BaseException) -> SparkFailed | None: ...
    def cancel(self) -> None: ...
    @property
    def is_elsewhere(self) -> bool: ...
    def add_python(self, archive: Path) -> None: ...


class Session:
    """A Spark session whose current catalog is a ref. Use it as a context manager, or call `stop`.

    A Spark exception that leaves the `with` block becomes a SparkFailed with one readable message.
    """

    def __init__(
        self, driver: Engine, spark: SparkSession, refs: Refs, close: Callable[[], None], about: str = ""
    ) -> None:
        self.spark = spark
        self.about = about  # where it runs, for a person who might wonder
        self._driver = driver
        self._refs = refs
        self._close = close
        self._attached: dict[str, dict[str, str]] = {}
        self._detached: set[str] = set()
        self._stopped = False

    def reach(self, refs: Refs, close: Callable[[], None]) -> None:
        """The refs another way from here on, which is closed when the session has ended."""
        end = self._close

        def ended() -> None:
            try:
                end()
            finally:
                close()

        self._refs, self._close = refs, ended

    def attach(self, ref: RefLike) -> str:
        """Make the ref a catalog of this session, for names like `dev.gold.orders`; returns the name of the catalog."""
        catalog = self._refs.spark_catalog(spelled(ref))
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
                    f"The catalog {catalog.name} of this session now has other properties.",
                    remedy="Open a new session.",
                )
            return catalog.name
        prefix = f"spark.sql.catalog.{catalog.name}"
        # Set at run time, never on a command line: a property can be a password.
        conf = {f"{prefix}.{key}": value for key, value in properties.items()}
        self._driver.configure(self.spark, {**conf, prefix: "org.apache.iceberg.spark.SparkCatalog"})
        self._attached[catalog.name] = properties
        return catalog.name

    def use(self, ref: RefLike) -> str:
        """Attach the ref and make it the current catalog, where two-part names resolve; returns the name of the
        catalog."""
        name = self.attach(ref)
        # By SQL: setCurrentCatalog would load the catalog with the settings of whichever session was active before.
        self.spark.sql(f"SET CATALOG `{name}`")
        return name

    def detach(self, name: str) -> None:
        """Close the connections of a catalog that is no longer needed, such as that of a finished run. Spark cannot
        forget a catalog, so its name cannot be attached again in this session."""
        if name not in self._attached:
            return
        self._driver.forget_catalog(self.spark, name)
        del self._attached[name]
        self._detached.add(name)

    @property
    def is_elsewhere(self) -> bool:
        """Whether Spark may run on machines that have no file of this one."""
        return self._driver.is_elsewhere

    def add_python(self, archive: Path) -> None:
        """Modules that Python functions may import where they run: a .zip, whose name says which ones it has."""
        self._driver.add_python(archive)

    def cancel(self) -> None:
        """Cancel what Spark is doing for this process, whichever thread started it."""
        self._driver.cancel()

    def stop(self) -> None:
        """End the session, and Spark with it if no other session of this process is open."""
        with _lock:
            if not self._stopped:
                self._stopped = True
                self._close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(exc, Exception) and is_from_spark(exc) and was_interrupted(exc):
            self.stop()
            raise KeyboardInterrupt from exc
        failure = self._driver.failure_of(exc) if exc is not None else None
        self.stop()
        if failure is not None:
            raise failure from exc


def session(
    lake: Lake,
    ref: RefLike = MAIN,
    *,
    settings: SparkSettings | None = None,
    read_bytes: int = 0,
    author: str | None = None,
    drivers: Sequence[Jar] = (),
    check: Check = lambda: None,
) -> Session:
    """Open a session on the ref.

    Without `settings`, those of the project's mere.yaml hold. `read_bytes` is how much it will read, as far as the
    caller knows: it decides how the JVM is tuned. All sessions of a process share one JVM, tuned for the first of
    them. `author` goes into the summary of each snapshot. `drivers`: of other databases that it will read. `check`
    raises once nothing may be written any more; it is asked where the session has a server of its own.
    """
    settings = settings or settings_of(lake)
    with ExitStack() as stack:
        refs = _refs(stack, lake, settings, author, check)
        catalog = refs.spark_catalog(spelled(ref))  # a ref that does not exist is found before a JVM is started for it
        drivers = tuple(dict.fromkeys((*needed(catalog.properties), *drivers)))
        with _lock:
            opened = _opened(lake, settings, read_bytes, drivers)
            opened.reach(refs, stack.pop_all().close)
            return _on_ref(opened, ref, author)


def _refs(stack: ExitStack, lake: Lake, settings: SparkSettings, author: str | None, check: Check) -> Refs:
    """The lake itself, or what its session sees of it."""
    if settings.rest is None:
        return lake
    return stack.enter_context(closing(Door(lake, settings.rest, author or default_author(), check)))


def session_on_server(lake: Lake, ref: RefLike = MAIN, *, settings: SparkSettings | None = None) -> Session:
    """A session on a server that runs: the lake's warm engine, or the one at `remote`. Never a JVM of its own."""
    settings = settings or settings_of(lake)
    with ExitStack() as stack:
        refs = _refs(stack, lake, settings, None, lambda: None)
        catalog = refs.spark_catalog(spelled(ref))
        with _lock:
            found = _on_server(lake, settings, 0, needed(catalog.properties))
            if isinstance(found, Session):
                found.reach(refs, stack.pop_all().close)
                return _on_ref(found, ref, None)
    if warm.is_switched_off():
        raise EngineError("The warm engine is switched off, by MERE_ENGINE=off.", remedy="Unset MERE_ENGINE.")
    if found:
        raise EngineError(f"{found[0].upper()}{found[1:]}.", remedy="Replace it with one that fits: mere engine start")
    raise EngineError("No warm engine runs for this lake.", remedy="Start one: mere engine start")


def _on_ref(opened: Session, ref: RefLike, author: str | None) -> Session:
    try:
        signed = {f"spark.sql.iceberg.snapshot-property.{AUTHOR}": author or default_author()}
        opened._driver.configure(opened.spark, signed)
        opened.use(ref)
    except BaseException as exc:
        failure = opened._driver.failure_of(exc)
        opened.stop()
        if failure is not None:
            raise failure from exc
        raise
    return opened


def _opened(lake: Lake, settings: SparkSettings, read_bytes: int, drivers: Sequence[Jar]) -> Session:
    """On a server if there is one for it, else in a JVM of this process."""
    about = ""
    if settings.remote is not None or not _runs_a_jvm():
        found = _on_server(lake, settings, read_bytes, drivers)
        if isinstance(found, Session):
            return found
        if connect.is_open():
            raise EngineError(
                "This process has a session on a Spark server, so it cannot run a Spark of its own.",
                remedy="Stop that session first.",
            )
        about = f"a JVM of its own: {found}" if found else ""
    driver = _running(settings, read_bytes, drivers)
    spark = driver.open(settings)
    return Session(driver, spark, lake, lambda: _close(driver, spark), about)


def _runs_a_jvm() -> bool:
    return _driver is not None and _driver.is_usable


def _on_server(lake: Lake, settings: SparkSettings, read_bytes: int, drivers: Sequence[Jar]) -> Session | str:
    """A session on the server at `remote` or on the lake's warm engine, or why there is none."""
    if _runs_a_jvm():
        # It is either: pyspark's functions can make columns for one of them at a time.
        raise EngineError(
            f"This process runs a Spark of its own, so it cannot use {settings.remote or 'the warm engine'}.",
            remedy="Stop its sessions first.",
        )
    if settings.remote is not None:
        return _on_remote(lake, settings, settings.remote)
    return _on_warm(lake, settings, read_bytes, drivers)


def _on_remote(lake: Lake, settings: SparkSettings, url: str) -> Session:
    connection = connect.Connection.to_remote(url)
    connection.configure_if_possible(connection.spark, {"spark.sql.session.timeZone": "UTC", **settings.conf})
    return Session(connection, connection.spark, lake, connection.close, url)


def _on_warm(lake: Lake, settings: SparkSettings, read_bytes: int, drivers: Sequence[Jar]) -> Session | str:
    """A session on the lake's warm engine, or why there is none; nothing to say if none was to be expected."""
    global _warm
    location = getattr(lake, "location", None)
    if _warm is not None and connect.is_open() and warm.running(_warm[0]) == _warm[1]:
        location, engine = _warm
        try:
            connection = warm.connect(location, engine)
        except (warm.Ended, warm.NoAnswer):
            return "the warm engine does not answer"
    elif not isinstance(location, str) or not warm.is_expected(location, settings):
        return ""
    elif read_bytes >= TOO_MUCH_FOR_WARM:
        return f"{read_bytes / 1e6:,.0f} MB will be read, for which it is tuned"
    else:
        found = warm.connected(location, settings, drivers)
        if isinstance(found, str):
            return found
        engine, connection = found
    _warm = location, engine
    tuned = {SHUFFLE_PARTITIONS: str(shuffle_partitions(settings, Work.of(read_bytes)))}
    own = {name: settings.conf[name] for name in tuned if name in settings.conf}
    connection.configure(connection.spark, {**tuned, **own})
    return Session(connection, connection.spark, lake, connection.close, f"the warm engine, process {engine.pid}")


def get_ready(lake: Lake, settings: SparkSettings) -> None:
    """A session on the lake will be opened soon: what it needs is imported meanwhile, in another thread."""
    location = getattr(lake, "location", None)
    if _driver is not None:
        return
    if settings.remote or (isinstance(location, str) and warm.is_expected(location, settings)):
        client.load_ahead()


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
# And one warm engine, with the lake that it belongs to: a session on another lake is opened there, too.
_warm: tuple[str, discovery.Engine] | None = None


def _running(settings: SparkSettings, read_bytes: int, drivers: Sequence[Jar]) -> Driver:
    global _driver
    if _driver is not None and not _driver.is_usable:
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
    connect.close_all()
    if _driver is not None and _driver.owner == os.getpid():
        driver, _driver = _driver, None
        driver.stop()
