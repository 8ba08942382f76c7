"""The memory of the process. DuckDB counts its own, but not long texts and lists before they are made."""

from __future__ import annotations

import ctypes
import re
import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mere.serve.access import limits

ROW = 8_100_000  # bytes that a function may make of one row
_AT_ONCE = 64 << 20  # bytes that it may make of the rows that come at once, some thousands
_READ = 512 << 20  # bytes that it may read of them, however much memory there is: nobody can interrupt it meanwhile
_OTHERWISE = 256 << 20  # bytes besides what DuckDB counts
_BEYOND = 32 << 20  # bytes, to stop a statement in good order before the system refuses it more
_AT_LEAST = 16 << 20  # bytes that a statement may take when it begins
_INTERVAL = 0.02  # seconds between two looks
_LOOKS = 50  # as long as memory may take to be written to
_PATIENCE = 1.0  # seconds that a statement has to end before the next one is stopped
_STATM = Path("/proc/self/statm")
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def resident() -> int:
    """Bytes of the process in memory; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def mapped() -> int:
    """Bytes of data that the process may write to, whether they are in memory or not; 0 where it is not told."""
    try:
        return int(_STATM.read_bytes().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def parse(setting: str) -> int:
    """DuckDB's memory_limit, such as 953.6 MiB."""
    found = re.fullmatch(r"([\d.]+) (\w+)", setting)
    if found is None:
        raise ValueError(setting)
    return int(float(found[1]) * _UNITS[found[2]])


@dataclass(eq=False)
class Strain:
    """A statement that works. `grown`: by how much the process grew meanwhile, as far as it is its part."""

    stop: Callable[[], object]
    grown: float = 0.0
    stopped: float | None = None  # when


class Ceiling:
    """How much the process may map while statements work. Of the rows that come at once, thousands, nobody can stop
    DuckDB: whatever makes more of them than there is memory for gets none from the system, and its statement fails.

    It moves with what is in memory: what was freed and is still mapped does not count. What was mapped just now does,
    as it is yet to be written to: of what is mapped and not in memory, only that counts as freed which stays so."""

    def __init__(self, most: int) -> None:
        self._most = self._present = most
        self._beside: deque[int] = deque(maxlen=_LOOKS)  # bytes that were mapped and not in memory
        _, self._without = resource.getrlimit(resource.RLIMIT_DATA)

    def begin(self, used: int) -> None:
        """With some room in any case: what is taken already may be nobody's to give back."""
        self._present = max(self._most, used + _AT_LEAST)
        self._beside.clear()
        self.follow(used)

    def follow(self, used: int) -> None:
        if now := mapped():
            self._beside.append(now - used)
            self._set(max(self._present, used) + min(self._beside))

    def lift(self) -> None:
        self._set(self._without)

    def _set(self, most: int) -> None:
        if self._without != resource.RLIM_INFINITY:
            most = min(most, self._without)
        resource.setrlimit(resource.RLIMIT_DATA, (most, self._without))


def unlimited(process: int) -> None:
    """For one that was started meanwhile: it has inherited the ceiling."""
    if hasattr(resource, "prlimit"):
        with suppress(OSError):
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            resource.prlimit(process, resource.RLIMIT_DATA, (hard, hard))


class Watch:
    """Stops the statement that took most when all of them take too much, and refuses new ones until it has ended."""

    def __init__(self, limit: int, used: Callable[[], int] = resident, *, firm: bool = False) -> None:
        """`firm`: the whole process is the server's, and may be kept from growing."""
        self.most = used() + limit + max(_OTHERWISE, limit // 8)
        self._ceiling = Ceiling(self.most + _BEYOND) if firm else None
        self._at_once = max(_AT_ONCE, limit // 8)
        self._used = used
        self._changed = threading.Condition()
        self._working: set[Strain] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, stop: Callable[[], object]) -> Iterator[Strain]:
        """While a statement works. PgError where there is no memory for it."""
        strain = Strain(stop)
        with self._changed:
            if not self._working:
                self._recover()
                if self._ceiling is not None:
                    self._ceiling.begin(self._used())
            elif self.is_full():
                raise limits.no_memory()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory", daemon=True)
                self._thread.start()
            self._working.add(strain)
            self._changed.notify()
        try:
            yield strain
        finally:
            with self._changed:
                self._working.discard(strain)
                if not self._working and self._ceiling is not None:
                    self._ceiling.lift()

    def _recover(self) -> None:
        """What was freed goes back to the system a little later."""
        until = time.monotonic() + _PATIENCE
        while self.is_full() and not self._working and time.monotonic() < until:
            self._changed.wait(_INTERVAL)

    def is_full(self) -> bool:
        return self._used() > self.most

    def room(self, sizes: pa.Array) -> pa.Array:
        """A function of DuckDB's: whether so many bytes may be made, for each of the rows that come at once."""
        total, longest = pc.sum(sizes).as_py() or 0, pc.max(sizes).as_py() or 0
        fits = longest <= ROW and total <= self._at_once and self._used() + total <= self.most
        return pa.array([fits] * len(sizes), pa.bool_())

    def load(self, sizes: pa.Array) -> pa.Array:
        """Another one: whether texts and lists of so many bytes may be read or copied, of all rows at once."""
        total = pc.sum(sizes).as_py() or 0
        fits = total <= min(self._at_once, _READ) and self._used() + total <= self.most
        return pa.array([fits] * len(sizes), pa.bool_())

    def _run(self) -> None:
        before = self._used()
        while True:
            with self._changed:
                while not self._working:
                    self._changed.wait()
                    before = self._used()
                now = self._used()
                self._look(now, now - before)
                before = now
            time.sleep(_INTERVAL)

    def _look(self, used: int, grown: int) -> None:
        if self._ceiling is not None:
            self._ceiling.follow(used)
        for each in self._working:
            each.grown = max(0.0, each.grown + grown / len(self._working))
        if used <= self.most:
            return
        stopped = [each for each in self._working if each.stopped is not None]
        for each in stopped:
            self._stop(each)  # it may have come before there was anything to stop
        if any(time.monotonic() - (each.stopped or 0) < _PATIENCE for each in stopped):
            return
        give_back()
        rest = self._working.difference(stopped)
        if rest and self.is_full():
            largest = max(rest, key=lambda each: each.grown)
            largest.stopped = time.monotonic()
            self._stop(largest)

    def _stop(self, strain: Strain) -> None:
        with suppress(Exception):  # it has ended meanwhile
            strain.stop()


def give_back() -> None:
    """What was freed, to the system: it counts as taken until then. Only glibc keeps any."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
