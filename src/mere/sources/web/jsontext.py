"""Finds the parts of a JSON text, so that they can be taken out as written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Numbers stay texts: they keep every digit, and none is too long.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)
_SPACE = re.compile(r"[ \t\n\r]*")
_SHOWN_KEYS = 20


class NotThere(Exception):
    """Says what is there instead."""


def check(text: str) -> None:
    """ValueError or RecursionError if it is not JSON; the others here count on it that it is."""
    _DECODER.decode(text)


def find(text: str, at: int, path: str) -> int:
    """Where in a text the value at a dotted path begins. A key may have dots itself."""
    at = _past_space(text, at)
    if not path:
        return at
    if text[at] != "{":
        raise NotThere("there is a list" if text[at] == "[" else "there is a single value")
    members = members_of(text, at)
    head, _, rest = path.partition(".")
    if path in members:
        return members[path]
    if rest and head in members:
        return find(text, members[head], rest)
    raise NotThere(f"there is an object with {keys_of(members)}")


def value_at(text: str, path: str) -> Any:
    return _DECODER.raw_decode(text, find(text, 0, path))[0]


def members_of(text: str, at: int) -> dict[str, int]:
    """Where the value of each key begins."""
    found = {}
    at = _past_space(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _past_space(text, _past_space(text, at) + 1)
        found[name] = at
        at = _after(text, at)
    return found


def elements(text: str, at: int) -> Iterator[str]:
    at = _past_space(text, at + 1)
    while text[at] != "]":
        yield text[at : end_of(text, at)]
        at = _after(text, at)


def _after(text: str, at: int) -> int:
    """Where what follows a value and its comma begins."""
    at = _past_space(text, end_of(text, at))
    return _past_space(text, at + 1) if text[at] == "," else at


def end_of(text: str, at: int) -> int:
    return _DECODER.raw_decode(text, at)[1]


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def keys_of(members: Mapping[str, int]) -> str:
    names = list(members)
    more = f" and {len(names) - _SHOWN_KEYS} more" if len(names) > _SHOWN_KEYS else ""
    return f"the keys {', '.join(names[:_SHOWN_KEYS])}{more}" if names else "no keys"
