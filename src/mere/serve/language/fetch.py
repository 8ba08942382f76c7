"""FETCH and MOVE: how many rows of a cursor, and in which direction."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from mere.serve.parse import syntax
from mere.serve.parse.words import Words
from mere.serve.protocol.statement import Fetch, Move

# The count, and whether it is a row's number.
_SINGLE: dict[str, tuple[int | None, bool]] = {
    "NEXT": (1, False),
    "PRIOR": (-1, False),
    "FIRST": (1, True),
    "LAST": (-1, True),
    "ALL": (None, False),
}
_BACK_TO_THE_START = -(2**62)


def read(words: Words) -> Fetch:
    tag = words.tokens[0].text.upper()
    count, absolute = _direction(words)
    words.skip("FROM", "IN")
    name = words.name()
    words.end()
    return (Move if tag == "MOVE" else Fetch)(tag, *words.span, name=name, count=count, absolute=absolute)


def _direction(words: Words) -> tuple[int | None, bool]:
    following = words.peek(1)
    if following is None:  # the word is the cursor's own name
        return 1, False
    for word, meant in _SINGLE.items():
        if words.skip(word):
            return meant
    if words.skip("ABSOLUTE"):
        return _number(words), True
    if words.skip("RELATIVE"):
        return _number(words), False
    if words.skip("FORWARD"):
        return _how_many(words), False
    if words.skip("BACKWARD"):
        found = _how_many(words)
        return _BACK_TO_THE_START if found is None else -found, False
    return _number(words) if _is_number(words) else 1, False


def _how_many(words: Words) -> int | None:
    if words.skip("ALL"):
        return None
    return _number(words) if _is_number(words) else 1


def _is_number(words: Words) -> bool:
    token = words.peek()
    return token is not None and (token.token_type is TokenType.NUMBER or token.text in ("-", "+"))


def _number(words: Words) -> int:
    sign = -1 if words.skip("-") else 1
    words.skip("+")
    token = words.take()
    if not token.text.isdigit():
        raise syntax.unexpected(token)
    return sign * int(token.text)
