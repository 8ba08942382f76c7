"""The driver's JVM, started directly.

Stock PySpark runs a shell script, a first JVM that computes a command line, and SparkSubmit in a second one. Here the
JVM runs Spark's Python gateway at once, with flags chosen for the work and with an archive of class data if there is
one (archive.py). It ends when its standard input does: that is, with this process, however this process ends.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mere import private
from mere.config import mere_home
from mere.engine.cluster import class_path_of, master_of, python_of
from mere.engine.jvm.classpath import class_path, spark_home, sqlite_library
from mere.engine.jvm.jars import AWS, HADOOP, SQLITE, Jar, fetch
from mere.engine.jvm.java import Java, find
from mere.engine.jvm.work import Work
from mere.errors import EngineError
from mere.sparkconfig import SparkSettings

LEAST_MEMORY = 512 * 1024 * 1024
START_SECONDS = 120
KEPT_LOGS = 20

# What Spark opens for itself on Java 17 and 21 (org.apache.spark.launcher.JavaModuleOptions).
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_MODULES = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
)


@dataclass(frozen=True)
class Launch:
    """All that decides how a JVM is started. No secret may be in here: it becomes a command line."""

    java: Java
    jars: tuple[Path, ...]
    work: Work = Work.SHORT
    memory: str = "2g"
    ml: bool = False
    extra: tuple[Path, ...] = ()
    "The user's own jars and drivers of catalogs, which are in `jars` too."
    beside: tuple[Path, ...] = ()
    "Jars after all others: an archive of class data fits with them and without."
    options: tuple[str, ...] = ()
    address: str = "127.0.0.1"
    "Where the driver listens."
    python: str = sys.executable
    "That runs Python functions."
    folders: tuple[str, ...] = ()
    "At the end of the class path."
    archive: Path | None = None
    "An archive of class data to read."
    dump_to: Path | None = None
    "Where to write one at the end, instead of reading one."

    def command(self, log: Path, temporary: Path) -> list[str]:
        return [
            str(self.java.executable),
            *_MODULES,
            # Only Spark's machine learning computes with vectors, and a cut-down Java does not have the module.
            *(["--add-modules=jdk.incubator.vector"] if self.ml else []),
            *self.work.value,
            *self._sharing(),
            *self._memory(),
            # No file in /tmp for tools that watch JVMs: one that is killed would leave it behind.
            "-XX:-UsePerfData",
            f"-XX:ErrorFile={log.with_suffix('.crash')}",
            f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
            f"-Dmere.log={log}",
            f"-Djava.io.tmpdir={temporary}",
            *self._processes(),
            *self._sqlite(),
            *self.options,
            "org.apache.spark.api.python.PythonGatewayServer",
        ]

    def _sharing(self) -> list[str]:
        # An archive that does not fit is skipped without a word.
        quiet = ["-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if self.dump_to is not None:
            return [*quiet, f"-XX:ArchiveClassesAtExit={self.dump_to}"]
        if self.archive is None:
            return quiet
        return [*quiet, f"-XX:SharedArchiveFile={self.archive}"]

    def _memory(self) -> list[str]:
        # By default the heap starts with 1/64 of the machine's memory; on a laptop that is a dozen collections
        # before the first query. Memory that is not touched is not used.
        return [f"-Xmx{self.memory}", "-Xms512m"]

    @staticmethod
    def _processes() -> list[str]:
        # Where Hadoop or Spark starts a process (local_files.py avoids most), it is one instead of two.
        return ["-Djdk.lang.Process.launchMechanism=VFORK"] if platform.system() == "Linux" else []

    def _sqlite(self) -> list[str]:
        jar = next((jar for jar in self.jars if jar.name == SQLITE.file_name), None)
        library = sqlite_library(jar) if jar else None
        if library is None:
            return []
        return [f"-Dorg.sqlite.lib.path={library.parent}", f"-Dorg.sqlite.lib.name={library.name}"]


class Jvm:
    """A JVM that is starting or running. `connect` waits until the gateway answers."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.scratch = Path(tempfile.mkdtemp(prefix="mere-"))
        self.log = _new_log()
        self._connection = self.scratch / "connection"
        temporary = self.scratch / "tmp"
        temporary.mkdir()
        try:
            with private.appended(self.log) as output:
                self.process = subprocess.Popen(
                    launch.command(self.log, temporary),
                    env=self._environment(),
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    # Ctrl-C is for Python, which cancels the jobs and then decides; the JVM must still be there.
                    start_new_session=True,
                )
        except OSError as exc:
            shutil.rmtree(self.scratch, ignore_errors=True)
            raise EngineError(f"{launch.java.executable} cannot be started: {exc.strerror}.") from exc

    def _environment(self) -> dict[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY_")},
            # Here and not among the arguments, so that `ps` stays readable.
            "CLASSPATH": os.pathsep.join(map(str, (*self.launch.jars, *self.launch.beside, *self.launch.folders))),
            "SPARK_HOME": str(spark_home()),
            # No look-up of this machine's name; and nothing that listens to the network, but for a cluster's workers.
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", self.launch.address),
            "SPARK_CONNECT_MODE": "0",
            # A Connect server runs Python functions by it.
            "PYSPARK_PYTHON": self.launch.python,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection),
        }

    def connect(self) -> tuple[int, str]:
        """Port and secret of the gateway."""
        deadline = time.monotonic() + START_SECONDS
        while not self._connection.is_file():
            if self.process.poll() is not None:
                raise self._stillborn(f"ended at once, with exit code {self.process.returncode}")
            if time.monotonic() > deadline:
                raise self._stillborn(f"did not answer within {START_SECONDS} s")
            time.sleep(0.005)
        data = self._connection.read_bytes()
        self._connection.unlink()
        port, length = struct.unpack(">ii", data[:8])
        return port, data[8 : 8 + length].decode()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ended_soon(self, seconds: float = 0.5) -> bool:
        """Whether it is gone, or goes while we wait: the connection breaks a little before the process ends."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self, *, gently: bool = False) -> None:
        """End the JVM. Gently, it runs its exit hooks, which takes another half second and which nothing needs: the
        session was stopped before, and the temporary files are removed here."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        if not gently:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.scratch, ignore_errors=True)
        if self.log.is_file() and not self.log.stat().st_size:
            self.log.unlink()

    def last_words(self, count: int = 8) -> list[str]:
        """The end of the log, without stack traces."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        noise = ("\tat ", "\t...", "WARNING: Using incubator", "Picked up ", "[")
        return [line for line in lines if line.strip() and not line.startswith(noise)][-count:]

    def _stillborn(self, what: str) -> EngineError:
        self.end()
        shown = "\n".join(f"  {line}" for line in self.last_words()) or "  (it wrote nothing)"
        return EngineError(
            f"Spark's JVM ({self.launch.java.home}) {what}:\n{shown}", remedy=f"The whole log: {self.log}"
        )


def prepare(settings: SparkSettings, read_bytes: int = 0, drivers: Sequence[Jar] = ()) -> Launch:
    """Find the Java, fetch the jars and those that a catalog needs, add the user's own jars and options."""
    conf = settings.conf
    own = [*conf.get("spark.jars", "").split(","), *conf.get("spark.driver.extraClassPath", "").split(os.pathsep)]
    extra = [Path(name.strip()).absolute() for name in own if name.strip()]
    missing = [str(path) for path in extra if not path.is_file()]
    if missing:
        raise EngineError(
            f"These jars do not exist: {', '.join(missing)}.",
            remedy="Correct `spark.jars` or `spark.driver.extraClassPath`, which name single files.",
        )
    if memory_bytes(settings.memory) < LEAST_MEMORY:
        raise EngineError(f"Spark does not start with {settings.memory} of memory.", remedy="Give it 512m or more.")
    java, master = find(), master_of(settings)
    # Workers on other machines read the files of sources on S3 themselves.
    extra += fetch((*drivers, *HADOOP) if master and AWS in drivers else drivers)
    jars = class_path([*fetch(), *extra], ml=settings.ml)
    return Launch(
        java=java,
        jars=tuple(jars),
        work=Work.of(read_bytes),
        memory=settings.memory,
        ml=settings.ml,
        extra=tuple(extra),
        options=tuple(shlex.split(conf.get("spark.driver.extraJavaOptions", ""))),
        address=master.own_address() if master else "127.0.0.1",
        python=python_of(settings),
        folders=tuple(class_path_of(settings)),
    )


def _new_log() -> Path:
    folder = mere_home() / "logs"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise EngineError(
            f"The logs of Spark cannot be kept in {folder}: {exc.strerror}.",
            remedy="Set MERE_HOME to a folder that you may write to.",
        ) from exc
    for old in sorted(folder.glob("spark-*"))[: -KEPT_LOGS or None]:
        old.unlink(missing_ok=True)
    return folder / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def memory_bytes(memory: str) -> int:
    return int(memory[:-1]) << 10 * ("kmgt".index(memory[-1].lower()) + 1)
