"""SHOW SCHEMAS and SHOW TABLES, which Trino, Spark and DuckDB have: answered from information_schema."""

from __future__ import annotations

from mere.serve.builtin.names import quoted
from mere.serve.language.query import ParsedQuery
from mere.serve.parse import lexer, syntax
from mere.serve.parse.words import Words
from mere.sql.spelling.standard import literal

_OF_SYSTEM = "('pg_catalog', 'information_schema')"


def query(words: Words) -> ParsedQuery | None:
    """None if it is a setting that is to be shown. FROM names the database for SCHEMAS, the schema for TABLES."""
    if words.skip("SCHEMAS"):
        database = words.name() if words.skip("FROM", "IN") else None
        return _query(
            f"SELECT schema_name AS schema FROM {_relation('schemata', database)}"
            f" WHERE schema_name NOT IN {_OF_SYSTEM}{_like(words, 'schema_name')} ORDER BY 1"
        )
    if not words.skip("TABLES"):
        return None
    database, schema = _place(words)
    wanted = f"NOT IN {_OF_SYSTEM}"
    if schema is not None:  # has_schema_privilege says so if there is none
        wanted = f"= {literal(schema)} AND has_schema_privilege({literal(schema)}, 'USAGE')"
    return _query(
        f'SELECT table_schema AS schema, table_name AS "table" FROM {_relation("tables", database)}'
        f" WHERE table_schema {wanted}{_like(words, 'table_name')} ORDER BY 1, 2"
    )


def _place(words: Words) -> tuple[str | None, str | None]:
    """FROM gold, FROM main.gold."""
    if not words.skip("FROM", "IN"):
        return None, None
    first = words.name()
    return (first, words.name()) if words.skip(".") else (None, first)


def _like(words: Words, column: str) -> str:
    pattern = ""
    if words.skip("LIKE"):
        token = words.take()
        if not syntax.is_string(token):
            raise syntax.unexpected(token)
        pattern = f" AND {column} LIKE {literal(token.text)}"
    words.end()
    return pattern


def _relation(name: str, database: str | None) -> str:
    return f"information_schema.{name}" if database is None else f"{quoted(database)}.information_schema.{name}"


def _query(text: str) -> ParsedQuery:
    return ParsedQuery(lexer.tokens(text), text)
