"""The Spark that runs in this process: one JVM, one SparkContext, and the sessions made from it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.config import default_author
from mere.engine.cluster import master_of, python_of
from mere.engine.interrupt import Call, cancel_on_interrupt
from mere.engine.jvm import archive, local_files
from mere.engine.jvm.jars import ICEBERG, Jar, cached
from mere.engine.jvm.process import Jvm, prepare
from mere.engine.jvm.work import Work
from mere.engine.translate import MORE_MEMORY, explain, is_from_spark, keep_text, log_at, may_be_lost
from mere.errors import EngineError, SparkFailed, SparkLost
from mere.lake.iceberg.properties import USER
from mere.sparkconfig import SparkSettings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class Driver:
    """Started by `start`, ended by `stop`. Only one can run in a process."""

    def __init__(self, jvm: Jvm, first: SparkSession, restore_interrupt: Callable[[], None]) -> None:
        self.owner = os.getpid()
        self._jvm = jvm
        self._first = first
        self._open: list[SparkSession] = []
        self._handed_out = False
        self._restore_interrupt = restore_interrupt

    @classmethod
    def start(cls, settings: SparkSettings, read_bytes: int = 0, drivers: Sequence[Jar] = ()) -> Driver:
        settings = _with_ml_if_imported(settings)
        if (master := master_of(settings)) is not None:
            master.check()  # before a JVM is started for it
        refuse_a_foreign_context()
        launch = prepare(settings, read_bytes, drivers)
        jvm = Jvm(replace(launch, archive=archive.find(launch)))
        return cls.on(jvm, settings)

    @classmethod
    def on(cls, jvm: Jvm, settings: SparkSettings) -> Driver:
        """A driver on a JVM that is starting: while it does, pyspark is imported."""
        interrupt = signal.getsignal(signal.SIGINT)
        master = master_of(settings)
        log_at(jvm.log, of_server=False)
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.sql import SparkSession

            silence()
            conf = SparkConf(loadDefaults=False)
            for key, value in _conf(jvm, settings).items():
                conf.set(key, value)

            def start() -> SparkContext:
                SparkContext._ensure_initialized(conf=conf)
                if not conf.contains(local_files.SETTING):
                    local_files.use(SparkContext._jvm)
                return SparkContext(conf=conf)

            context = _connected(jvm, start)
            if master is not None:
                master.wait_for_workers(context)
            # Workers for Python functions run the Python that runs this, not the first one on PATH.
            context.pythonExec = python_of(settings)
            _remove_scratch_with_the_jvm(context, jvm)
            _sign_snapshots(context)
            restore = cancel_on_interrupt(lambda: _cancel(context), interrupt, lambda: Call.of_this_thread(context))
            return cls(jvm, SparkSession(context), restore)
        except BaseException as exc:
            failure = failure_of(exc, jvm)
            _forget()
            jvm.end()
            if failure is not None:
                raise failure from exc
            raise

    def lacks(self, drivers: Sequence[Jar]) -> list[Jar]:
        """Those without which this JVM was started: its class path does not grow."""
        present = {jar.name for jar in self._jvm.launch.jars}
        return [jar for jar in drivers if jar.file_name not in present]

    @property
    def alive(self) -> bool:
        return self._jvm.alive

    @property
    def is_usable(self) -> bool:
        """A SparkContext can be stopped under its JVM, by an error in the heart of Spark."""
        return self.alive and not self._first._sc._jsc.sc().isStopped()

    @property
    def pid(self) -> int:
        return self._jvm.process.pid

    def kill(self) -> None:
        """End the JVM, also if it does not answer."""
        self._jvm.process.kill()
        self._jvm.process.wait()

    @property
    def log(self) -> Path:
        return self._jvm.log

    @property
    def context(self) -> SparkContext:
        return self._first._sc

    def open(self, settings: SparkSettings) -> SparkSession:
        """A session with its own catalogs, settings and temporary views."""
        if self._handed_out:
            spark = self._first.newSession()
            for key, value in settings.conf.items():
                # What concerns the JVM as a whole was decided when it started.
                if spark.conf.isModifiable(key):
                    spark.conf.set(key, value)
        else:
            self._handed_out, spark = True, self._first
        self._open.append(spark)
        _activate(spark)
        return spark

    def close(self, spark: SparkSession) -> bool:
        """Forget the session; whether it was the last one."""
        self._open = [each for each in self._open if each is not spark]
        if self._open and self.alive:
            _activate(self._open[-1])
        return not self._open

    def configure(self, spark: SparkSession, conf: Mapping[str, str]) -> None:
        for key, value in conf.items():
            spark.conf.set(key, value)

    def forget_catalog(self, spark: SparkSession, name: str) -> None:
        """Close its connections: Spark would keep them for as long as the session lives."""
        catalogs = spark._jsparkSession.sessionState().catalogManager()
        if catalogs.isCatalogRegistered(name):
            catalogs.catalog(name).icebergCatalog().close()

    def failure_of(self, exc: BaseException) -> SparkFailed | None:
        return failure_of(exc, self._jvm)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its workers run on other machines, which have no file of this one."""
        return not str(self._first._sc.master).startswith("local")

    def add_python(self, archive: Path) -> None:
        self._first._sc.addPyFile(str(archive))

    def cancel(self) -> None:
        _cancel(self._first._sc)

    def stop(self, *, gently: bool = False) -> None:
        context = self._first._sc
        server = getattr(context, "_accumulatorServer", None)
        context._accumulatorServer = None  # type: ignore[assignment]
        if server is not None:
            # It looks only every half second whether it should end: nobody has to wait for that. And it would print
            # that the JVM hung up.
            server.handle_error = lambda *_: None
            threading.Thread(target=server.shutdown, daemon=True).start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                if self.alive:
                    context.stop()
            except Exception:  # whatever happens, the JVM ends below
                logging.getLogger(__name__).debug("Spark did not stop by itself", exc_info=True)
        _forget()
        self._jvm.end(gently=gently)
        self._restore_interrupt()
        if not gently and self._jvm.launch.archive is None:
            archive.build_in_background(self._jvm.launch)


