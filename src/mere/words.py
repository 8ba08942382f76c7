"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 row`, `1,200 rows`"""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"
