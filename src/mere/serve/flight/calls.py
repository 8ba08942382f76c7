"""One call of a client, from its session to its line in the audit log."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import TypeVar

from pyarrow import flight

from mere.serve.access import limits
from mere.serve.flight.login import Caller
from mere.serve.language.errors import of_any
from mere.serve.protocol.port import Backend, Session
from mere.serve.session.endpoint import Shared
from mere.serve.session.log import Entry

Result = TypeVar("Result")

_PATIENCE = 0.1  # seconds between two looks at whether the client is still there


@dataclass(eq=False)
class Call:
    """Its work is done by the server's workers, one step after another; in between it holds none of them."""

    backend: Backend
    shared: Shared
    context: flight.ServerCallContext
    caller: Caller
    text: str
    only_errors: bool  # are worth a line in the log: the statement itself comes with another call
    rows: int = 0
    cancelled: bool = False
    _session: Session | None = None
    _start: float = field(default_factory=time.perf_counter)

    def work(self, step: Callable[[Session], Result]) -> Result:
        future = self.shared.work(lambda: self._run(step), self.caller.user)
        while not wait([future], _PATIENCE).done:
            if self.cancelled or self.context.is_cancelled():
                self.cancel()
        return future.result()

    def _run(self, step: Callable[[Session], Result]) -> Result:
        if self.cancelled:
            raise limits.cancelled()
        if self._session is None:
            self._session = self.backend.connect(self.caller.user, self.caller.database, {})
        return step(self._session)

    def cancel(self) -> None:
        self.cancelled = True
        if self._session is not None:
            self._session.cancel()

    def close(self, error: BaseException | None) -> None:
        if self._session is not None:
            self._session.close()
        failed = of_any(error, quiet=True).sqlstate if isinstance(error, Exception) else None
        if isinstance(error, GeneratorExit):
            failed = "08006"  # the client has hung up
        if failed is None and self.only_errors:
            return
        commit = self._session.commit if self._session is not None else None
        seconds = time.perf_counter() - self._start
        user, database = self.caller.user, self.caller.database
        self.shared.record(Entry(user, self._client, database, commit, self.text, self.rows, seconds, failed))

    @property
    def _client(self) -> str:
        """ipv4:127.0.0.1:1234 without the kind of the address."""
        return str(self.context.peer().partition(":")[2])
