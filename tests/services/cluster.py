"""A cluster of Spark for the tests, as its own scripts start one: a master, and workers with a core each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from mere.engine.jvm.classpath import spark_home
from mere.engine.jvm.java import find
from tests.services.postgres import free_port

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


class SparkCluster:
    """Start it with `start`. Its processes see nothing of the test's folder, environment or modules."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1) -> None:
        self.folder = folder
        self.port, self.ui = free_port(), free_port()
        self.workers: list[subprocess.Popen[bytes]] = []
        self._cores = cores
        self._count = workers
        self._master: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._master = self._run(_MASTER, "--port", str(self.port), "--webui-port", str(self.ui))
        self._until(lambda: self.state() is not None)
        for _ in range(self._count):
            self.add_worker()

    def add_worker(self) -> subprocess.Popen[bytes]:
        before = self.alive()
        work = str(self.folder / f"work{len(self.workers)}")
        options = ("--cores", str(self._cores), "--memory", "1g", "--work-dir", work)
        worker = self._run(_WORKER, *options, "--webui-port", "0", self.url)
        self.workers.append(worker)
        self._until(lambda: self.alive() == before + 1)
        return worker

    def kill_worker(self) -> None:
        """With its executors, as when a machine is gone."""
        worker = self.workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def state(self) -> Any:
        """What the master says of itself; None as long as it says nothing."""
        import json

        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ui}/json/", timeout=5) as page:
                return json.load(page)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def alive(self) -> int:
        return int((self.state() or {}).get("aliveworkers", 0))

    def stop(self) -> None:
        for process in [*self.workers, *([self._master] if self._master else [])]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "JAVA_HOME": str(find().home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_WORKER_OPTS": "-Dspark.worker.cleanup.enabled=true",
        }
        command = [str(spark_home() / "bin" / "spark-class"), name, "--host", "127.0.0.1", *arguments]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def _until(self, true: Any, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.1)


def python_of_workers() -> str:
    """They have the suite's own: another one has no pyarrow."""
    return os.environ.get("PYSPARK_PYTHON", sys.executable)