def failure_of(exc: BaseException, jvm: Jvm) -> SparkFailed | None:
    """The exception in readable form, if it came from Spark. To be asked before the JVM is ended."""
    if not is_from_spark(exc):
        return None
    failure = (_death_of(jvm) if may_be_lost(exc) else None) or explain(exc)
    keep_text(exc)
    return failure


def _death_of(jvm: Jvm) -> SparkLost | None:
    """Why the JVM is gone; None if it lives."""
    if not jvm.ended_soon():
        return None
    words = jvm.last_words(200)
    if any("OutOfMemoryError" in line for line in words):
        return SparkLost(f"Spark ran out of memory: it has {jvm.launch.memory}.", remedy=MORE_MEMORY)
    code = jvm.process.returncode
    if code == -signal.SIGKILL:
        return SparkLost(
            "Spark's JVM was killed from outside. The system does that when it is short of memory.",
            remedy="Give Spark less memory, or the machine more; then try again.",
        )
    shown = "".join(f"\n  {line}" for line in words[-5:])
    return SparkLost(f"Spark's JVM ended with exit code {code}.{shown}", remedy=f"The log: {jvm.log}")


def _conf(jvm: Jvm, settings: SparkSettings) -> dict[str, str]:
    partitions = shuffle_partitions(settings, jvm.launch.work)
    conf = {
        "spark.app.name": "mere",
        "spark.master": f"local[{settings.cores or _usable_cores()}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": str(settings.ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": str(partitions),
        SHUFFLE_PARTITIONS: str(partitions),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # No metastore, and nothing in the user's folder.
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(jvm.scratch / "warehouse"),
        # What the UI and the log do not show of a session's settings: those of its catalogs are among them.
        "spark.redaction.regex": "(?i)secret|password|token|credential|access[.-]?key",
        # The executor is this JVM: planning a scan as a Spark job would only cost.
        "spark.sql.iceberg.data-planning-mode": "local",
        "spark.sql.iceberg.delete-planning-mode": "local",
        **({} if settings.ui else _SHORT_MEMORY),
        **_of_cluster(jvm, settings),
        **{name: value for name, value in settings.conf.items() if name != "spark.jars" or settings.master is None},
    }
    extensions = [ICEBERG_EXTENSIONS, settings.conf.get("spark.sql.extensions", "")]
    return {**conf, "spark.sql.extensions": ",".join(filter(None, extensions))}


def _of_cluster(jvm: Jvm, settings: SparkSettings) -> dict[str, str]:
    master = master_of(settings)
    if master is None:
        return {}
    conf = master.conf(settings, [cached(ICEBERG), *jvm.launch.extra])
    if settings.cores is None:  # how many there will be, nobody knows: adaptive execution merges what is too small
        conf |= {"spark.default.parallelism": str(_PARTITIONS), SHUFFLE_PARTITIONS: str(_PARTITIONS)}
    return conf


_PARTITIONS = 64  # on a cluster of which the size is not known

# Without a UI nobody looks at past queries, each of which would stay in memory with its plan.
_SHORT_MEMORY = {
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
}


def shuffle_partitions(settings: SparkSettings, work: Work) -> int:
    """Data that fits the SHORT profile is not worth more tasks than cores; adaptive execution merges them anyway."""
    cores = settings.cores or _usable_cores()
    return 4 * cores if work is Work.HEAVY else cores


def _usable_cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _connected(jvm: Jvm, make: Any) -> Any:
    """Make a SparkContext on our JVM: pyspark finds it by two variables, which nobody else should inherit."""
    port, secret = jvm.connect()
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        return make()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _forget() -> None:
    """Let pyspark forget the JVM, so that the next session of this process can start another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._gateway is not None:
        SparkContext._gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def _activate(spark: SparkSession) -> None:
    """Code that asks for "the" session, as a function in a library may, gets the one that was opened last. It would
    get the first one, and read the tables of another ref."""
    from pyspark.sql import SparkSession

    SparkSession._instantiatedSession = SparkSession._activeSession = spark
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    sessions.setDefaultSession(spark._jsparkSession)
    sessions.setActiveSession(spark._jsparkSession)


def _remove_scratch_with_the_jvm(context: Any, jvm: Jvm) -> None:
    """If this process is killed, the JVM is the last one to know of its temporary folder."""
    view = context._jvm
    view.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(view.java.io.File(str(jvm.scratch)))


def _sign_snapshots(context: Any) -> None:
    """A session's author reaches every snapshot that Spark writes, but not those that only change metadata, such as a
    DELETE of whole files. Iceberg's own context reaches all of them, and is the same for the whole process."""
    context._jvm.org.apache.iceberg.EnvironmentContext.put(USER, default_author())


def _cancel(context: Any) -> None:
    try:
        context.cancelAllJobs()
    except Exception:  # the JVM may be gone already
        logging.getLogger(__name__).debug("jobs were not cancelled", exc_info=True)


def _with_ml_if_imported(settings: SparkSettings) -> SparkSettings:
    if any(name in sys.modules for name in ("pyspark.ml", "pyspark.mllib")):
        return replace(settings, ml=True)
    return settings


def refuse_a_foreign_context() -> None:
    module = sys.modules.get("pyspark.core.context")
    if module is not None and module.SparkContext._active_spark_context is not None:
        raise EngineError(
            "This process already runs a Spark session, and Spark allows no second one.",
            remedy="Stop it first: spark.stop()",
        )


class _NotFromPy4j(logging.Filter):
    """py4j reports a lost connection or Ctrl-C to the root logger, with a stack trace; we raise an error instead."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname


def silence() -> None:
    """Let pyspark and py4j print nothing of what mere raises as an error."""
    from pyspark.logger import PySparkLogger

    # Each would print a failed query as one huge line of JSON.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    root = logging.getLogger()
    if not any(isinstance(each, _NotFromPy4j) for each in root.filters):
        root.addFilter(_NotFromPy4j())
