"""COPY … TO STDOUT: the query in it, and its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mere.serve.language import copy_options, guard
from mere.serve.language.copy_options import EVERY, Value
from mere.serve.parse import lexer, syntax
from mere.serve.parse.words import Words
from mere.serve.protocol.port import PgError
from mere.serve.protocol.statement import CopyOptions, Select
from mere.sql.spelling.standard import quoted


def read(words: Words, query: Callable[[Words], Select]) -> tuple[Select, CopyOptions]:
    inner = _source(words, query)
    words.skip("WITH")
    written = list(_listed(words) if words.skip("(") else _old_style(words))
    words.end()
    return inner, copy_options.read(written)


def _source(words: Words, query: Callable[[Words], Select]) -> Select:
    if words.skip("("):
        inside = Words(words.bracket(), words.text)
        statement = query(inside)
    else:
        start = words.peek()
        names = [_spelled(words)]
        while words.skip("."):
            names.append(_spelled(words))
        columns = list(words.items()) if words.skip("(") else ["*"]
        if syntax.is_word(words.peek(), "FROM"):
            raise guard.read_only("COPY FROM", start.start if start else 0)
        text = f"SELECT {', '.join(columns)} FROM {'.'.join(names)}"
        statement = query(Words(lexer.tokens(text), text))
    _destination(words)
    return statement


def _destination(words: Words) -> None:
    if words.skip("FROM"):
        raise guard.read_only("COPY FROM", 0)
    words.expect("TO")
    if words.skip("STDOUT"):
        return
    if words.skip("PROGRAM"):
        raise PgError("42501", "permission denied to COPY to or from an external program")
    if syntax.is_string(words.peek()):
        raise PgError(
            "42501",
            "permission denied to COPY to a file",
            hint="COPY … TO STDOUT sends the rows to the client; psql's \\copy writes them to a file of yours.",
        )
    raise syntax.unexpected(words.peek())


def _spelled(words: Words) -> str:
    """A name for a text of SQL."""
    return quoted(words.name())


def _listed(words: Words) -> Iterator[tuple[str, Value]]:
    """(format csv, header, force_quote (a, b)): a name, and what it is set to, if anything."""
    while True:
        name = words.name()
        value: Value = None
        if words.skip("("):
            value = _names(words)
            words.expect(")")
        elif words.skip("*"):
            value = EVERY
        elif not syntax.is_word(words.peek(), ",", ")"):
            sign = "-" if words.skip("-") else ""
            value = sign + words.take().text
        yield name, value
        if words.skip(")"):
            return
        words.expect(",")


def _old_style(words: Words) -> Iterator[tuple[str, Value]]:
    """DELIMITER ',' NULL '' CSV HEADER, as it was written before Postgres 9."""
    while (token := words.peek()) is not None:
        if words.skip("BINARY", "CSV"):
            yield "format", token.text.lower()
        elif words.skip("HEADER"):
            yield "header", None
        elif words.skip("DELIMITER", "NULL", "QUOTE", "ESCAPE"):
            words.skip("AS")
            yield token.text.lower(), words.take().text
        elif words.skip("FORCE"):
            words.expect("QUOTE")
            yield "force_quote", EVERY if words.skip("*") else _names(words)
        else:
            raise syntax.unexpected(token)


def _names(words: Words) -> list[str]:
    found = [words.name()]
    while words.skip(","):
        found.append(words.name())
    return found
