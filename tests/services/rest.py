"""A real Iceberg REST catalog for the tests: the server of Iceberg's own compatibility kit, on a SQLite file.

Its jars come from their Maven coordinates, through the Ivy that is part of pyspark: 20 MB, fetched once.
"""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from mere.engine.jvm import jars, java
from mere.engine.jvm.classpath import spark_home
from mere.engine.jvm.work import QUICK_COMPILER
from tests.services.ivy import fetched
from tests.services.postgres import free_port

_VERSION = "1.10.1"  # the last whose server runs on Jetty 11
_JETTY = "11.0.26"
_DEPENDENCIES = f"""
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="{_VERSION}">
      <artifact name="iceberg-core" type="jar" ext="jar"/>
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{_VERSION}" transitive="false">
      <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/>
    </dependency>
    <dependency org="org.eclipse.jetty" name="jetty-servlet" rev="{_JETTY}"/>
"""


class RestServer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse = folder / "warehouse"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.warehouse.mkdir(parents=True)
        hadoop = sorted((spark_home() / "jars").glob("hadoop-client-*.jar"))
        path = [*sorted(fetched(f"rest-{_VERSION}", _DEPENDENCIES).glob("*.jar")), *jars.fetch([jars.SQLITE]), *hadoop]
        settings = {
            "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
            "CATALOG_URI": f"jdbc:sqlite:{self.folder / 'rest.db'}",
            "CATALOG_JDBC_SCHEMA__VERSION": "V1",
            "CATALOG_WAREHOUSE": str(self.warehouse),
            "CATALOG_REST_PORT": str(self.port),
        }
        flags = ["-Xmx256m", *QUICK_COMPILER, "-XX:+UseSerialGC"]
        command = [str(java.find().executable), *flags, "-cp", os.pathsep.join(map(str, path))]
        command.append("org.apache.iceberg.rest.RESTCatalogServer")
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, **settings}
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + 60
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the REST catalog did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
