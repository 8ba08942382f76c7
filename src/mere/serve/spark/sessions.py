"""The sessions of a front's clients: which there are, what runs, and what each has been given."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

RESTS = 3600.0  # seconds after which Spark itself ends a session that nobody uses

Key = tuple[str, str]  # user and id


@dataclass
class Session:
    used: float
    running: int = 0
    has: set[str] = field(default_factory=set)  # catalogs: given by the front, or made by the client itself
    begun: bool = False
    preparing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    """Changed in the front's loop only; read from everywhere."""

    def __init__(self) -> None:
        self._open: dict[Key, Session] = {}
        self.answers: Counter[tuple[str, str]] = Counter()  # by method and status
        self.used = time.monotonic()

    def touch(self, key: Key) -> Session:
        self.used = now = time.monotonic()
        if key not in self._open:
            self._forget_old(now)
            self._open[key] = Session(now)
        self._open[key].used = now
        return self._open[key]

    def ended(self, key: Key) -> None:
        self._open.pop(key, None)

    def open(self) -> list[Key]:
        since = time.monotonic() - RESTS
        return [key for key, each in list(self._open.items()) if each.used > since or each.running]

    @property
    def running(self) -> int:
        return sum(each.running for each in list(self._open.values()))

    def _forget_old(self, now: float) -> None:
        for key, each in list(self._open.items()):
            if not each.running and each.used < now - 2 * RESTS:
                del self._open[key]

    def page(self, gauges: dict[str, float]) -> str:
        """For Prometheus."""
        by_user = Counter(user for user, _ in self.open())
        lines = ["# TYPE mere_spark_sessions gauge"]
        lines += [f'mere_spark_sessions{{user="{_escaped(user)}"}} {count}' for user, count in sorted(by_user.items())]
        lines += ["# TYPE mere_spark_running gauge", f"mere_spark_running {self.running}"]
        lines += ["# TYPE mere_spark_requests_total counter"]
        for (method, status), count in sorted(self.answers.items()):
            lines.append(f'mere_spark_requests_total{{method="{method}",status="{status}"}} {count}')
        for name, value in sorted(gauges.items()):
            lines += [f"# TYPE mere_spark_{name} gauge", f"mere_spark_{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _escaped(user: str) -> str:
    return user.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
