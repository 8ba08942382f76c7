"""Edits a query's text for an engine, while its errors still point into what the user wrote.

Positions are in bytes, as DuckDB counts them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mere.errors import QueryError

Edits = Sequence[tuple[int, int, str]]  # from, to, and what stands there instead


def check_text(sql: str) -> None:
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise QueryError("The query has characters in it that are not text.")


def edited(sql: str, edits: Edits) -> str:
    """The text that the engine gets."""
    content = sql.encode()
    for start, end, text in sorted(edits, reverse=True):
        content = content[:start] + text.encode() + content[end:]
    return content.decode()


def original(position: int | None, edits: Edits) -> int | None:
    """A position in the edited text, as one in the text that the user wrote."""
    shift = 0
    for start, end, text in sorted(edits):
        length = len(text.encode())
        if position is None or position < start + shift:
            break
        if position < start + shift + length:
            return start
        shift += length - (end - start)
    return None if position is None else position - shift
