"""Makes texts from elsewhere safe to print: nothing in them moves the cursor, ends a line or reorders letters."""

from __future__ import annotations

import re

# Of terminals, and those that end a line or change the direction of what follows.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(_CONTROL.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def printable(text: str, *, lines: bool = False) -> str:
    """With its control characters spelled out. `lines`: it may have several."""
    if text.isprintable():
        return text
    pattern = _CONTROL_BUT_LINES if lines else _CONTROL
    return pattern.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
