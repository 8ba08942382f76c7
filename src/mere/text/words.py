"""Numbers and times as words in a sentence."""

from __future__ import annotations

from datetime import datetime


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """`1 row`, `1,200 rows`"""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%SZ}"


def size(count: int) -> str:
    """`12.3 MB`"""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
