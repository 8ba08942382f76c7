"""The same work a few times in one process; the medians of its times are the run's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ROUNDS = 3


def timed(name: str, work: Callable[[], T]) -> tuple[T, dict[str, float]]:
    walls, cpus = [], []
    result = work()  # uncounted: it also imports what it needs
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return result, {name: statistics.median(walls), f"{name}_cpu": statistics.median(cpus)}
