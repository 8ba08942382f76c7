"""Postgres's SQL as sqlglot reads it, with every function left as written.

sqlglot knows hundreds of functions and renames them on the way to another dialect. Here each is looked up by the name
that the client wrote: what is not in `functions` is refused, so that nothing passes only because sqlglot knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import Token, TokenType

from mere.serve.access import limits
from mere.serve.parse import lexer
from mere.serve.protocol.port import PgError

# Those with a grammar of their own: substring(x FROM 2 FOR 3).
_GRAMMAR = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM")


class _Parser(PostgresParser):
    def _advance(self, times: int = 1) -> None:
        limits.go_on()
        super()._advance(times)

    # After AS, every word is a name: `1 AS select`.
    RESERVED_TOKENS: ClassVar = PostgresParser.RESERVED_TOKENS - {TokenType.SELECT}
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {name: PostgresParser.FUNCTION_PARSERS[name] for name in _GRAMMAR}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        name: parser for name, parser in PostgresParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("ANY", "CASE")
    } | {"ALL": lambda self: self.expression(exp.All(this=self._parse_bitwise()))}


class Dialect(Postgres):
    Parser = _Parser

    def tokenize(self, sql: str, dialect: object = None) -> list[Token]:  # noqa: ARG002
        return lexer.tokens(sql)


DIALECT = Dialect()
# Types whose names can be called as functions: the others are words of the grammar.
_TYPES = frozenset({
    "bool", "bpchar", "bytea", "date", "float4", "float8", "int2", "int4", "int8", "json", "jsonb", "name", "oid",
    "regclass", "regcollation", "regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole",
    "regtype", "text", "timestamptz", "timetz", "uuid",
})  # fmt: skip


def query(found: Sequence[Token], text: str) -> exp.Expr:
    """The tree of one statement's tokens."""
    try:
        (tree,) = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE).parse(list(found), text)
    except ParseError as error:
        raise _syntax_error(error, found, text) from error
    except SqlglotError as error:
        raise PgError("42601", _first_line(error, "syntax error")) from error
    except RecursionError:
        raise too_complex() from None
    except (ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
        # sqlglot stumbles over some texts that are no SQL at all.
        raise unexpected(found[0]) from error
    if tree is None:
        raise unexpected(found[0])
    for column in list(tree.find_all(exp.Column)):
        if column.name.upper() == "USER" and not column.table and not column.this.quoted:
            column.replace(exp.Anonymous(this="user"))
    for called in list(tree.find_all(exp.Anonymous)):
        if called.name.lower() in _TYPES and len(called.expressions) == 1:
            _as_cast(called)
    return tree


def _as_cast(called: exp.Anonymous) -> None:
    """`int4(x)` is a cast, also as `pg_catalog.int4(x)`."""
    whole = called.parent if isinstance(called.parent, exp.Dot) else called
    if whole is not called and whole.this.name.lower() != "pg_catalog":
        return
    whole.replace(exp.cast(called.expressions[0], called.name.lower(), dialect="postgres"))


def expression(text: str) -> exp.Expr:
    """What stands by itself, such as a template of the catalogs."""
    (found,) = expressions(text)
    return found


def expressions(text: str) -> list[exp.Expr]:
    """As many as a text has, of a role's filter for one."""
    try:
        return [each for each in sqlglot.parse(text, dialect=DIALECT) if each is not None]
    except (SqlglotError, RecursionError) as error:
        raise PgError("42601", f"this is not a condition: {text}") from error


def unexpected(token: Token | None) -> PgError:
    if token is None:
        return PgError("42601", "syntax error at end of input")
    return PgError("42601", f'syntax error at or near "{_shown(token)}"', position=token.start + 1)


def too_complex() -> PgError:
    return PgError("54001", "the statement is nested too deeply")


def is_word(token: Token | None, *words: str) -> bool:
    """Whether a token is one of these, written without quotes."""
    return token is not None and token.token_type not in _QUOTED and token.text.upper() in words


def is_name(token: Token | None) -> bool:
    if token is None or token.token_type is TokenType.STRING:
        return False
    return token.token_type is TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()


def name(token: Token) -> str:
    """A name as Postgres takes it: in lower case, unless it is quoted."""
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()


def is_string(token: Token | None) -> bool:
    return token is not None and token.token_type is TokenType.STRING


_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})


def _shown(token: Token) -> str:
    return f"'{token.text}'" if token.token_type is TokenType.STRING else token.text


def _syntax_error(error: ParseError, found: Sequence[Token], text: str) -> PgError:
    about = error.errors[0] if error.errors else {}
    line, column = about.get("line"), about.get("col")
    if line is None or column is None:
        return PgError("42601", _first_line(error, "syntax error"))
    # sqlglot tells where the token ends that it did not expect.
    at = next((token for token in found if token.line == line and token.col == column), None)
    if at is None or at is found[-1]:
        if at is not None and about.get("highlight") == text[at.start : at.end + 1]:
            return unexpected(at)
        return unexpected(None)
    return unexpected(at)


def _first_line(error: Exception, otherwise: str) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else otherwise
