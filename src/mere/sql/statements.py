"""The text of a query: what kind of statement it is, and which dotted names it contains.

DuckDB's own tokenizer finds the names, so comments, strings and quotes are its matter. A name may turn out to be a
column: whoever looks it up finds no table by it then, and nothing happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from mere.errors import QueryError
from mere.sql.edits import check_text
from mere.sql.spelling.dotted import Name, names
from mere.sql.versions import Clause, clauses, without

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

READS = "SELECT, WITH, FROM, VALUES, SHOW, DESCRIBE, SUMMARIZE, EXPLAIN, and COPY … TO a file"

_WORDS = ("identifier", "keyword")
_WORD = re.compile(rb'"(?:[^"]|"")*"|[\w$\x80-\xff]+')
_STRING = re.compile(rb"'(?:[^']|'')*'")
# Who asks for one of these wants to see what there is, and not only what the query names.
_LISTINGS = ("information_schema", "duckdb_tables", "duckdb_views", "duckdb_columns", "duckdb_schemas", "pg_catalog")


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    start: int  # positions are in bytes, as DuckDB counts them
    end: int

    @property
    def is_name(self) -> bool:
        return self.kind in _WORDS

    @property
    def word(self) -> str:
        """A keyword or a plain name, in lower case; nothing if it is quoted or something else."""
        return self.text.lower() if self.is_name and not self.text.startswith('"') else ""


@dataclass(frozen=True)
class Statement:
    sql: str  # as DuckDB gets it: without its versions
    tokens: tuple[Token, ...]
    written: str
    versions: tuple[Clause, ...] = ()

    def version_after(self, name: Name) -> Clause | None:
        """What follows a dotted name, if that is a version."""
        end = name.spans[-1][1]
        following = next((token.start for token in self.tokens if token.start >= end), len(self.sql.encode()))
        return next((each for each in self.versions if end <= each.start < following), None)

    @cached_property
    def names(self) -> tuple[Name, ...]:
        return tuple(names(self.tokens, '"'))

    @property
    def lists_tables(self) -> bool:
        words = {token.word for token in self.tokens}
        bare = (
            self.tokens[0].word in ("show", "describe", "desc", "pragma") and not self.names and "select" not in words
        )
        return bare or not words.isdisjoint(_LISTINGS)

    @property
    def shows_tables(self) -> bool:
        return [token.word for token in self.tokens] == ["show", "tables"]

    @cached_property
    def destination(self) -> str | None:
        """The file that COPY … TO writes."""
        return _destination(self.sql, _without_explain(self.tokens))


def read(connection: DuckDBPyConnection, sql: str) -> Statement:
    """One statement that only reads; any other is refused."""
    check_text(sql)
    written, lifted = sql, tuple(clauses(sql, tuple(tokens(sql))))
    sql = without(sql, lifted)
    found = connection.extract_statements(sql)
    read = tuple(tokens(sql))
    while read and read[-1].text == ";":
        read = read[:-1]
    if not found or not read:
        raise QueryError("There is no query.", remedy='Write one, such as: mere sql "select * from schema.table"')
    if any(token.text == ";" for token in read):
        raise QueryError("mere sql runs one statement at a time; nothing was run.")
    _refuse_writes(connection, sql, read)
    return Statement(sql, read, written, lifted)


def _refuse_writes(connection: DuckDBPyConnection, sql: str, tokens: Sequence[Token]) -> None:
    inner = _without_explain(tokens)
    text = sql.encode()[inner[0].start :].decode() if inner else ""
    # PIVOT is one statement to its writer and several to DuckDB: types are made first, the last one reads.
    kinds = [statement.type.name for statement in connection.extract_statements(text)] or [""]
    if kinds[-1] == "SELECT" or (kinds[-1] == "COPY" and _destination(sql, inner) is not None):
        return
    if len(kinds) > 1 and "pivot" in {token.word for token in inner}:
        raise QueryError("PIVOT is allowed inside another statement only with its values: PIVOT … ON column IN (…).")
    verb = inner[0].text.upper() if inner else "nothing"
    raise QueryError(
        f"mere sql only reads; it does not run {verb}. Nothing was changed.",
        remedy=f"It runs {READS}. Write to the lake with Spark or PyIceberg, on a branch.",
    )


def _without_explain(tokens: Sequence[Token]) -> Sequence[Token]:
    if tokens[0].word != "explain":
        return tokens
    rest = tokens[1:]
    if rest and rest[0].word in ("analyze", "analyse"):
        rest = rest[1:]
    if len(rest) > 1 and rest[0].text == "(" and rest[1].word in ("format", "analyze"):
        closing = next((at for at, token in enumerate(rest) if token.text == ")"), len(rest))
        rest = rest[closing + 1 :]
    return rest


def _destination(sql: str, tokens: Sequence[Token]) -> str | None:
    if not tokens or tokens[0].word != "copy":
        return None
    outer = list(_outside_brackets(tokens))
    for token, following in pairwise(outer):
        if token.word == "to" and following.kind == "string_const":
            literal = _STRING.match(sql.encode(), following.start)
            # Only a plain string can be checked before it is used.
            return literal[0].decode()[1:-1].replace("''", "'") if literal else None
        if token.word == "from":
            return None
    return None


def _outside_brackets(tokens: Sequence[Token]) -> Iterator[Token]:
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.text != ")":
            yield token


def tokens(sql: str) -> Iterator[Token]:
    import duckdb

    content = sql.encode()
    for start, kind in duckdb.tokenize(sql):
        # Only the beginning of a token is given. Words are matched; of anything else one character tells enough.
        word = _WORD.match(content, start) if kind.name in _WORDS else None
        end = word.end() if word else start + 1
        yield Token(kind.name, content[start:end].decode(errors="replace"), start, end)
