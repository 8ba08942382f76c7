"""A run in a thread of its own, whose events can be iterated over."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from mere.api.events import Began, Event, Listener
from mere.api.run import RunResult
from mere.errors import RunFailed
from mere.pipeline.run.leased import Stopped

CarryOut = Callable[[Listener, threading.Event], RunResult]


class Running:
    """A started run: `with project.start() as run: for event in run: …`

    The block waits for the run to end, and raises the error that ended it. If an exception ends the block itself, such
    as Ctrl-C, the run is stopped first: nothing is published, and the run can be resumed.
    """

    def __init__(self, carry_out: CarryOut) -> None:
        self.id: str | None = None  # as soon as the run has a branch
        self._carry_out = carry_out
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="mere-project-run")
        self._thread.start()

    def _work(self) -> None:
        try:
            self._result = self._carry_out(self._heard, self._stop)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            self._error = error
        finally:
            self._events.put(None)

    def _heard(self, event: Event) -> None:
        if isinstance(event, Began):
            self.id = event.id
        self._events.put(event)

    def __iter__(self) -> Iterator[Event]:
        """The events as they come, each once, until the run has ended."""
        while (event := self._events.get()) is not None:
            yield event
        self._events.put(None)  # for whoever asks again, or in another thread

    def stop(self) -> None:
        """Stop the run: cancels what is being built; nothing is published. `result` waits for it."""
        self._stop.set()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def result(self, timeout: float | None = None) -> RunResult:
        """The result of the run, once it has ended; raises the error that ended it. TimeoutError after this many
        seconds."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"Run {self.id or ''} is still going on.".replace("  ", " "))
        if isinstance(self._error, Stopped):
            raise self._failure(self._error) from self._error
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _failure(self, stopped: Stopped) -> RunFailed:
        if self.id is None:
            return RunFailed("The run was stopped before it had begun. Nothing was published.")
        error = RunFailed(
            f"Run {self.id} was stopped. Nothing was published.", remedy=f"Go on with it: mere run --resume {self.id}"
        )
        error.run = stopped.run
        return error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.result()
            return
        self.stop()
        self._thread.join()

    def __repr__(self) -> str:
        state = "has ended" if self.ended else "is going on"
        return f"<Run {self.id or 'without a branch yet'}: {state}>"
