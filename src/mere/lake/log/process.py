"""Identifies the process that a run works in, so that its end is noticed at once."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

_PROC = Path("/proc")
_ABSENT = ""  # where there is no /proc, there are no namespaces either, and a start has a date: it needs no `boot`
_DEAD = ("Z", "X")  # it has ended, and its parent has not asked how


@dataclass(frozen=True)
class Process:
    """A number alone is soon another process's. What cannot be found out on a system is None."""

    host: str
    pid: int
    boot: str | None = None  # of this start of the machine
    namespace: str | None = None  # within which the number means something: containers of one machine share `boot`
    started: int | str | None = None  # in ticks since the machine started; without /proc, as `ps` has it

    @classmethod
    def mine(cls) -> Self:
        pid = os.getpid()
        return cls(platform.node(), pid, _boot(), _namespace(), _look(pid)[1])

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> Self:
        return cls(**about)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_gone(self) -> bool:
        """Whether it is certain that it has ended. Of a process elsewhere nothing is certain."""
        here = (platform.node(), _boot(), _namespace())
        if None in here or self.started is None or (self.host, self.boot, self.namespace) != here:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        state, started = _look(self.pid)
        return state in _DEAD or started not in (None, self.started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _boot() -> str | None:
    if not _PROC.exists():
        return _ABSENT
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _namespace() -> str | None:
    if not _PROC.exists():
        return _ABSENT
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


def _look(pid: int) -> tuple[str | None, int | str | None]:
    """The state of a process, and when it started."""
    if not _PROC.exists():
        return _look_with_ps(pid)
    try:
        # The name, in parentheses, may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None, None


def _look_with_ps(pid: int) -> tuple[str | None, str | None]:
    """`ps` of macOS and of the BSDs, and of Linux too."""
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        found = subprocess.run(command, env=environment, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    state, _, started = found.stdout.decode(errors="replace").strip().partition(" ")
    return state[:1] or None, " ".join(started.split()) or None
