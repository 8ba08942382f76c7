"""The macros of `macros.sql`, and how often each repeats its argument."""

from __future__ import annotations

import re
from importlib.resources import files

_MACRO = re.compile(r"^CREATE MACRO pg\.(\w+)\((.*?)\) AS\s(.*?);$", re.DOTALL | re.MULTILINE)
_FOUND = list(_MACRO.finditer(files(__package__).joinpath("macros.sql").read_text("utf-8")))
_PARAMETERS = {found[1]: re.findall(r"\w+", found[2]) for found in _FOUND}
_BODIES = {found[1]: found[3] for found in _FOUND}

EVERY = tuple(found[0] for found in _FOUND)


def _uses(name: str) -> int:
    """How often a macro repeats the argument that it repeats most: calls in calls multiply that."""
    body = _expanded(_BODIES[name])
    return max(len(re.findall(rf"\b{each}\b", body)) for each in _PARAMETERS[name])


def _expanded(body: str) -> str:
    """With the bodies of the macros that it calls in place of the calls."""
    while (found := re.search(r"\bpg\.(\w+)\(", body)) is not None:
        arguments, end = _arguments(body, found.end())
        given = dict(zip(_PARAMETERS[found[1]], arguments, strict=True))
        inner = re.sub(r"\w+", lambda word, given=given: given.get(word[0], word[0]), _BODIES[found[1]])
        body = f"{body[: found.start()]}({inner}){body[end:]}"
    return body


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Of a call, from behind its parenthesis on, and where it ends."""
    found, depth, at = [""], 0, start
    for each in re.finditer(r"'(?:[^']|'')*'|.", text[start:], re.DOTALL):
        at = start + each.end()
        depth += (each[0] in "([") - (each[0] in ")]")
        if depth < 0:
            break
        if each[0] == "," and not depth:
            found.append("")
        else:
            found[-1] += each[0]
    return found, at


USES = {name: _uses(name) for name in _BODIES}

# What each of them names, with what those name that it calls.
WORDS = {name: frozenset(re.findall(r"\w+", _expanded(body).lower())) for name, body in _BODIES.items()}
