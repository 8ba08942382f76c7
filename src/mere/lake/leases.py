"""A run's claim on the tables it will write: others wait, maintenance passes by, a dead run's claim expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta

from mere.errors import LeaseHeld
from mere.lake.port import Lease, Store
from mere.names import TableName

TTL = timedelta(seconds=60)


@contextmanager
def hold(
    store: Store,
    target: str,
    tables: Collection[TableName],
    holder: str,
    wait: timedelta | None = timedelta(0),
    ttl: timedelta = TTL,
) -> Iterator[None]:
    """Hold the leases for the length of a block, renewed in the background. `wait=None` waits for ever."""
    _take(store, target, tables, holder, wait, ttl)
    done = threading.Event()
    beat = threading.Thread(target=_renew, args=(store, holder, ttl, done), name="mere-lease", daemon=True)
    beat.start()
    try:
        yield
    finally:
        done.set()
        beat.join()
        store.release(holder)


def _take(
    store: Store,
    target: str,
    tables: Collection[TableName],
    holder: str,
    wait: timedelta | None,
    ttl: timedelta,
) -> None:
    deadline = None if wait is None else time.monotonic() + wait.total_seconds()
    pause = 0.05
    while held := store.acquire(target, tables, holder, ttl):
        if deadline is not None and time.monotonic() >= deadline:
            raise _refusal(target, held)
        time.sleep(pause)
        pause = min(pause * 1.5, 2.0)


def _renew(store: Store, holder: str, ttl: timedelta, done: threading.Event) -> None:
    while not done.wait(ttl.total_seconds() / 3):
        store.renew(holder, ttl)


def _refusal(target: str, held: list[Lease]) -> LeaseHeld:
    names = ", ".join(str(lease.table) for lease in held)
    holders = ", ".join(sorted({lease.holder for lease in held}))
    until = max(lease.expires_at for lease in held)
    return LeaseHeld(
        f"{holders} is writing {names} for {target}.",
        remedy=f"Wait for it to finish. If it died, its lease ends at {until:%H:%M:%SZ}.",
    )
