"""A Trino of one node, from its Maven coordinates: 540 MB, fetched once by the Ivy of pyspark.

It needs a Java 24 or newer, which Spark cannot have: the one that BENCH_TRINO_JAVA_HOME names, or one of the system's.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from bench.peers import NotInstalled
from mere.config import mere_home
from mere.engine.jvm import jars, java
from mere.engine.jvm.classpath import spark_home
from mere.engine.lock import exclusive
from tests.services.postgres import free_port

VERSION = "476"
JAVA = 24
SERVER, ICEBERG = f"trino-server-core-{VERSION}", f"trino-iceberg-{VERSION}"
SHA256 = {
    f"{SERVER}.tar.gz": "0f388f9967c177ae70a47c099082fc95387f0c3cb96d8000d1d41fc3a5223158",
    f"{ICEBERG}.zip": "99edba5b491ed94d599aeb61e0794272d3569d8b563f3bb8569e8a49daa87b6c",
}
IVY = f"""\
<ivy-module version="2.0">
  <info organisation="mere" module="tests"/>
  <dependencies>
    <dependency org="io.trino" name="trino-server-core" rev="{VERSION}" transitive="false">
      <artifact name="trino-server-core" type="tar.gz" ext="tar.gz"/>
    </dependency>
    <dependency org="io.trino" name="trino-iceberg" rev="{VERSION}" transitive="false">
      <artifact name="trino-iceberg" type="zip" ext="zip"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
# Those of its documentation.
FLAGS = """\
--add-modules=jdk.incubator.vector -XX:+ExitOnOutOfMemoryError -XX:+ExplicitGCInvokesConcurrent
-XX:-OmitStackTraceInFastThrow -XX:ReservedCodeCacheSize=512M -XX:PerMethodRecompilationCutoff=10000
-XX:PerBytecodeRecompilationCutoff=10000 -XX:+EnableDynamicAgentLoading -Djdk.attach.allowAttachSelf=true
-Djdk.nio.maxCachedBufferSize=2000000 -Dfile.encoding=UTF-8
"""
CONFIG = """\
node.environment=tests
node.bind-ip=127.0.0.1
node.internal-address=127.0.0.1
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
coordinator=true
node-scheduler.include-coordinator=true
plugin.dir={home}/plugin
catalog.management=dynamic
catalog.store=memory
"""


class TrinoError(Exception):
    """What Trino says of a statement."""


class Trino:
    """It has no catalogs but those that statements create."""

    def __init__(self, folder: Path, heap: str = "2G", environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._heap = heap
        self._environment = {**os.environ, **(environment or {})}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, seconds: float = 240) -> None:
        home = installed()
        (self.folder / "etc").mkdir(parents=True, exist_ok=True)
        config = self.folder / "etc" / "config.properties"
        config.write_text(CONFIG.format(port=self.port, home=home, folder=self.folder), encoding="utf-8")
        command = [str(find_java().executable), f"-Xmx{self._heap}", *FLAGS.split(), "-cp", f"{home}/lib/*"]
        command += [f"-Dconfig={config}", "io.trino.server.TrinoServer"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=self._environment)
        deadline = time.monotonic() + seconds
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"Trino did not start:\n{self.log()[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def connect(
        self, catalog: str | None = None, schema: str | None = None, *, user: str = "tests", zone: str = "UTC"
    ) -> Connection:
        return Connection(self.port, catalog, schema, user=user, zone=zone)

    def _answers(self) -> bool:
        """It says that it has started before it knows that it is a node itself."""
        with closing(self.connect()) as connection:
            try:
                return connection.fetchall("SELECT 1") == [(1,)]
            except (OSError, HTTPException, ValueError, TrinoError):
                return False


