"""Threads that run jobs for an event loop. `concurrent.futures` takes longer per job than a small statement does."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

_LOG = logging.getLogger(__name__)


class _Pending(asyncio.Future[Result]):
    """It comes in any case. Whoever waits for it and is cancelled is told so when it has."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ARG002 (asyncio's signature)
        return False


@dataclass(frozen=True)
class _Job(Generic[Result]):
    work: Callable[[], Result]
    pending: _Pending[Result] | None

    def run(self) -> None:
        try:
            result = self.work()
        except BaseException as error:  # noqa: BLE001 (it is told to whoever waits)
            self._tell(_fail, error)
        else:
            self._tell(_settle, result)

    def _tell(self, how: Callable[[_Pending[Any], Any], None], what: Any) -> None:
        if self.pending is not None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waited
                self.pending.get_loop().call_soon_threadsafe(how, self.pending, what)
        elif how is _fail:
            _LOG.error("a job that nobody waits for failed", exc_info=what)


def _settle(pending: _Pending[Any], result: Any) -> None:
    pending.set_result(result)


def _fail(pending: _Pending[Any], error: BaseException) -> None:
    # One that a future does not take would leave it open for ever.
    pending.set_exception(RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)


class Threads:
    """They begin with the first job. Jobs are taken in the order in which they came."""

    def __init__(self, count: int, name: str) -> None:
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}_{at}", daemon=True) for at in range(count)]
        self._started = False

    async def run(self, job: Callable[[], Result]) -> Result:
        """It is waited for even where the waiting task is cancelled: nothing that it uses may be closed before."""
        pending: _Pending[Result] = _Pending(loop=asyncio.get_running_loop())
        self._put(_Job(job, pending))
        try:
            return await pending
        except asyncio.CancelledError:
            if pending.done():
                pending.exception()  # nobody else will ask for it
            raise

    def start(self, job: Callable[[], None]) -> None:
        """Without anybody who waits for it."""
        self._put(_Job(job, None))

    def _put(self, job: _Job[Any]) -> None:
        if not self._started:
            self._started = True
            for each in self._threads:
                each.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # what it holds is not kept up to the next

    def close(self) -> None:
        """What has begun ends first; what has not does not begin."""
        with suppress(Empty):
            while True:
                self._jobs.get_nowait()
        if self._started:
            for _ in self._threads:
                self._jobs.put(None)
            for each in self._threads:
                each.join()
