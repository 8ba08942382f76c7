"""Postgres's regular expressions, as RE2 understands them."""

from __future__ import annotations

import re

from sqlglot import exp

from mere.serve.language.mend.tree import call, macro, number, text
from mere.serve.protocol.port import PgError

_MOST = 1000  # states: a text is looked at with each of them, and nobody can interrupt that

_WORDS = {r"\m": r"\b", r"\M": r"\b", r"\y": r"\b", r"\Y": r"\B", r"\Z": r"\z"}


def plain(pattern: exp.Expr) -> exp.Expr:
    """The pattern with RE2's escapes, where it is known already."""
    if not pattern.is_string:
        return macro("pattern", pattern)
    written = pattern.name
    if size(written) > _MOST:
        raise PgError("54001", "the regular expression is too complex")
    if re.search(r"\\[1-9]", written) or re.search(r"\(\?(?:[=!]|<[=!])", written):
        raise PgError("0A000", "a regular expression with back references or lookarounds is not supported")
    return text(re.sub(r"\\(?:\\|[mMyYZ])", lambda found: _WORDS.get(found[0], found[0]), written))


def size(pattern: str) -> int:
    """About as many states as it has: each repetition makes what it repeats as many times as large."""
    total, groups, last = 0, [0], 1
    for found in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d+)(?:,(\d*))?\}|.", pattern, re.DOTALL):
        if found[0] == "(":
            groups.append(total)
        elif found[0] == ")" and len(groups) > 1:
            last = total - groups.pop()
        elif found[1]:
            total += last * max(0, int(found[2] or found[1]) - 1)
            last *= max(1, int(found[2] or found[1]))
        elif found[0] not in "?*+":
            total, last = total + 1, 1
    return total


def matches(value: exp.Expr, pattern: exp.Expr, *, insensitive: bool, flags: str = "") -> exp.Expr:
    """A dot matches the end of a line, too."""
    return call("regexp_matches", value, plain(pattern), text("s" + ("i" if insensitive else "") + flags))


def first_match(value: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """The first group if there is one, or else all that matches; NULL if nothing does."""
    found = call("regexp_extract", value, plain(pattern), number(1 if groups(pattern) else 0), text("s"))
    return exp.Case().when(matches(value, pattern, insensitive=False), found)


def groups(pattern: exp.Expr) -> int:
    if not pattern.is_string:
        return 0
    unescaped = re.sub(r"\\.|\[[^\]]*\]", "", pattern.name)
    return len(re.findall(r"\((?!\?)", unescaped))


def similar(value: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """SIMILAR TO: % and _ as in LIKE, and | * + ? ( ) [ ] as in regular expressions, over the whole text."""
    if not pattern.is_string:
        raise PgError("0A000", "SIMILAR TO takes a plain text as its pattern")
    made = ""
    for found in re.finditer(r"\\(.)|\[[^\]]*\]|.", pattern.name, re.DOTALL):
        piece = found[0]
        if found[1]:
            made += re.escape(found[1])
        elif piece in _SIMILAR:
            made += _SIMILAR[piece]
        else:
            made += piece if piece in "|*+?(){}," or len(piece) > 1 or piece.isalnum() else re.escape(piece)
    return call("regexp_matches", value, text(f"^(?:{made})$"), text("s"))


_SIMILAR = {"%": ".*", "_": "."}


def options(flags: exp.Expr | None) -> str:
    """Postgres's flags as DuckDB's."""
    if flags is None:
        return ""
    if not flags.is_string or set(flags.name) - set("gics"):
        raise PgError("0A000", "the flags of a regular expression may be g, i, c and s")
    return flags.name.replace("s", "")
