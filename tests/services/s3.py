"""A real S3 server for the tests: versitygw where it is installed, else S3Proxy, a jar that is fetched once."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from mere.config import S3Settings, mere_home
from mere.engine.jvm import java
from mere.engine.jvm.classpath import spark_home
from mere.engine.jvm.work import QUICK_COMPILER
from mere.engine.lock import exclusive
from tests.services.postgres import free_port

ACCESS_KEY = "the-tests"
SECRET_KEY = "s3cret-key-of-the-tests"

_S3PROXY = "s3proxy-4.1.0-jar-with-dependencies.jar"
_SHA256 = "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d"
_IVY = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="mere" module="tests"/>
  <dependencies>
    <dependency org="org.gaul" name="s3proxy" rev="4.1.0" transitive="false">
      <artifact name="s3proxy" type="jar" ext="jar" m:classifier="jar-with-dependencies"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


class S3Server:
    """Start it with `start`. Buckets are made with `new_bucket`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def settings(self) -> S3Settings:
        return S3Settings(ACCESS_KEY, SECRET_KEY, endpoint=self.endpoint)

    def start(self) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        installed = shutil.which("versitygw")
        command = self._versitygw(installed, data) if installed else self._s3proxy(data)
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **keys})
        deadline = time.monotonic() + 60
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the S3 server did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def new_bucket(self, name: str) -> str:
        """By pyarrow: neither mere nor its engines make buckets."""
        from pyarrow.fs import S3FileSystem

        S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir(name)
        return f"s3://{name}"

    def _versitygw(self, binary: str, data: Path) -> list[str]:
        return [binary, "--port", f"127.0.0.1:{self.port}", "--region", "us-east-1", "posix", str(data)]

    def _s3proxy(self, data: Path) -> list[str]:
        settings = self.folder / "s3proxy.properties"
        settings.write_text(
            f"s3proxy.endpoint={self.endpoint}\n"
            "s3proxy.authorization=aws-v2-or-v4\n"
            f"s3proxy.identity={ACCESS_KEY}\n"
            f"s3proxy.credential={SECRET_KEY}\n"
            "s3proxy.ignore-unknown-headers=true\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={data}\n"
            "jclouds.identity=none\n"
            "jclouds.credential=none\n"
        )
        # Compiled quickly and never again: it serves a few thousand requests.
        flags = [*QUICK_COMPILER, "-XX:+UseSerialGC", "-Xmx256m"]
        return [str(java.find().executable), *flags, "-jar", str(_jar()), "--properties", str(settings)]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
        except OSError:
            return False
        return True


def _jar() -> Path:
    """S3Proxy's, fetched with the Ivy inside pyspark: it knows where Maven's artifacts are."""
    folder = mere_home() / "services"
    jar = folder / _S3PROXY
    if not jar.is_file():
        with exclusive(folder / ".lock"):
            if not jar.is_file():
                _fetch(jar)
    return jar


def _fetch(jar: Path) -> None:
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=jar.parent) as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_IVY)
        command = [str(java.find().executable), "-jar", str(ivy), "-ivy", str(module), "-cache", f"{scratch}/cache"]
        pattern = f"{scratch}/[artifact]-[revision](-[classifier]).[ext]"
        subprocess.run([*command, "-retrieve", pattern], check=True, capture_output=True)
        fetched = Path(scratch, _S3PROXY)
        assert hashlib.sha256(fetched.read_bytes()).hexdigest() == _SHA256, "this is another S3Proxy"
        fetched.replace(jar)
