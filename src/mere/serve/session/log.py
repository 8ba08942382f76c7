"""The audit log: a line for every statement with who read what, at which commit, and how it ended; and for every client
that connects, leaves or is refused. Without literals, by default.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO

_LONGEST = 10_000  # characters of a statement
_NAME = 200  # of a user, who may say any
_MASKED = 11_000  # characters in which literals are looked for: it takes a millisecond for two thousand
_SHORT, _KEPT = 2000, 500  # characters of a statement that is kept in its masked form, and how many are

_TOKENS = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<literal>\b[eE]'(?:[^'\\]|\\(?:.|\Z)|'')*(?:'|\Z)
        |(?:\b[bBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|\Z)
        |\$(?P<quote>(?:[A-Za-z_]\w*)?)\$.*?(?:\$(?P=quote)\$|\Z)
        |(?<![\w$."])(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\b)
    |(?P<name>"(?:[^"]|"")*(?:"|\Z))
    """,
    re.DOTALL | re.VERBOSE,
)


def masked(statement: str) -> str:
    """Without comments and the values of literals, in one line."""

    def replace(found: re.Match[str]) -> str:
        return found[0] if found["name"] is not None else " " if found["comment"] is not None else "?"

    return " ".join(_TOKENS.sub(replace, statement).split())


@lru_cache(_KEPT)
def _shown(statement: str) -> tuple[str, str]:
    """Masked, and the hash of it. Clients send the same texts again and again."""
    text = masked(statement[:_MASKED])
    return text, hashlib.sha256((text + statement[_MASKED:]).encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True)
class Entry:
    user: str
    client: str
    ref: str
    commit: str | None
    statement: str
    rows: int
    seconds: float
    error: str | None = None  # its SQLSTATE and, unless values are left out, its message


class Log:
    """JSON, a line at a time. It is written by the event loop alone; the lock is for a shared file."""

    def __init__(self, file: IO[str] | None, *, values: bool = False) -> None:
        self._file = file
        self._values = values
        self._lock = threading.Lock()

    def write(self, entry: Entry) -> None:
        if self._file is None:
            return
        text, digest = (_shown if len(entry.statement) <= _SHORT else _shown.__wrapped__)(entry.statement)
        line = {
            "at": _now(),
            "event": "statement",
            "user": entry.user,
            "client": entry.client,
            "ref": entry.ref,
            "commit": entry.commit,
            "hash": digest,
            "statement": (entry.statement if self._values else text)[:_LONGEST],
            "rows": entry.rows,
            "ms": round(entry.seconds * 1000, 3),
            "error": entry.error,
        }
        self._tell(line)

    def event(self, what: str, user: str, client: str, **more: object) -> None:
        """A login, a refusal, a disconnect."""
        if self._file is not None:
            about = {name: value for name, value in more.items() if value is not None}
            self._tell({"at": _now(), "event": what, "user": user[:_NAME], "client": client, **about})

    def _tell(self, line: Mapping[str, object]) -> None:
        """JSON in ASCII: whatever a client has sent stays in its line, and does nothing to a terminal."""
        assert self._file is not None
        text = json.dumps(line)
        with self._lock:
            self._file.write(text + "\n")
            self._file.flush()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
