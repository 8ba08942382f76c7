"""A cluster: what is said of one that is not there, and the example on a master with two workers."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mere import Lake, session
from mere.config import S3Settings
from mere.engine import session as module
from mere.engine.cluster import Master, python_of
from mere.engine.translate import explain
from mere.errors import EngineError
from mere.sparkconfig import SparkSettings
from tests.cli.test_cli import Shell
from tests.examples.test_connect import EXAMPLES, tables_in, tables_of
from tests.services.cluster import SparkCluster
from tests.services.postgres import Postgres
from tests.services.s3 import S3Server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start()
    yield cluster
    cluster.stop()


def mere(*arguments: str, folder: Path, **more: str) -> str:
    """In a process of its own: the suite's has a JVM that knows no cluster."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **more}
    command = [sys.executable, "-m", "mere", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def made(folder: Path, example: str, spark: str | None = None) -> Path:
    """The example's project, with other settings of Spark."""
    Shell(folder.parent)("init", folder.name, "--example", example)
    if spark is not None:
        file = folder / "mere.yaml"
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(r"    spark:\n(      .*\n)+", f"    spark: {{{spark}}}\n", text), encoding="utf-8")
    return folder


# What is said: no cluster.


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("k8s://https://k.example.org", [("k.example.org", 443)]),
        ("k8s://https://k.example.org:6443", [("k.example.org", 6443)]),
        ("k8s://k.example.org:6443", [("k.example.org", 6443)]),
        ("yarn", []),
    ],
)
def test_a_master_names_its_addresses(url: str, addresses: list[tuple[str, int]]) -> None:
    assert Master(url).addresses == addresses


def test_a_master_that_is_not_there_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_driver", None)
    settings = SparkSettings(master="spark://127.0.0.1:1")
    with (
        Lake.create(tmp_path / "lake") as lake,
        pytest.raises(EngineError, match=r"No master of Spark answers at spark"),
    ):
        session(lake, settings=settings)


def test_yarn_needs_hadoops_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(EngineError, match="Hadoop's own files") as caught:
        Master("yarn").check()
    assert "export HADOOP_CONF_DIR=" in str(caught.value.remedy)


def test_workers_have_the_same_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert python_of(SparkSettings()) == sys.executable
    assert python_of(SparkSettings(master="yarn")) == f"python3.{sys.version_info.minor}"
    said = explain(
        _PythonFailed(
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.12, PySpark"
            " cannot run with different minor versions."
        )
    )
    assert said.message.startswith("Spark's workers run Python 3.9, and this is Python 3.12")
    assert said.remedy == "Name a Python 3.12 that every worker has: export PYSPARK_PYTHON=python3.12"
    said = explain(_PythonFailed('Cannot run program "python3.12": error=2, No such file or directory'))
    assert said.message == "A worker of Spark has no python3.12, which runs Python functions."


class _PythonFailed(Exception):
    __module__ = "pyspark.errors.exceptions.captured"


# On a cluster.


@dataclass(frozen=True)
class OnS3:
    """The example's project, with a lake that workers reach by themselves, and a source whose file they cannot see."""

    folder: Path
    location: str
    catalog: str
    s3: S3Settings

    @classmethod
    def made(cls, folder: Path, cluster: SparkCluster, postgres: Postgres, s3: S3Server) -> OnS3:
        name = f"cluster_{secrets.token_hex(4)}"
        bucket = s3.new_bucket(name.replace("_", "-")).removeprefix("s3://")
        made(folder, "orders")
        (folder / "mere.yaml").write_text(
            f"name: orders\nvars:\n  vat: 0.20\nprofiles:\n  local:\n    lake: s3://{bucket}/lake\n"
            f"    catalog: ${{LAKE_CATALOG}}\n    s3: {{endpoint: '{s3.endpoint}'}}\n"
            f"    spark: {{master: '{cluster.url}'}}\n"
        )
        (folder / "sources" / "bronze").mkdir(parents=True)
        (folder / "sources" / "bronze" / "cities.yaml").write_text("files: data/*.csv\ncolumns: {id: bigint}\n")
        (folder / "data").mkdir()
        (folder / "data" / "cities.csv").write_text("id,city\n1,Oslo\nx,Bern\n3,Rome\n")
        (folder / "helper.py").write_text("def twice(number):\n    return 2 * number\n")
        (folder / "models" / "gold" / "twice.py").write_text(_PYTHON_MODEL)
        found = cls(folder, f"s3://{bucket}/lake", postgres.new_database(name), s3.settings)
        Lake.create(found.location, catalog=found.catalog, s3=found.s3).close()
        return found

    def mere(self, *arguments: str) -> str:
        keys = {"AWS_ACCESS_KEY_ID": self.s3.access_key, "AWS_SECRET_ACCESS_KEY": self.s3.secret_key}
        return mere(*arguments, folder=self.folder, **keys, LAKE_CATALOG=self.catalog)

    def open(self) -> Lake:
        return Lake.open(self.location, catalog=self.catalog, s3=self.s3)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_example_is_the_same_on_a_cluster_with_what_only_the_driver_has(
    cluster: SparkCluster, tmp_path: Path, warm_jvm: None, postgres_server: Postgres, s3_server: S3Server
) -> None:
    there = OnS3.made(tmp_path / "there", cluster, postgres_server, s3_server)
    there.mere("run")
    local = made(tmp_path / "local", "orders")
    Shell(local)("run")
    with there.open() as lake:
        found = tables_in(lake)
        assert found.pop("gold.twice")[0] == found["silver.orders"][0]
        assert not list(lake.sql("SELECT * FROM gold.twice WHERE twice <> 2 * order_id").rows())
        # Bad rows have the lines of the file, good ones were read in the landing.
        assert sorted(lake.sql("SELECT id, city FROM bronze.cities").rows()) == [(1, "Oslo"), (3, "Rome")]
        assert list(lake.sql("SELECT _line FROM bronze.cities__quarantine").rows()) == [(3,)]
        landed = [each.location for each in lake.storage.files(f"{there.location}/landing")]
        assert [each.split("/lake/landing/")[1].split("/")[:3] for each in landed] == [["bronze", "cities", "all"]]
        assert {name: each for name, each in found.items() if not name.startswith("bronze.cities")} == tables_of(local)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_doctor_looks_at_the_master_the_workers_and_the_landing(
    cluster: SparkCluster, tmp_path: Path, postgres_server: Postgres, s3_server: S3Server
) -> None:
    there = OnS3.made(tmp_path / "there", cluster, postgres_server, s3_server)
    found = {each["check"]: each for each in json.loads(there.mere("doctor", "--json"))["findings"]}
    assert found["master"]["what"] == f"{cluster.url} answers"
    assert found["workers"]["what"] == f"Python {platform.python_version()} on 1 machine"
    assert found["landing"]["what"] == "a file was written here, and read by Spark"


