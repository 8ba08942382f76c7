"""LIKE and ILIKE, in time linear in the text."""

from __future__ import annotations

import re

from sqlglot import exp

from mere.serve.language.mend import arrays
from mere.serve.language.mend.tree import call, macro, text
from mere.serve.protocol.port import PgError


def like(node: exp.Expr) -> exp.Expr:
    """A backslash escapes, unless the query says otherwise."""
    if isinstance(node.parent, exp.Escape):
        return node
    if (several := arrays.patterns(node)) is not None:
        return arrays.together(node, [like(each) for each in several])
    if isinstance(node.expression, exp.Any | exp.All):
        raise PgError("0A000", "LIKE with ANY or ALL takes a list of patterns that stands in the query")
    return _bounded(node, node.expression)


def escape(node: exp.Expr) -> exp.Expr:
    """With another character than a backslash: the same pattern with one."""
    asked, character = node.this, node.expression
    if not character.is_string or len(character.name) > 1:
        raise PgError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    pattern = asked.expression
    if character.name == "\\":
        return _bounded(asked, pattern)
    if not pattern.is_string:
        pieces = f"{re.escape(character.name)}.|." if character.name else "."
        return _bounded(asked, macro("with_backslashes", pattern, text(pieces)))
    return _bounded(asked, text(_with_backslashes(pattern.name, character.name)))


def _with_backslashes(pattern: str, character: str) -> str:
    escaped = rf"{re.escape(character)}(?P<meant>[\s\S]?)|" if character else "(?P<meant>(?!))|"

    def written(found: re.Match[str]) -> str:
        if found["meant"] is not None:
            return f"\\{found['meant']}"
        return "\\\\" if found[0] == "\\" else found[0]

    return re.sub(escaped + r"[\s\S]", written, pattern)


def _bounded(node: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """Of a plain text with nothing but %, DuckDB looks for the pieces between them. With others it tries all ways to
    match, which may take it for ever."""
    value, is_plain = node.this, pattern.is_string and not set("_\\") & set(pattern.name)
    if isinstance(node, exp.ILike):
        value, pattern = call("lower", value), call("lower", pattern)
    made = exp.Like(this=value.copy(), expression=pattern.copy()) if is_plain else macro("like", value, pattern)
    return exp.paren(exp.Not(this=made), copy=False) if node.args.get("negate") else made
