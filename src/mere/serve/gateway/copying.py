"""COPY … TO STDOUT: the query in it, and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mere.lake.query.columns import quoted
from mere.serve.gateway import guard, lexer, syntax
from mere.serve.gateway.port import PgError, Statement
from mere.serve.gateway.words import Words

_FORMATS = ("text", "csv", "binary")
_TEXTS = ("delimiter", "null", "quote", "escape")


def read(words: Words, query: Callable[[Words], Statement]) -> tuple[Statement, dict[str, Any]]:
    inner = _source(words, query)
    words.skip("WITH")
    options = _listed(words) if words.skip("(") else _old_style(words)
    words.end()
    _check(options)
    return inner, options


def _source(words: Words, query: Callable[[Words], Statement]) -> Statement:
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


def _listed(words: Words) -> dict[str, Any]:
    options: dict[str, Any] = {}
    while not words.skip(")"):
        name = words.name()
        if name == "format":
            options["format"] = _format(words.take().text.lower())
        elif name in _TEXTS:
            options[name] = words.take().text
        elif name == "header":
            options["header"] = _truth(words)
        elif name == "force_quote":
            enclosed = words.skip("(")
            options["force_quote"] = _names(words)
            if enclosed:
                words.expect(")")
        elif name == "encoding":
            _only_utf8(words.take().text)
        else:
            raise PgError("42601", f'option "{name}" not recognized')
        words.skip(",")
    return options


def _old_style(words: Words) -> dict[str, Any]:
    """DELIMITER ',' NULL '' CSV HEADER, as it was written before Postgres 9."""
    options: dict[str, Any] = {}
    while (token := words.peek()) is not None:
        if words.skip("BINARY", "CSV"):
            options["format"] = token.text.lower()
        elif words.skip("HEADER"):
            options["header"] = True
        elif words.skip("DELIMITER", "NULL", "QUOTE", "ESCAPE"):
            words.skip("AS")
            options[token.text.lower()] = words.take().text
        elif words.skip("FORCE"):
            words.expect("QUOTE")
            options["force_quote"] = _names(words)
        else:
            raise syntax.unexpected(token)
    return options


def _names(words: Words) -> list[str]:
    if words.skip("*"):
        return ["*"]
    found = [words.name()]
    while words.skip(","):
        found.append(words.name())
    return found


def _format(text: str) -> str:
    if text not in _FORMATS:
        raise PgError("22023", f'COPY format "{text}" not recognized')
    return text


def _truth(words: Words) -> bool:
    if syntax.is_word(words.peek(), ",", ")"):
        return True
    return words.take().text.lower() in ("true", "on", "1")


def _only_utf8(text: str) -> None:
    if text.lower().replace("-", "").replace("_", "") not in ("utf8", "unicode"):
        raise PgError("0A000", f"the encoding {text} is not supported: all texts are UTF-8")


def _check(options: dict[str, Any]) -> None:
    is_csv = options.get("format") == "csv"
    for name in ("quote", "escape", "force_quote"):
        if name in options and not is_csv:
            raise PgError("0A000", f"COPY {name.upper()} requires CSV mode")
    if options.get("format") == "binary" and options.keys() & {"delimiter", "null", "header"}:
        raise PgError("42601", "cannot specify DELIMITER, NULL or HEADER in BINARY mode")
    for name in ("delimiter", "quote", "escape"):
        if name in options and len(options[name].encode()) != 1:
            raise PgError("22023", f"COPY {name} must be a single one-byte character")