_PYTHON_MODEL = """
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf
from mere import model, table

@model("gold.twice", kind="full")
def twice(orders: DataFrame = table("silver.orders")) -> DataFrame:
    @udf("long")
    def doubled(number):
        from helper import twice  # found where it runs
        return twice(number)

    return orders.select("order_id", doubled("order_id").alias("twice"))
"""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("example", [each for each in EXAMPLES if each != "orders"])
def test_every_example_is_the_same_on_a_cluster(
    cluster: SparkCluster, tmp_path: Path, example: str, warm_jvm: None
) -> None:
    local = made(tmp_path / "local", example)
    Shell(local)("run")
    there = made(tmp_path / "there", example, f"master: '{cluster.url}'")
    mere("run", folder=there)
    assert tables_of(there) == tables_of(local)


SLOW = """
from pyspark.sql import DataFrame
from mere import model, table

@model("gold.slow", kind="full")
def slow(orders: DataFrame = table("silver.orders")) -> DataFrame:
    def waited(parts):
        import time
        for part in parts:
            time.sleep(6)
            yield part
    return orders.select("order_id").repartition(4).mapInArrow(waited, "order_id long")
"""


def slow(tmp_path: Path, cluster: SparkCluster) -> Path:
    """A project of which all but a model that takes a while has been built."""
    folder = made(tmp_path / "shop", "orders", f"master: '{cluster.url}'")
    mere("run", folder=folder)
    (folder / "models" / "gold" / "slow.py").write_text(SLOW)
    return folder


def begun(folder: Path, cluster: SparkCluster) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "mere", "run"]
    running = subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    deadline = time.monotonic() + 120
    workers = "mapInArrow|pyspark.daemon"
    while not _python_workers(cluster):
        assert running.poll() is None, running.stdout and running.stdout.read()
        assert time.monotonic() < deadline, workers
        time.sleep(0.2)
    return running


def _python_workers(cluster: SparkCluster) -> bool:
    import psutil

    children = (each for worker in cluster.workers for each in psutil.Process(worker.pid).children(recursive=True))
    return any("pyspark.daemon" in " ".join(each.cmdline()) for each in children if each.is_running())


@pytest.mark.long
@pytest.mark.service
@pytest.mark.timeout(600)
def test_a_worker_that_dies_in_the_middle_does_not_fail_a_run(cluster: SparkCluster, tmp_path: Path) -> None:
    folder = slow(tmp_path, cluster)
    running = begun(folder, cluster)
    cluster.kill_worker()
    said, _ = running.communicate()
    assert running.returncode == 0, said
    with Lake.open(folder / "lake") as lake:
        (expected,), (found,) = (
            list(lake.sql(f"SELECT count(*) FROM {table}").rows()) for table in ("silver.orders", "gold.slow")
        )
    assert found == expected
    cluster.add_worker()


@pytest.mark.long
@pytest.mark.service
@pytest.mark.timeout(600)
def test_a_driver_that_dies_in_the_middle_leaves_main_whole(cluster: SparkCluster, tmp_path: Path) -> None:
    folder = slow(tmp_path, cluster)
    with Lake.open(folder / "lake") as lake:
        before = lake.resolve("main").commit.id
    running = begun(folder, cluster)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    with Lake.open(folder / "lake") as lake:
        assert lake.resolve("main").commit.id == before
    mere("run", "--resume", folder=folder)
    with Lake.open(folder / "lake") as lake:
        assert lake.resolve("main").commit.id != before
        assert "gold.slow" in [str(table) for table in lake.at("main")]