class Connection:
    """By its REST protocol, on one connection that is kept."""

    def __init__(
        self,
        port: int,
        catalog: str | None = None,
        schema: str | None = None,
        *,
        user: str = "tests",
        zone: str = "UTC",
    ) -> None:
        self._http = HTTPConnection("127.0.0.1", port)
        self._headers = {
            "X-Trino-User": user,
            "X-Trino-Time-Zone": zone,
            "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",  # else it cuts off what is below a millisecond
            **({"X-Trino-Catalog": catalog} if catalog else {}),
            **({"X-Trino-Schema": schema} if schema else {}),
        }

    def close(self) -> None:
        self._http.close()

    def fetchall(self, query: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        page = self._ask("POST", "/v1/statement", query)
        while True:
            if "error" in page:
                raise TrinoError(": ".join(_causes(page["error"].get("failureInfo") or page["error"])))
            if page.get("data"):
                rows += typed(page["columns"], page["data"])
            if "nextUri" not in page:
                return rows
            page = self._ask("GET", urlsplit(page["nextUri"]).path)

    def _ask(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        self._http.request(method, path, body and body.encode(), self._headers)
        page: dict[str, Any] = json.loads(self._http.getresponse().read())
        return page


def _causes(failure: Mapping[str, Any]) -> Iterator[str]:
    """What the clients of Trino show at the first line, and below it."""
    yield str(failure.get("message"))
    if failure.get("cause"):
        yield from _causes(failure["cause"])


def typed(columns: Sequence[dict[str, Any]], data: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """The values as psycopg has them; JSON has no dates and no decimals."""
    makes = [_maker(column["typeSignature"]) for column in columns]
    by_column = zip(makes, zip(*data, strict=True), strict=True)
    found = (
        [None if value is None else make(value) for value in values] if make else values for make, values in by_column
    )
    return zip(*found, strict=True)


_Make = Callable[[Any], object]


def _instant(text: str) -> datetime:
    time, _, zone = text.rpartition(" ")
    return datetime.fromisoformat(time).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


_MAKES: dict[str, _Make] = {
    "date": date.fromisoformat,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "timestamp with time zone": _instant,
    "varbinary": base64.b64decode,
    "real": lambda number: struct.unpack("f", struct.pack("f", float(number)))[0],  # NaN is a text
    "double": float,
}


def _maker(signature: dict[str, Any]) -> _Make | None:
    name = signature["rawType"]
    if name == "array":
        (inner,) = (_maker(each["value"]) for each in signature["arguments"])
        return (lambda values: [None if each is None else inner(each) for each in values]) if inner else None
    if name == "row":
        names = [(each["value"]["fieldName"] or {}).get("name") for each in signature["arguments"]]
        return lambda values: dict(zip(names, values, strict=True))
    return _MAKES.get(name)


def find_java() -> java.Java:
    chosen = os.environ.get("BENCH_TRINO_JAVA_HOME")
    homes = [Path(chosen)] if chosen else sorted(Path("/usr/lib/jvm").glob("*"))
    fit = [found for home in homes if (found := java.inspect(home)) is not None and found.major >= JAVA]
    if not fit:
        raise NotInstalled(f"Trino needs a Java {JAVA} or newer; name its folder in BENCH_TRINO_JAVA_HOME")
    return fit[0]


def installed() -> Path:
    """The server with the one connector that is used, and with the driver of the lake's own catalog."""
    home = mere_home() / "bench" / f"trino-{VERSION}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(home.with_suffix(".lock")):
        if not home.is_dir():
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.parent) as scratch:
                _fetch(Path(scratch))
                _unpack(Path(scratch))
                (driver,) = jars.fetch([jars.SQLITE])
                shutil.copy(driver, Path(scratch, SERVER, "plugin", "iceberg"))
                Path(scratch, SERVER).replace(home)
    return home


def _fetch(scratch: Path) -> None:
    (scratch / "ivy.xml").write_text(IVY, encoding="utf-8")
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    command = [str(java.find().executable), "-jar", str(ivy), "-cache", str(scratch / "cache")]
    command += ["-ivy", str(scratch / "ivy.xml"), "-retrieve", str(scratch / "[artifact]-[revision].[ext]")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for name, expected in SHA256.items():
        if done.returncode or not (scratch / name).is_file():
            raise NotInstalled(f"{name} could not be fetched:\n{done.stdout[-2000:]}")
        with (scratch / name).open("rb") as archive:
            if hashlib.file_digest(archive, "sha256").hexdigest() != expected:
                raise NotInstalled(f"{name} is another than the one that was pinned")


def _unpack(scratch: Path) -> None:
    """Without the connectors and the functions that come with the server: they only make it start later."""
    with tarfile.open(scratch / f"{SERVER}.tar.gz") as archive:
        wanted = [member for member in archive if not member.name.startswith(f"{SERVER}/plugin/")]
        archive.extractall(scratch, wanted, filter="data")
    with zipfile.ZipFile(scratch / f"{ICEBERG}.zip") as archive:
        archive.extractall(scratch)
    (scratch / SERVER / "plugin").mkdir(exist_ok=True)
    (scratch / ICEBERG).rename(scratch / SERVER / "plugin" / "iceberg")
