"""The process that a run works in, told apart from any other, so that its end is noticed at once."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

_PROC = Path("/proc")
_DEAD = ("Z", "X")  # it has ended, and its parent has not asked how


@dataclass(frozen=True)
class Process:
    """A number alone is soon another process's. What cannot be found out on a system is None."""

    host: str
    pid: int
    boot: str | None = None  # of this start of the machine
    namespace: str | None = None  # within which the number means something: containers of one machine share `boot`
    started: int | None = None  # in ticks since the machine started

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
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _namespace() -> str | None:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None


def _look(pid: int) -> tuple[str | None, int | None]:
    """The state of a process, and when it started."""
    try:
        # The name, in parentheses, may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None, None
