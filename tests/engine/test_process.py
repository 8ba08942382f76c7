"""What only a process of its own can show: silence on the terminal, and an end that leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mere.engine.jvm import archive
from mere.engine.jvm.process import prepare
from mere.sparkconfig import SparkSettings

pytestmark = pytest.mark.service

TALK = """
import os, sys
from pathlib import Path
import mere
from mere.sparkconfig import SparkSettings

lake = mere.Lake.create("lake")
with mere.session(lake, settings=SparkSettings(memory="700m")) as session:
    spark = session.spark
    spark.sql("CREATE NAMESPACE a")
    spark.sql("CREATE TABLE a.t AS SELECT id FROM range(3)")
    print(spark.sql("SELECT sum(id) FROM a.t").collect()[0][0])
    try:
        spark.sql("SELECT nothing FROM a.t")
    except Exception:
        pass
    try:
        spark.sql("SELECT raise_error('x') FROM a.t").collect()
    except Exception:
        pass
    from pyspark.sql.functions import udf
    print(spark.range(1).select(udf(lambda x: x + 1, "long")("id")).collect()[0][0])
print(sorted(os.listdir()))

# A JVM that dies takes its sessions with it, and only those.
try:
    with mere.session(lake) as session:
        os.kill(session._driver._jvm.process.pid, 9)
        session.spark.sql("SELECT 1").collect()
except mere.MereError as error:
    print(error.message)
"""

HANG = """
import time
import mere

session = mere.session(mere.Lake.create("lake"))
jvm = session._driver._jvm
print(jvm.process.pid, jvm.scratch, flush=True)
time.sleep(600)
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONWARNINGS": "ignore"}
    if archive.find(prepare(SparkSettings())) is None:
        # On a machine that has none yet, the first session would leave the process behind that builds it.
        environment["MERE_ARCHIVE"] = "off"
    (folder / "tmp").mkdir()
    (folder / "work").mkdir()
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder / "work", env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_session_says_nothing_and_leaves_nothing(tmp_path: Path, warm_jvm: None) -> None:
    process = start(TALK, tmp_path)
    stdout, stderr = process.communicate(timeout=200)
    assert stderr == ""
    assert stdout.splitlines() == [
        "3",
        "1",
        "['lake']",
        "Spark's JVM was killed from outside. The system does that when it is short of memory.",
    ]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_jvm_dies_with_a_python_that_is_killed(tmp_path: Path, warm_jvm: None) -> None:
    process = start(HANG, tmp_path)
    assert process.stdout is not None
    pid, scratch = process.stdout.readline().split()
    jvm = psutil.Process(int(pid))
    assert "PythonGatewayServer" in jvm.cmdline()[-1]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 30
    while jvm.is_running() and jvm.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE
    assert not Path(scratch).exists()


def test_importing_the_engine_does_not_import_pyspark() -> None:
    code = "import sys, mere.engine.session, mere.engine.rehearsal; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
