"""Every example gives the same tables in a JVM of this process, over REST, on a warm engine, and on somebody else's
server."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mere.engine import session as module
from mere.engine.driver import ICEBERG_EXTENSIONS
from mere.engine.jvm.classpath import spark_home
from mere.engine.jvm.jars import fetch
from mere.engine.jvm.java import find
from mere.engine.warm import engine as warm
from mere.lake.lake import Lake
from mere.names import QUARANTINE
from tests.cli.test_cli import Shell

EXAMPLES = sorted(file.parent.name for file in (Path(__file__).resolve().parents[2] / "examples").glob("*/mere.yaml"))
# Each is built three times, and starts an engine. Every day there is tests/engine/test_all_kinds.py.
pytestmark = pytest.mark.long
# Columns that tell of the run and not of the data.
OF_THE_RUN = {
    *("_run", "_at", "_loaded_at", "run", "load", "loaded_at", "modified", "version"),
    "valid_from",
    "valid_to",
}
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
Tables = dict[str, tuple[int, str]]


def built(folder: Path, example: str, spark: str | None = None) -> Tables:
    """The number of rows and a hash of each table and view, after `mere run` with other settings of Spark."""
    Shell(folder.parent)("init", folder.name, "--example", example)
    if spark is not None:
        file = folder / "mere.yaml"
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(r"    spark:\n(      .*\n)+", f"    spark: {{{spark}}}\n", text), encoding="utf-8")
    said = Shell(folder)("run").stdout
    assert ("Spark: " in said) == (spark is not None and "catalog" not in spark), "it is told where Spark is"
    return tables_of(folder)


def tables_of(folder: Path) -> Tables:
    with Lake.open(folder / "lake") as lake:
        return tables_in(lake)


def tables_in(lake: Lake) -> Tables:
    return {str(table): _hash(lake, str(table)) for table in lake.at("main")}


def _hash(lake: Lake, table: str) -> tuple[int, str]:
    with lake.sql(f"SELECT * FROM {table}") as result:
        names = [column.name for column in result.columns]
        kept = [at for at, name in enumerate(names) if name not in OF_THE_RUN]
        rows = sorted(repr([row[at] for at in kept]) for row in result.rows())
    return len(rows), hashlib.sha256("\n".join([*names, *rows]).encode()).hexdigest()


@pytest.fixture(params=EXAMPLES)
def classic(request: pytest.FixtureRequest, tmp_path: Path, warm_jvm: None) -> tuple[str, Tables]:
    return request.param, built(tmp_path / "classic", request.param)


def test_a_warm_engine_and_a_server_make_the_same_tables(
    classic: tuple[str, Tables], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_driver", None)  # as in a new process, which has no JVM of its own
    example, tables = classic
    assert len(tables) > 1
    assert all(rows for name, (rows, _) in tables.items() if not name.endswith(QUARANTINE))
    folder = tmp_path / "warm"
    try:
        assert built(folder, example, "memory: 1g, keep_warm: 5m") == tables
        assert "nothing to do" in Shell(folder)("run").stdout
        if example != "orders":  # it takes a while; tests/engine/test_all_kinds.py refreshes every day
            Shell(folder)("run", "--full-refresh")
            assert tables_of(folder) == tables
        engine = warm.running(str(folder / "lake"))
        assert engine is not None
        monkeypatch.setenv(TOKEN, engine.token)
        address = f"sc://localhost:{engine.address.partition(':')[2]}"
        assert built(tmp_path / "remote", example, f"remote: '{address}'") == tables
    finally:
        warm.stop(str(folder / "lake"), now=True)


def test_a_spark_that_knows_no_database_makes_the_same_tables(classic: tuple[str, Tables], tmp_path: Path) -> None:
    example, tables = classic
    folder = tmp_path / "rest"
    assert built(folder, example, "memory: 1g, catalog: rest") == tables
    assert "nothing to do" in Shell(folder)("run").stdout
    Shell(folder)("run", "--full-refresh")
    assert tables_of(folder) == tables


@contextmanager
def server_started_by_hand(folder: Path) -> Iterator[str]:
    """As the page on the engine shows it: nothing of mere's is in it but the files of the jars."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jars = [str(path) for path in fetch()]
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", "local[2]", "--driver-memory", "1g"),
        *("--jars", ",".join(jars), "--driver-class-path", os.pathsep.join(jars)),
        *("--conf", f"spark.sql.extensions={ICEBERG_EXTENSIONS}", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        "spark-internal",
    ]
    environment = {**os.environ, "JAVA_HOME": str(find().home), "SPARK_HOME": str(spark_home())}
    log = folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 120
        while True:
            with closing(socket.socket()) as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def test_a_server_that_mere_has_not_started_makes_the_same_tables(
    classic: tuple[str, Tables], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_driver", None)
    example, tables = classic
    with server_started_by_hand(tmp_path) as address:
        assert built(tmp_path / "remote", example, f"remote: '{address}'") == tables
