"""Dotted names in the text of a query, however a dialect splits and quotes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class Token(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def start(self) -> int:
        """In bytes."""
        ...

    @property
    def end(self) -> int: ...

    @property
    def is_name(self) -> bool:
        """Whether it may be a part of a dotted name."""
        ...


@dataclass(frozen=True)
class Name:
    """Its parts without their quotes, and where each of them stands."""

    parts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


def names(tokens: Sequence[Token], quote: str) -> Iterator[Name]:
    at = 0
    while at < len(tokens):
        chain = [tokens[at]]
        while _goes_on(tokens, at):
            at += 2
            chain.append(tokens[at])
        if len(chain) > 1:
            yield Name(
                tuple(_unquoted(part.text, quote) for part in chain), tuple((part.start, part.end) for part in chain)
            )
        at += 1


def _goes_on(tokens: Sequence[Token], at: int) -> bool:
    return at + 2 < len(tokens) and tokens[at].is_name and tokens[at + 1].text == "." and tokens[at + 2].is_name


def _unquoted(text: str, quote: str) -> str:
    return text[1:-1].replace(quote * 2, quote) if text.startswith(quote) else text
