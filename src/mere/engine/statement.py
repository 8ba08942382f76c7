"""The text of a Spark query: makes sure that it only reads, and finds its dotted names.

Whether it is a query is not guessed: what should be one is put where Spark's grammar takes nothing else, in the FROM of
a SELECT, so that whatever writes is a syntax error. The other statements that may be run are told by their first word,
with nothing before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mere.errors import QueryError
from mere.sql.edits import Edits, check_text
from mere.sql.spelling.dotted import Name, names

_QUERIES = ("select", "with", "from", "values", "table", "(")
_LISTINGS = ("show", "describe", "desc")
_EXPLAIN = "explain"
_MODES = ("extended", "codegen", "cost", "formatted")
_READS = "SELECT, WITH, FROM, VALUES, TABLE, SHOW, DESCRIBE and EXPLAIN"

_WORD = re.compile(r"\w+|`(?:[^`]|``)*`")
_STRING = r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_TOKEN = re.compile(rf"(?P<gap>\s+|--(?:\\\n|[^\n])*)|(?P<comment>/\*)|{_STRING}|{_WORD.pattern}|.", re.DOTALL)
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Token:
    text: str
    start: int  # in bytes
    end: int

    @property
    def is_name(self) -> bool:
        return _WORD.fullmatch(self.text) is not None

    @property
    def word(self) -> str:
        return self.text.lower()


@dataclass(frozen=True)
class Statement:
    sql: str
    tokens: tuple[Token, ...]

    @cached_property
    def names(self) -> tuple[Name, ...]:
        return tuple(names(self.tokens, "`"))

    @property
    def harmless(self) -> Edits:
        """What makes sure that it only reads."""
        first, last = self.tokens[0], self.tokens[-1]
        ends = [(0, first.start, ""), (last.end, len(self.sql.encode()), "")]
        if first.word in _LISTINGS:
            return ends
        body = _body(self.tokens)[0]
        return [ends[0], (body.start, body.start, "SELECT * FROM (\n"), (last.end, ends[1][1], "\n)")]


def read(sql: str) -> Statement:
    """One statement that only reads; any other is refused."""
    check_text(sql)
    tokens = tuple(_tokens(sql))
    while tokens and tokens[-1].text == ";":
        tokens = tokens[:-1]
    if not tokens:
        raise QueryError(
            "There is no query.", remedy='Write one, such as: mere sql --spark "select * from schema.table"'
        )
    if any(token.text == ";" for token in tokens):
        raise QueryError("mere sql runs one statement at a time; nothing was run.")
    body = _body(tokens)
    if not (tokens[0].word in _LISTINGS or (body and body[0].word in _QUERIES)):
        verb = (body or tokens)[0].text.upper()
        raise QueryError(
            f"mere sql only reads; it does not run {verb}. Nothing was changed.",
            remedy=f"On Spark it runs {_READS}. Write to the lake with a model, or in mere.session, on a branch.",
        )
    return Statement(sql, tokens)


def _body(tokens: Sequence[Token]) -> Sequence[Token]:
    """Without EXPLAIN."""
    if tokens[0].word != _EXPLAIN:
        return tokens
    return tokens[2:] if len(tokens) > 1 and tokens[1].word in _MODES else tokens[1:]


def _tokens(sql: str) -> Iterator[Token]:
    at = 0
    while found := _TOKEN.match(sql, at):
        start, at = at, found.end()
        if found["comment"]:
            at = _end_of_comment(sql, at)
        elif not found["gap"]:
            before = len(sql[:start].encode())
            yield Token(found[0], before, before + len(found[0].encode()))


def _end_of_comment(sql: str, at: int) -> int:
    """One comment may stand in another."""
    depth = 1
    while depth and (mark := _COMMENT.search(sql, at)):
        depth, at = depth + (1 if mark[0] == "/*" else -1), mark.end()
    return at if depth == 0 else len(sql)
