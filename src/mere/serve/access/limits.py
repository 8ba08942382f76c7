"""What one statement, and all of them together, may use."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

from mere.serve.protocol.port import PgError

_LOG = logging.getLogger(__name__)

TEXT = 1_000_000  # characters of a text with statements: to parse more of it would keep others waiting


@dataclass(frozen=True)
class Limits:
    """Of one statement of a role; None: as much as it takes."""

    time: timedelta | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Resources:
    """Of all statements together, in DuckDB's words; None leaves it to DuckDB."""

    memory: str | None = None  # "2GB"
    spill: str | None = "10GB"  # to disk
    threads: int | None = None
    firm: bool = False  # the process is the server's alone, and the system may be told how much it may take


class Budget:
    """The time of one statement. It runs only while the server works on it, and not while the client reads."""

    def __init__(self, limit: timedelta | None, interrupt: Callable[[], object] = lambda: None) -> None:
        self._left = limit.total_seconds() if limit is not None else None
        self.interrupt = interrupt  # of what works on it now
        self.spent = self.cancelled = False

    @contextmanager
    def running(self) -> Iterator[None]:
        if self._left is None:
            yield
            return
        start = time.monotonic()
        with _CLOCK.alarm(start + self._left, self._end):
            yield
        self._left = max(0.0, self._left - (time.monotonic() - start))

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """While it is read and compiled, in this thread: `go_on` fails once the time is over."""
        _OF_THREAD.budget = self
        try:
            with self.running():
                yield
        finally:
            _OF_THREAD.budget = None

    def _end(self) -> None:
        self.spent = True
        self.interrupt()


_OF_THREAD = threading.local()


def go_on() -> None:
    """Asked at every piece of a statement that is being prepared: nobody can interrupt Python from outside."""
    budget: Budget | None = getattr(_OF_THREAD, "budget", None)
    if budget is not None and budget.cancelled:
        raise cancelled()
    if budget is not None and budget.spent:
        raise timed_out()


class _Clock:
    """One thread that rings for all statements of the process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._off: set[int] = set()
        self._numbers = count()
        self._thread: threading.Thread | None = None

    @contextmanager
    def alarm(self, at: float, ring: Callable[[], None]) -> Iterator[None]:
        number = next(self._numbers)
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="statement-timeouts", daemon=True)
                self._thread.start()
            heapq.heappush(self._alarms, (at, number, ring))
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                if any(known == number for _, known, _ in self._alarms):
                    self._off.add(number)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._alarms or self._alarms[0][0] > time.monotonic():
                    wait = self._alarms[0][0] - time.monotonic() if self._alarms else None
                    self._changed.wait(wait)
                _, number, ring = heapq.heappop(self._alarms)
                if number in self._off:
                    self._off.discard(number)
                    continue
                # Under the lock, so that it never rings for a statement that has ended meanwhile.
                try:
                    ring()
                except Exception:  # noqa: BLE001 the others still have their timeouts
                    _LOG.exception("a statement could not be ended at its timeout")


_CLOCK = _Clock()


def too_many_rows(limit: int) -> PgError:
    return PgError(
        "53400",
        f"the result has more than {limit} rows, which is as many as this role may read at once",
        hint="Add a LIMIT or a condition, or aggregate.",
    )


def no_memory() -> PgError:
    return PgError("53200", "out of memory", hint="The queries that run now take all of it. Try again, or read less.")


def timed_out() -> PgError:
    return PgError("57014", "canceling statement due to statement timeout")


def cancelled() -> PgError:
    return PgError("57014", "canceling statement due to user request")
