"""The commits that transactions are pinned to."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict, defaultdict

from mere.serve.protocol.port import PgError

_MOST = 1000  # of a user; nobody tells of those that were left behind, so the oldest makes room


class Transactions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], OrderedDict[bytes, str]] = defaultdict(OrderedDict)  # by user and database

    def begin(self, user: str, database: str) -> bytes:
        number = secrets.token_bytes(16)
        with self._lock:
            mine = self._open[user, database]
            mine[number] = ""
            if len(mine) > _MOST:
                mine.popitem(last=False)
        return number

    def check(self, user: str, database: str, number: bytes) -> None:
        if number and self.commit(user, database, number) is None:
            raise PgError("25P01", "there is no such transaction")

    def commit(self, user: str, database: str, number: bytes) -> str | None:
        """That of its first statement; nothing before it; None if there is no such transaction (any more)."""
        with self._lock:
            mine = self._open.get((user, database))
            return mine.get(number) if mine is not None else None

    def settle(self, user: str, database: str, number: bytes, commit: str) -> str:
        """The commit of the first statement, which may have been another one."""
        with self._lock:
            mine = self._open.get((user, database))
            if mine is None or number not in mine:
                return commit
            mine[number] = mine[number] or commit
            return mine[number]

    def end(self, user: str, database: str, number: bytes) -> None:
        with self._lock:
            mine = self._open.get((user, database))
            if mine is not None:
                mine.pop(number, None)
                if not mine:
                    del self._open[user, database]
