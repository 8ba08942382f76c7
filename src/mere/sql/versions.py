"""`FOR VERSION AS OF` and `FOR TIMESTAMP AS OF`, which DuckDB does not know: read from the text, and taken out of it.

Spaces stand in their place, so that whatever is said of the rest still points into what the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mere.errors import QueryError

_STRING = re.compile(rb"'((?:[^']|'')*)'")
_NUMBER = re.compile(rb"[0-9]+(?![\w.])")
_COMMIT = 16  # digits of the id of a commit
_TIMES = ("timestamp", "timestamptz", "date")
REMEDY = (
    "Write FOR VERSION AS OF and a snapshot id or a quoted ref, or FOR TIMESTAMP AS OF and a quoted time in UTC,"
    " after the table and before its alias."
)


class Token(Protocol):
    @property
    def word(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True)
class Version:
    """Which version of a table is meant: one of these."""

    snapshot: int | None = None
    ref: str | None = None
    time: str | None = None

    @classmethod
    def of_text(cls, text: str) -> Version:
        """A ref, or a snapshot whose id is too long for that of a commit: so Spark's quoted ids are read."""
        is_snapshot = text.isascii() and text.isdecimal() and len(text) > _COMMIT
        return cls(snapshot=int(text)) if is_snapshot else cls(ref=text)

    def ref_of(self, base: str) -> str | None:
        """The ref at which it is read, of a table that is named on another; None: it is the same one."""
        return f"{base}@{self.time}" if self.time is not None else self.ref

    def __str__(self) -> str:
        return str(self.snapshot) if self.snapshot is not None else repr(self.ref if self.time is None else self.time)


@dataclass(frozen=True)
class Clause:
    version: Version
    start: int  # in bytes
    end: int


def clauses(sql: str, tokens: Sequence[Token]) -> Iterator[Clause]:
    content = sql.encode()
    for at in range(len(tokens) - 4):
        words = [token.word for token in tokens[at : at + 4]]
        if words[0] != "for" or words[1] not in ("version", "timestamp") or words[2:] != ["as", "of"]:
            continue
        value = tokens[at + 4]
        if words[1] == "timestamp" and value.word in _TIMES and at + 5 < len(tokens):
            value = tokens[at + 5]
        start = tokens[at].start
        if (text := _STRING.match(content, value.start)) is not None:
            told = text[1].decode().replace("''", "'")
            is_time = words[1] == "timestamp"
            yield Clause(Version(time=told) if is_time else Version.of_text(told), start, text.end())
        elif words[1] == "version" and (number := _NUMBER.match(content, value.start)) is not None:
            yield Clause(Version(snapshot=int(number[0])), start, number.end())
        else:
            raise QueryError(f"FOR {words[1].upper()} AS OF is not followed by a value.", remedy=REMEDY)


def without(sql: str, found: Sequence[Clause]) -> str:
    content = bytearray(sql.encode())
    for each in found:
        content[each.start : each.end] = b" " * (each.end - each.start)
    return content.decode()
