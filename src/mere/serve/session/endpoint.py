"""Another way into the same server: shares its workers, log and counts, from threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mere.serve.access.admission import Guesses, Places
from mere.serve.protocol.port import PgError
from mere.serve.session.log import Entry, Log
from mere.serve.session.metrics import Metrics
from mere.serve.session.pool import Pool

Result = TypeVar("Result")


@dataclass(frozen=True)
class Shared:
    """For threads that are not the event loop's."""

    loop: asyncio.AbstractEventLoop
    pool: Pool
    log: Log
    metrics: Metrics
    places: Places
    guesses: Guesses

    def work(self, job: Callable[[], Result], user: str) -> Future[Result]:
        """As soon as a worker is free, and it is the user's turn."""
        return asyncio.run_coroutine_threadsafe(self.pool.run(job, user), self.loop)

    def record(self, entry: Entry) -> None:
        self.loop.call_soon_threadsafe(self._record, entry)

    def refused(self, error: PgError) -> None:
        def record() -> None:
            self.metrics.refused[error.sqlstate] += 1
            self.log.event("refused", "", "", error=error.sqlstate, message=error.message)

        self.loop.call_soon_threadsafe(record)

    def _record(self, entry: Entry) -> None:
        self.metrics.statement(entry.seconds, entry.rows, entry.error)
        self.log.write(entry)


class Endpoint(Protocol):
    """Started and stopped by the server, in its event loop."""

    @property
    def held(self) -> bool:
        """Whether it could not be stopped: a client takes nothing of what it was sent, and does not hang up."""
        ...

    def start(self, shared: Shared) -> None: ...
    async def stop(self, seconds: float) -> None:
        """Nobody new; what runs has so many seconds."""
        ...

    def expel(self) -> None:
        """What runs for those who are not users any more fails."""
        ...

    def cut(self) -> None:
        """What runs fails."""
        ...
