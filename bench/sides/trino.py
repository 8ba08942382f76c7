"""A Trino of one node for one run of a side, from its Maven coordinates: 540 MB, fetched once by the Ivy of pyspark.

It needs a Java 24 or newer, which Spark cannot have: the one that BENCH_TRINO_JAVA_HOME names, or one of the system's.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime
from decimal import Decimal
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.peers import NotInstalled
from bench.sides.gateway import Row
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
  <info organisation="mere" module="bench"/>
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
# Those of its documentation, with a heap as large as what Postgres has for its buffers.
FLAGS = """\
-Xmx2G --add-modules=jdk.incubator.vector -XX:+ExitOnOutOfMemoryError -XX:+ExplicitGCInvokesConcurrent
-XX:-OmitStackTraceInFastThrow -XX:ReservedCodeCacheSize=512M -XX:PerMethodRecompilationCutoff=10000
-XX:PerBytecodeRecompilationCutoff=10000 -XX:+EnableDynamicAgentLoading -Djdk.attach.allowAttachSelf=true
-Djdk.nio.maxCachedBufferSize=2000000 -Dfile.encoding=UTF-8
"""
CONFIG = """\
node.environment=bench
node.bind-ip=127.0.0.1
node.internal-address=127.0.0.1
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
coordinator=true
node-scheduler.include-coordinator=true
plugin.dir={home}/plugin
catalog.config-dir={folder}/etc/catalog
"""
# Its file system for this machine reads file:///… and nothing without a scheme.
CATALOG = """\
connector.name=iceberg
iceberg.catalog.type=jdbc
iceberg.jdbc-catalog.catalog-name=main
iceberg.jdbc-catalog.driver-class=org.sqlite.JDBC
iceberg.jdbc-catalog.connection-url=jdbc:sqlite:{catalog}
iceberg.jdbc-catalog.default-warehouse-dir=file://{folder}
fs.native-local.enabled=true
local.location=/
"""


HEADERS = {
    "X-Trino-User": "bench",
    "X-Trino-Catalog": "main",
    "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",  # else it cuts off what is below a millisecond
}
VALUES: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
}


@contextmanager
def running(folder: Path, catalog: Path) -> Iterator[int]:
    """Its port. It has the tables of `main` in a catalog that is a SQLite file; what it writes is in the folder."""
    home, port = installed(), free_port()
    (folder / "etc" / "catalog").mkdir(parents=True, exist_ok=True)
    config = folder / "etc" / "config.properties"
    config.write_text(CONFIG.format(port=port, home=home, folder=folder), encoding="utf-8")
    (folder / "etc" / "catalog" / "main.properties").write_text(
        CATALOG.format(catalog=catalog, folder=folder), encoding="utf-8"
    )
    command = [str(find_java().executable), *FLAGS.split(), "-cp", f"{home}/lib/*", f"-Dconfig={config}"]
    command.append("io.trino.server.TrinoServer")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        deadline = time.monotonic() + 180
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Trino did not start:\n{(folder / 'log').read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    """It says that it has started before it knows that it is a node itself."""
    with closing(Connection(port)) as connection:
        try:
            return connection.fetchall("SELECT 1") == [(1,)]
        except (OSError, HTTPException, ValueError, RuntimeError):
            return False


class Connection:
    def __init__(self, port: int) -> None:
        self._http = HTTPConnection("127.0.0.1", port)

    def close(self) -> None:
        self._http.close()

    def fetchall(self, query: str) -> list[Row]:
        rows: list[Row] = []
        page = self._ask("POST", "/v1/statement", query)
        while True:
            if "error" in page:
                raise RuntimeError(page["error"]["message"])
            if page.get("data"):
                rows += typed(page["columns"], page["data"])
            if "nextUri" not in page:
                return rows
            page = self._ask("GET", urlsplit(page["nextUri"]).path)

    def _ask(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        self._http.request(method, path, body and body.encode(), HEADERS)
        page: dict[str, Any] = json.loads(self._http.getresponse().read())
        return page


def typed(columns: Sequence[dict[str, Any]], data: Sequence[Sequence[Any]]) -> Iterator[Row]:
    """The values as psycopg has them; JSON has no dates and no decimals. No column of these kinds has NULLs here."""
    makes = [VALUES.get(column["typeSignature"]["rawType"]) for column in columns]
    by_column = zip(makes, zip(*data, strict=True), strict=True)
    return zip(*(map(make, values) if make else values for make, values in by_column), strict=True)


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
