"""Ctrl-C while Spark is working: the job is cancelled, and the session can still be used."""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

_PATIENCE = 10.0  # seconds; a second Ctrl-C waits for nothing
_AGAIN = 0.1


@dataclass(frozen=True)
class Call:
    """A call to the JVM, on whose answer a thread waits."""

    connection: Any

    @classmethod
    def of_this_thread(cls, context: Any) -> Call | None:
        client = context._gateway._gateway_client
        connection = getattr(client, "get_thread_connection", lambda: None)()
        return cls(connection) if connection is not None and connection not in client.deque else None

    def ends_within(self, seconds: float) -> bool:
        socket = self.connection.socket
        return socket is None or bool(select.select([socket], [], [], seconds)[0])

    def hang_up(self) -> None:
        """Nobody waits any more. Otherwise py4j hangs up, and on all other threads in the middle of their calls; or it
        takes this answer for the one to the next call."""
        self.connection.close()


def cancel_on_interrupt(
    cancel: Callable[[], None], previous: Any, call: Callable[[], Call | None] = lambda: None
) -> Callable[[], None]:
    """Ctrl-C: cancel the jobs from another thread, and do here what would have been done without us.

    pyspark's own handler cancels over the very connection that waits for the job, so it waits for the job. And a query
    that is still being planned has no job to cancel yet: it is cancelled until the `call` has ended, and does not run
    on unseen. What is returned puts the previous handler back.
    """
    cancelling = threading.Lock()

    def handler(number: int, frame: FrameType | None) -> None:
        waiting = call()
        if cancelling.acquire(blocking=False):
            try:
                _cancel(cancel, waiting)
            finally:
                cancelling.release()
        if callable(previous):
            try:
                previous(number, frame)
            except BaseException:
                if waiting is not None:
                    waiting.hang_up()
                raise

    def in_main_thread() -> bool:
        return threading.current_thread() is threading.main_thread()

    def restore() -> None:
        if in_main_thread() and signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, previous or signal.SIG_DFL)

    if in_main_thread():
        signal.signal(signal.SIGINT, handler)
    return restore


def _cancel(cancel: Callable[[], None], call: Call | None) -> None:
    """What is asked afterwards is not cancelled."""
    deadline = time.monotonic() + _PATIENCE
    while (left := deadline - time.monotonic()) > 0:
        order = threading.Thread(target=cancel, daemon=True)
        order.start()
        order.join(left)
        if call is None or call.ends_within(_AGAIN):
            return
