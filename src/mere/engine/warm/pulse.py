"""The pulse of a warm engine: its keeper asks the JVM every few seconds whether it works, and records the answer.

A process that is there may still do nothing: its SparkContext was stopped by an error, or the process itself.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

EVERY = 2.0  # seconds
# A JVM that collects, on a machine that is short of everything, may take long to answer; not as long as this.
SILENCE = 60.0
_WORN = 0.9


@dataclass(frozen=True)
class Pulse:
    """In bytes."""

    heap: int
    heap_limit: int
    code: int
    code_limit: int

    @classmethod
    def read(cls, path: Path) -> Pulse | None:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def is_worn(self) -> bool:
        """The compiler is switched off when there is no room for code any more, and the JVM may die of it."""
        return self.code > _WORN * self.code_limit


class Watch:
    """Feels the pulse of the JVM, in a thread of its own: a JVM that is stopped keeps whoever asks it waiting."""

    def __init__(self, context: Any, path: Path) -> None:
        self._context = context
        self._path = path
        self._heard = time.monotonic()
        self._stopped = False
        self._pulse: Pulse | None = None
        self._feel()
        threading.Thread(target=self._run, name="mere-pulse", daemon=True).start()

    @property
    def failure(self) -> str | None:
        if self._stopped:
            return "its SparkContext was stopped"
        if time.monotonic() - self._heard > SILENCE:
            return f"it did not answer for {SILENCE:.0f} s"
        return None

    @property
    def is_worn(self) -> bool:
        return self._pulse is not None and self._pulse.is_worn

    def gauges(self) -> dict[str, float]:
        """For monitoring."""
        return {f"{name}_bytes": float(value) for name, value in asdict(self._pulse).items()} if self._pulse else {}

    def _run(self) -> None:
        from py4j.protocol import Py4JError

        while not self._stopped:
            time.sleep(EVERY)
            try:
                self._feel()
            except (OSError, Py4JError):
                return  # whoever ends the JVM knows

    def _feel(self) -> None:
        self._stopped = self._context._jsc.sc().isStopped()
        self._pulse = _measured(self._context._jvm)
        unfinished = self._path.with_suffix(".part")
        unfinished.write_text(json.dumps(asdict(self._pulse)), encoding="utf-8")
        unfinished.replace(self._path)
        self._heard = time.monotonic()


def _measured(view: Any) -> Pulse:
    gauges = view.com.codahale.metrics.jvm.MemoryUsageGaugeSet().getMetrics()
    code = [str(name).rpartition(".")[0] for name in gauges if "Code" in name and name.endswith(".used")]

    def value(name: str) -> int:
        return int(gauges[name].getValue())

    return Pulse(
        heap=value("heap.used"),
        heap_limit=value("heap.max"),
        code=sum(value(f"{pool}.used") for pool in code),
        code_limit=sum(value(f"{pool}.max") for pool in code),
    )
