"""A cluster of Spark: which master, what its workers have to be sent, and whether they come."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mere.errors import EngineError
from mere.sparkconfig import HERE, SparkSettings

_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([^:/]+))(?::(\d+))?")
_ANSWER_SECONDS = 5.0
# Until the first executor is there. A container may have to be fetched first.
_WORKER_SECONDS = 60.0
_CONTAINER_SECONDS = 300.0
_PROBE = ("192.0.2.1", 9)  # nobody's address: the system only says by which of ours it would be reached


@dataclass(frozen=True)
class Master:
    """As `master:` names it: spark://host:7077, k8s://https://host:6443, or yarn."""

    url: str

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """One of them has to answer; none for yarn, whose address is in Hadoop's own files."""
        rest = re.sub(r"^k8s://(?:https?://)?|^spark://", "", self.url)
        port = 7077 if self.url.startswith("spark:") else 80 if "http:" in self.url else 443
        found = (_ADDRESS.match(each) for each in rest.split(",")) if "://" in self.url else ()
        return [(each[1] or each[2], int(each[3] or port)) for each in found if each]

    @property
    def is_here(self) -> bool:
        """Whether its workers see the disks of this machine."""
        return bool(self.addresses) and all(host in HERE for host, _ in self.addresses)

    def check(self) -> None:
        """Spark would try for a minute, and then say that the context was stopped."""
        failures = []
        for host, port in self.addresses:
            try:
                with closing(socket.create_connection((host, port), _ANSWER_SECONDS)):
                    return
            except OSError as error:
                failures.append(f"{host}:{port}: {error.strerror or error}")
        if failures:
            raise EngineError(
                f"No master of Spark answers at {self.url} ({'; '.join(failures)}).",
                remedy="Start it, or correct `master` under `spark:` in mere.yaml.",
            )
        if self.url == "yarn" and not _hadoop_folders():
            raise EngineError(
                "Where YARN is, Hadoop's own files say, and none are named here.",
                remedy="Name their folder: export HADOOP_CONF_DIR=/etc/hadoop/conf",
            )

    def own_address(self) -> str:
        """By which its workers reach this machine."""
        target = next(iter(self.addresses), _PROBE)
        if self.is_here:
            return "127.0.0.1"
        family = socket.AF_INET6 if ":" in target[0] else socket.AF_INET
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as asked:
            asked.connect(target)  # sends nothing
            return str(asked.getsockname()[0])

    def conf(self, settings: SparkSettings, jars: Sequence[Path]) -> dict[str, str]:
        """`jars`: those that executors need beside Spark's own; they fetch them from the driver."""
        own = self.own_address()
        cores = {"spark.cores.max": str(settings.cores)} if settings.cores else {}
        return {
            "spark.master": self.url,
            "spark.submit.deployMode": "client",
            "spark.driver.host": own,
            "spark.driver.bindAddress": own,
            "spark.jars": ",".join(map(str, jars)),
            **(cores if self.url.startswith("spark:") else {}),
        }

    def wait_for_workers(self, context: Any) -> None:
        """A job would wait without a word for as long as there is nobody to run it."""
        seconds = _WORKER_SECONDS if self.url.startswith("spark:") else _CONTAINER_SECONDS
        deadline = time.monotonic() + seconds
        running = context._jsc.sc()
        while running.getExecutorMemoryStatus().size() < 2:  # the driver itself is one
            if time.monotonic() > deadline:
                raise EngineError(
                    f"No worker of {self.url} has started an executor within {seconds:.0f} s.",
                    remedy="See in the master's web UI whether workers are alive, and have as many free cores and as"
                    " much memory as is asked for: `cores`, and `spark.executor.memory` (1g) under `conf`.",
                )
            time.sleep(0.05)


def master_of(settings: SparkSettings) -> Master | None:
    return Master(settings.master) if settings.master else None


def python_of(settings: SparkSettings) -> str:
    """The Python of workers: of other machines, the one with this version on their PATH."""
    chosen = os.environ.get("PYSPARK_PYTHON") or settings.conf.get("spark.pyspark.python")
    if chosen or settings.master is None:
        return chosen or sys.executable
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _hadoop_folders() -> list[str]:
    return [each for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if (each := os.environ.get(name))]


def class_path_of(settings: SparkSettings) -> list[str]:
    """Folders by which the driver finds a master that has no address."""
    return _hadoop_folders() if settings.master == "yarn" else []
