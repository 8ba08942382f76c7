"""The worker threads: few, so that many connections share the machine fairly. Users take turns."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import TypeVar

from mere.serve.session.threads import Threads

Result = TypeVar("Result")


class Pool:
    """`run` is called in one event loop. Of the jobs that wait, each user's have their turn after the others'."""

    def __init__(self, workers: int, per_user: int | None = None) -> None:
        self.workers = workers
        self.per_user = per_user or max(1, workers - 1)  # one worker is left to the others
        self.waiting = 0
        self._running: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._threads = Threads(workers, "mere-serve")

    @property
    def at_work(self) -> int:
        """Jobs that run or wait."""
        return self._running.total() + self.waiting

    async def run(self, job: Callable[[], Result], user: str) -> Result:
        """It is waited for even where the waiting task is cancelled: nothing that it uses may be closed before."""
        if self._is_free_for(user):
            self._running[user] += 1
        else:
            await self._turn(user)
        try:
            return await self._threads.run(job)
        finally:
            self._end(user)

    def _is_free_for(self, user: str) -> bool:
        return self._running.total() < self.workers and self._running[user] < self.per_user

    async def _turn(self, user: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had just come
                self._end(user)
            else:
                self._leave(user, turn)
            raise

    def _leave(self, user: str, turn: asyncio.Future[None]) -> None:
        self.waiting -= 1
        queue = self._queues[user]
        queue.remove(turn)
        if not queue:
            del self._queues[user]

    def _end(self, user: str) -> None:
        self._running[user] -= 1
        if not self._running[user]:
            del self._running[user]
        while (following := next(filter(self._is_free_for, self._queues), None)) is not None:
            turn = self._queues[following][0]
            self._leave(following, turn)
            if following in self._queues:
                self._queues.move_to_end(following)
            self._running[following] += 1
            turn.set_result(None)

    def start(self, job: Callable[[], None]) -> None:
        """Without anybody who waits for it."""
        self._threads.start(job)

    def close(self) -> None:
        self._threads.close()
