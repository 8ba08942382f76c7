"""The threads that execute: few, so that many connections share the machine fairly; what has to wait, waits in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Pool:
    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.at_work = 0  # jobs that run or wait
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="mere-serve")

    async def run(self, job: Callable[[], Result]) -> Result:
        """It is waited for even where the waiting task is cancelled: nothing that it uses may be closed before."""
        self.at_work += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise
        finally:
            self.at_work -= 1

    def start(self, job: Callable[[], None]) -> None:
        """Without anybody who waits for it."""
        self._threads.submit(job)

    @property
    def waiting(self) -> int:
        return max(0, self.at_work - self.workers)

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
