"""Where Spark works, if not in this process: a master and its workers, or a server of somebody else; and the landing,
from which it reads the files of sources."""

from __future__ import annotations

import posixpath
import secrets
from pathlib import Path

from mere.config import is_s3
from mere.doctor.context import Subject
from mere.doctor.findings import Verdict
from mere.engine.cluster import master_of, python_of
from mere.engine.connect import Connection
from mere.engine.translate import explain, is_from_spark
from mere.lake.storage.s3 import hadoop_options
from mere.lake.store.health import PROBE
from mere.text.words import counted

_TASKS = 16  # so many that each of a few workers gets one
_JARS = "A server that mere has not started needs Hadoop's client: --packages org.apache.hadoop:hadoop-aws:3.4.2"
_TEXT = b"what mere doctor wrote\n"


def connect(subject: Subject) -> Verdict:
    """The server at `remote`."""
    url = str(subject.settings.remote)
    connection = Connection.to_remote(url)
    try:
        version = connection.spark.version
    finally:
        connection.close()
    if version.split(".")[:2] != ["4", "1"]:
        return Verdict.failed(f"{url} is Spark {version}", "Start it with Spark 4.1, for which mere's jars are made.")
    return Verdict(f"{url} answers: Spark {version}, with Iceberg's extensions")


def master(subject: Subject) -> Verdict:
    found = master_of(subject.settings)
    assert found is not None
    found.check()
    return Verdict(f"{found.url} answers" if found.addresses else f"{found.url}, by the files of HADOOP_CONF_DIR")


def workers(subject: Subject) -> Verdict:
    """Python functions run there, on the machines that Spark has."""

    def about(parts):  # type: ignore[no-untyped-def] # it goes where mere is not
        import platform

        import pyarrow

        for _ in parts:
            where = {"host": [platform.node()], "python": [platform.python_version()]}
            yield pyarrow.RecordBatch.from_pydict(where)

    spark = subject.session.spark
    try:
        rows = spark.range(0, _TASKS, 1, _TASKS).mapInArrow(about, "host string, python string").distinct().collect()
    except Exception as error:
        if is_from_spark(error):
            failure = explain(error)
            return Verdict.failed(failure.message, failure.remedy or _install(subject))
        raise
    hosts = {row.host for row in rows}
    versions = ", ".join(sorted({row.python for row in rows}))
    return Verdict(f"Python {versions} on {counted(len(hosts), 'machine')}")


def _install(subject: Subject) -> str:
    python = Path(python_of(subject.settings)).name
    return f"Install pyarrow and pandas for {python} on every worker, or name another Python there by PYSPARK_PYTHON."


def landing(subject: Subject) -> Verdict:
    """As a source's file goes: mere writes it, and Spark reads it, where it does so itself."""
    assert subject.landing is not None
    place = subject.landing.location
    folder = posixpath.join(place, PROBE, secrets.token_hex(8))
    location, storage = f"{folder}/probe.txt", subject.lake.storage
    storage.write_new(location, _TEXT)
    try:
        if storage.read(location) != _TEXT:
            return Verdict.failed(f"{location} is not what was written there", "Please report this.")
        if not subject.is_elsewhere or not is_s3(location):
            return Verdict(f"{place} can be written and read")
        rest = subject.settings.rest
        if rest is not None and rest.signed:
            return Verdict.warn(
                "Spark has no keys for S3 (`signed`), so it cannot read the files of sources",
                "Take `signed` out of `spark:` in mere.yaml, or load sources with a Spark on this machine.",
            )
        return _read_by_spark(subject, location)
    finally:
        storage.delete(location)


def _read_by_spark(subject: Subject, location: str) -> Verdict:
    s3 = subject.lake.storage.s3
    options = hadoop_options(s3) if s3 else {}
    try:
        found = subject.session.spark.read.options(**options).text(f"s3a://{location.partition('://')[2]}").collect()
    except Exception as error:
        if is_from_spark(error):
            return Verdict.failed(
                f"Spark cannot read {location}: {explain(error).message}",
                _JARS if subject.settings.remote else "Its workers need a way to the S3 server.",
            )
        raise
    assert [row.value for row in found] == [_TEXT.decode().strip()]
    return Verdict("a file was written here, and read by Spark")
