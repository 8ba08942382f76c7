"""A Nessie for one run of a side, from its Maven coordinates: 276 MB, fetched once by the Ivy of pyspark.

It needs a Java 21 or newer: the one that BENCH_NESSIE_JAVA_HOME names, or one of the system's.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from bench.peers import NotInstalled
from mere.config import mere_home
from mere.engine.jvm import java
from mere.engine.jvm.classpath import spark_home
from mere.engine.lock import exclusive
from tests.services.postgres import free_port
from tests.services.s3 import ACCESS_KEY, SECRET_KEY

VERSION = "0.108.8"
JAVA = 21
JAR = f"nessie-quarkus-{VERSION}-runner.jar"
SHA256 = "a58ebde6dc6df68266433d1d087c6cc497103df7a71a0275575f6fca71b167f7"
IVY = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="mere" module="bench"/>
  <dependencies>
    <dependency org="org.projectnessie.nessie" name="nessie-quarkus" rev="{VERSION}" transitive="false">
      <artifact name="nessie-quarkus" type="jar" ext="jar" m:classifier="runner"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def _rocksdb(folder: Path) -> dict[str, object]:
    """In the folder."""
    return {
        "nessie.version.store.type": "ROCKSDB",
        "nessie.version.store.persist.rocks.database-path": folder / "nessie",
    }


def _postgres(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    source = "quarkus.datasource.postgresql"
    return {
        "nessie.version.store.type": "JDBC2",
        "nessie.version.store.persist.jdbc.datasource": "postgresql",
        f"{source}.jdbc.url": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        f"{source}.username": parts.username,
        f"{source}.password": parts.password,
    }


@contextmanager
def running(folder: Path, warehouse: str, s3: str, database: str | None = None) -> Iterator[int]:
    """Its port. It keeps its commits in a Postgres, or in a RocksDB in the folder."""
    port = free_port()
    secret = "bench-keys"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.management.enabled": "false",
        **(_postgres(database) if database else _rocksdb(folder)),
        "nessie.catalog.default-warehouse": "bench",
        "nessie.catalog.warehouses.bench.location": warehouse,
        "nessie.catalog.service.s3.default-options.endpoint": s3,
        "nessie.catalog.service.s3.default-options.region": "us-east-1",
        "nessie.catalog.service.s3.default-options.path-style-access": "true",
        "nessie.catalog.service.s3.default-options.request-signing-enabled": "false",
        "nessie.catalog.service.s3.default-options.access-key": f"urn:nessie-secret:quarkus:{secret}",
        f"{secret}.name": ACCESS_KEY,
        f"{secret}.secret": SECRET_KEY,
    }
    flags = ["-Xmx1g", *(f"-D{name}={value}" for name, value in settings.items())]
    command = [str(find_java().executable), *flags, "-jar", str(installed())]
    with (folder / "nessie.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        deadline = time.monotonic() + 180
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Nessie did not start:\n{(folder / 'nessie.log').read_text()[-4000:]}")
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
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/api/v2/config")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def find_java() -> java.Java:
    chosen = os.environ.get("BENCH_NESSIE_JAVA_HOME")
    homes = [Path(chosen)] if chosen else sorted(Path("/usr/lib/jvm").glob("*"))
    fit = [found for home in homes if (found := java.inspect(home)) is not None and found.major >= JAVA]
    if not fit:
        raise NotInstalled(f"Nessie needs a Java {JAVA} or newer; name its folder in BENCH_NESSIE_JAVA_HOME")
    return fit[0]


def installed() -> Path:
    found = mere_home() / "bench" / JAR
    with exclusive(found.with_suffix(".lock")):
        if not found.is_file():
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=found.parent) as scratch:
                _fetch(Path(scratch)).replace(found)
    return found


def _fetch(scratch: Path) -> Path:
    (scratch / "ivy.xml").write_text(IVY, encoding="utf-8")
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    command = [str(java.find().executable), "-jar", str(ivy), "-cache", str(scratch / "cache")]
    command += ["-ivy", str(scratch / "ivy.xml")]
    command += ["-retrieve", str(scratch / "[artifact]-[revision](-[classifier]).[ext]")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (scratch / JAR).is_file():
        raise NotInstalled(f"{JAR} could not be fetched:\n{done.stdout[-2000:]}")
    with (scratch / JAR).open("rb") as archive:
        if hashlib.file_digest(archive, "sha256").hexdigest() != SHA256:
            raise NotInstalled(f"{JAR} is another than the one that was pinned")
    return scratch / JAR
