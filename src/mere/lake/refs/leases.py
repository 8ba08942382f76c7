"""A run's claim on the tables it will write: others wait, maintenance skips them, a dead run's claim expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from mere.errors import LakeError, LeaseHeld
from mere.lake.log.fence import lost_lease
from mere.lake.log.runs import run_of_holder, shown
from mere.lake.refs import attempts
from mere.lake.store.port import Lease, Store
from mere.names import TableName

TTL = timedelta(seconds=60)


class Held:
    """The leases of one holder on some tables, renewed in the background until they are released or lost."""

    def __init__(self, store: Store, target: str, tables: Collection[TableName], holder: str, ttl: timedelta) -> None:
        self.holder = holder
        self._store = store
        self._target = target
        self.tables = tuple(tables)
        self._ttl = ttl
        self._done = threading.Event()
        self._beat = threading.Thread(target=self._renew, name="mere-lease", daemon=True)

    def check(self) -> None:
        """Ask before anything is published: a machine that slept may have lost its leases to somebody else."""
        mine = (self._target, self.holder)
        held = {lease.table for lease in self._store.leases() if (lease.target, lease.holder) == mine}
        if not held.issuperset(self.tables):
            raise lost_lease(self.holder, self.tables)

    def take(self, wait: timedelta | None) -> None:
        deadline = None if wait is None else time.monotonic() + wait.total_seconds()
        pause = 0.05
        while held := self._store.acquire(self._target, self.tables, self.holder, self._ttl):
            if attempts.end_dead(self._store, held):
                continue
            if deadline is not None and time.monotonic() >= deadline:
                raise _refusal(self._target, held)
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)
        self._beat.start()

    def release(self) -> None:
        self._done.set()
        self._beat.join()
        with suppress(LakeError):  # they expire by themselves, and the error of the block matters more
            self._store.release(self._target, self.tables, self.holder)

    def _renew(self) -> None:
        while not self._done.wait(self._ttl.total_seconds() / 3):
            with suppress(LakeError):  # busy or away: there are two more turns until they expire
                if not self._store.renew(self.holder, self._ttl):
                    return


@contextmanager
def hold(
    store: Store,
    target: str,
    tables: Collection[TableName],
    holder: str,
    wait: timedelta | None = timedelta(0),
    ttl: timedelta = TTL,
) -> Iterator[Held]:
    """Hold the leases for the length of a block. `wait=None` waits for ever."""
    held = Held(store, target, tables, holder, ttl)
    held.take(wait)
    try:
        yield held
    finally:
        held.release()


def _refusal(target: str, held: list[Lease]) -> LeaseHeld:
    names = ", ".join(str(lease.table) for lease in held)
    holders = ", ".join(sorted({shown(lease.holder) for lease in held}))
    until = max(lease.expires_at for lease in held)
    return LeaseHeld(
        f"{holders} is writing {names} for {target}.",
        remedy=_way_out(held, until),
    )


def _way_out(held: list[Lease], until: datetime) -> str:
    runs = sorted({id_ for lease in held if (id_ := run_of_holder(lease.holder))})
    ending = f" If it is not to finish: mere runs end {runs[0]}" if runs else ""
    return f"Wait for it to finish. If it died, its lease ends at {until:%H:%M:%SZ}.{ending}"
