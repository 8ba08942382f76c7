"""Spark's types as settings name them: checked without Spark, so that a typo is found before a run."""

from __future__ import annotations

import re

_PLAIN = frozenset(
    """boolean tinyint byte smallint short int integer bigint long float real double date time timestamp timestamp_ntz
    timestamp_ltz string binary variant void""".split()  # noqa: SIM905
)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_OF_A_LENGTH = re.compile(r"(?:char|character|varchar)\(\s*\d+\s*\)|time\(\s*[0-6]\s*\)")
_LONGER = re.compile(r"interval(\s+\w+)*|string\s+collate\s+\w+")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL)
_FIELD = re.compile(r"(?:`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)(.+?)(?:\s+not\s+null)?\s*", re.DOTALL)
_COMMENT = re.compile(r"\bcomment\s+'(?:[^'\\]|\\.)*'", re.DOTALL)
_MOST_DIGITS = 38


def is_type(text: str) -> bool:
    text = _COMMENT.sub("", text.lower()).strip()
    if nested := _NESTED.fullmatch(text):
        return _is_nested(nested[1], _parts(nested[2]))
    if decimal := _DECIMAL.fullmatch(text):
        return int(decimal[2] or 0) <= int(decimal[1] or 10) <= _MOST_DIGITS
    return text in _PLAIN or any(each.fullmatch(text) for each in (_OF_A_LENGTH, _LONGER))


def _is_nested(kind: str, parts: list[str]) -> bool:
    if kind == "struct":
        fields = [_FIELD.fullmatch(part.strip()) for part in parts if part.strip()]
        return all(field is not None and is_type(field[1]) for field in fields)
    return len(parts) == {"array": 1, "map": 2}[kind] and all(map(is_type, parts))


def _parts(text: str) -> list[str]:
    """Between the commas that stand in no brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return found
