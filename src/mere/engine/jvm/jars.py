"""The jars that Spark needs besides its own: pinned, fetched once, never resolved again.

Spark's own resolver fetches them from their Maven coordinates, so no host is named here and the user's settings for
mirrors and proxies hold (docs/engine.md). What it brings is checked against the pin and moved into place atomically.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mere.config import mere_home
from mere.engine.jvm import java as jvm
from mere.engine.jvm.work import Work
from mere.engine.lock import exclusive
from mere.errors import JarsUnavailable

_REMEDY = (
    "Connect this machine once and try again; from then on mere starts offline. A mirror or a proxy is set as for"
    " Spark itself: see the page on the engine in the docs."
)
_OFFLINE = re.compile(
    r"Host \S+ not found|UnknownHost|Connection refused|timed out|No route to host|unreachable|Unable to tunnel",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Jar:
    """A Maven coordinate (group:artifact:version) and the SHA-256 of its jar."""

    coordinate: str
    sha256: str

    @property
    def name(self) -> str:
        return self.coordinate.split(":")[1]

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def resolved_name(self) -> str:
        """The name that Spark's resolver gives to the file."""
        return f"{self.coordinate.split(':')[0]}_{self.file_name}"


ICEBERG = Jar(
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
SQLITE = Jar(
    "org.xerial:sqlite-jdbc:3.53.4.0",
    "bcb1f51e36f940867e83342f9efbf5968ac44a6bef4d397bb4af7b17b45cd2fb",
)
POSTGRES = Jar(
    "org.postgresql:postgresql:42.7.9",
    "88f1fc3992e80ec3b048f798030e9a014aa4783c40afb56d3e7a87ee0adf166f",
)
# Iceberg's S3FileIO with all of AWS's SDK that it needs.
AWS = Jar(
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)
# Hadoop's client of S3, for files of a landing that Spark itself reads; the rest of the SDK is in Iceberg's bundle.
HADOOP = (
    Jar("org.apache.hadoop:hadoop-aws:3.4.2", "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9"),
    Jar(
        "software.amazon.awssdk:s3-transfer-manager:2.54.17",
        "7bef0ea4efd5e0860bab63e08317040951edb51b72a5be734284c28b8324ab87",
    ),
    Jar(
        "software.amazon.awssdk:apache-client:2.54.17",
        "0b00ae3d55c3d1213ca47b5651dc4c2a0080fc9b6192dde3d53c3da6c1811bcb",
    ),
)
LOCAL = (ICEBERG, SQLITE)
# What these declare, and Spark or Iceberg's bundle has: half a gigabyte. Spark has its own slf4j, too, and a second one
# on the class path would only warn.
_HAD = (
    "org.slf4j:slf4j-api",
    *(f"software.amazon.awssdk:{name}" for name in ("bundle", "s3", "crt-*", "sdk-core", "aws-*", "http-*", "json-*")),
    *(f"software.amazon.awssdk:{name}" for name in ("utils*", "regions", "auth", "profiles", "protocol*", "netty-*")),
    "software.amazon.s3.analyticsaccelerator:*",
    "org.wildfly.openssl:*",
)


def drivers(uri: str) -> tuple[Jar, ...]:
    """What a session needs beside the local jars to reach a catalog at that JDBC address."""
    return (POSTGRES,) if uri.startswith("jdbc:postgresql:") else ()


def needed(properties: Mapping[str, str]) -> tuple[Jar, ...]:
    """What a session needs beside the local jars for a catalog with these properties."""
    files = (AWS,) if properties.get("io-impl", "").startswith("org.apache.iceberg.aws.") else ()
    return (*drivers(properties.get("uri", "")), *files)


def cached(jar: Jar) -> Path:
    """Where mere keeps the jar once it was fetched."""
    return mere_home() / "jars" / jar.file_name


def is_intact(jar: Jar) -> bool | None:
    """Whether what is kept is the pinned jar; None: it was not fetched yet."""
    return _sha256(cached(jar)) == jar.sha256 if cached(jar).is_file() else None


def fetch(jars: Sequence[Jar] = LOCAL) -> list[Path]:
    """The files of the jars, fetched if they are not in mere's cache yet."""
    folder = mere_home() / "jars"
    paths = [cached(jar) for jar in jars]
    if all(path.is_file() for path in paths):
        return paths
    try:
        # Whoever comes second waits here and then finds the files.
        with exclusive(folder / ".lock"):
            missing = [jar for jar in jars if not (folder / jar.file_name).is_file()]
            if missing:
                _fetch_into(folder, missing)
    except OSError as exc:
        raise JarsUnavailable(
            f"The jars for Spark cannot be kept in {folder}: {exc.strerror or exc}.",
            remedy="Set MERE_HOME to a folder that you may write to.",
        ) from exc
    return paths


def _fetch_into(folder: Path, jars: Sequence[Jar]) -> None:
    # In the same file system as the folder, so that moving a file is atomic.
    scratch = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
    try:
        resolved = _resolve(jars, scratch)
        for jar in jars:
            _check(jar, resolved / jar.resolved_name)
        for jar in jars:
            (resolved / jar.resolved_name).replace(folder / jar.file_name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check(jar: Jar, path: Path) -> None:
    if not path.is_file():
        raise JarsUnavailable(f"{jar.coordinate} was resolved, but its jar did not arrive.", remedy=_REMEDY)
    found = _sha256(path)
    if found != jar.sha256:
        raise JarsUnavailable(
            f"{jar.coordinate} is not the jar that mere was built with, so it was not kept.\n"
            f"  expected SHA-256 {jar.sha256}\n"
            f"  found    SHA-256 {found}",
            remedy="Something between this machine and the Maven repository changes files: a mirror or a proxy.",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _resolve(jars: Sequence[Jar], scratch: Path) -> Path:
    """Run Spark's resolver; the folder with its files."""
    from mere.engine.jvm.classpath import spark_home

    java = jvm.find()
    home = spark_home()
    command = [
        str(java.executable),
        *Work.SHORT.value,
        "org.apache.spark.deploy.SparkSubmit",
        *("--packages", ",".join(jar.coordinate for jar in jars)),
        *("--exclude-packages", ",".join(_HAD)),
        *("--conf", f"spark.jars.ivy={scratch}"),
        # A main program that waits for its standard input to end, which it does at once.
        "pyspark-shell",
    ]
    environment = {
        **os.environ,
        "CLASSPATH": f"{home / 'jars'}/*",
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "connection"),
    }
    run = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )  # fmt: skip
    if run.returncode or not (scratch / "jars").is_dir():
        raise _unresolved(jars, run.stdout + run.stderr)
    return scratch / "jars"


def _unresolved(jars: Sequence[Jar], output: str) -> JarsUnavailable:
    wanted = ", ".join(jar.coordinate for jar in jars)
    lost = re.findall(r"unresolved dependency: ([^\n]+)", output) or re.findall(r"download failed: ([^\n]+)", output)
    if _OFFLINE.search(output):
        reason = "the Maven repositories cannot be reached from here"
    elif lost:
        reason = f"not in the Maven repositories that were asked: {lost[0].strip()}"
    else:
        reason = next((line for line in reversed(output.splitlines()) if line.strip()), "no reason was given")
    return JarsUnavailable(f"The jars for Spark could not be fetched ({wanted}): {reason}.", remedy=_REMEDY)
