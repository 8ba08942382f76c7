"""One connection for each thread of each process."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)

_abandoned: list[object] = []  # of a parent process: to close one here would end it there


class _Handle(Generic[C]):
    """A connection that ends with the thread that has it, and that a forked child leaves alone: SQLite loses commits
    that are made through a connection from before the fork, and Postgres would hear two clients as one."""

    def __init__(self, connection: C) -> None:
        self.connection = connection
        self.process = os.getpid()

    def close(self) -> None:
        if self.process == os.getpid():
            self.connection.close()
        else:
            _abandoned.append(self.connection)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the process there may be nothing left to close with
            self.close()


class Connections(Generic[C]):
    def __init__(self, connect: Callable[[], C], is_open: Callable[[C], bool]) -> None:
        self._connect = connect
        self._is_open = is_open
        self._local = threading.local()
        self._handles: weakref.WeakSet[_Handle[C]] = weakref.WeakSet()

    def mine(self) -> C:
        """This thread's own, made when it is first asked for and when the last one broke."""
        handle: _Handle[C] | None = getattr(self._local, "handle", None)
        if handle is None or handle.process != os.getpid() or not self._is_open(handle.connection):
            handle = self._local.handle = _Handle(self._connect())
            self._handles.add(handle)
        return handle.connection

    def close(self) -> None:
        for handle in list(self._handles):
            handle.close()
        self._local = threading.local()
