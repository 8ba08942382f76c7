"""FETCH and MOVE: how many rows of a cursor, and in which direction."""

from __future__ import annotations

from typing import Any

from sqlglot.tokenizer_core import TokenType

from mere.serve.parse import syntax
from mere.serve.parse.words import Words

_SINGLE: dict[str, dict[str, Any]] = {
    "NEXT": {"count": 1},
    "PRIOR": {"count": -1},
    "FIRST": {"count": 1, "absolute": True},
    "LAST": {"count": -1, "absolute": True},
    "ALL": {"count": None},
}
_BACK_TO_THE_START = -(2**62)


def read(words: Words) -> dict[str, Any]:
    about = _direction(words)
    words.skip("FROM", "IN")
    about["name"] = words.name()
    words.end()
    return about


def _direction(words: Words) -> dict[str, Any]:
    following = words.peek(1)
    if following is None:  # the word is the cursor's own name
        return {"count": 1}
    for word, about in _SINGLE.items():
        if words.skip(word):
            return dict(about)
    if words.skip("ABSOLUTE"):
        return {"count": _number(words), "absolute": True}
    if words.skip("RELATIVE"):
        return {"count": _number(words)}
    if words.skip("FORWARD"):
        return {"count": _how_many(words)}
    if words.skip("BACKWARD"):
        found = _how_many(words)
        return {"count": _BACK_TO_THE_START if found is None else -found}
    if _is_number(words):
        return {"count": _number(words)}
    return {"count": 1}


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
