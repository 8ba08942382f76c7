"""Finds what the SQL of a view reads beside tables: files, settings, Java, commands. Its readers run it, with their
rights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

# Functions in FROM that make rows of their arguments alone; others could read files, or run SQL in a string.
_TABLES_OF_VALUES = {
    "duckdb": frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"}),
    "spark": frozenset(
        {"range", "explode", "posexplode", "inline", "stack", "json_tuple", "variant_explode", "collations"}
        | {"explode_outer", "posexplode_outer", "inline_outer", "variant_explode_outer", "sql_keywords"}
    ),
}
_JAVA = frozenset({"reflect", "java_method", "try_reflect"})
_OF_THE_READER = _JAVA | {
    *("current_setting", "getenv", "getvariable", "which_secret"),
    *("from_protobuf", "to_protobuf"),  # by a file that describes the message
    "identifier",  # makes a table or a function of any string
}
_FORMATS = frozenset({"avro", "binaryfile", "csv", "delta", "hudi", "iceberg", "json", "orc", "parquet", "text", "xml"})
# Spark also takes the name of a class for a format, and a path of the folder in which it runs.
_PATH = frozenset("/\\:.*")
_FOLDERS = frozenset("/:")
# Also in what looks like a string or a comment here: Spark's tokens could begin and end elsewhere.
_IN_SPARK = re.compile(
    rf"\b(?P<function>{'|'.join(sorted(_JAVA))}|identifier|from_protobuf|to_protobuf)\b`?\s*(?:(?:--|/\*)[^(]*)?\("
    r"|\busing\s*(?P<command>(?:(?:--|/\*)[^'\"]*)?r?['\"])|(?P<variable>\$\{)",
    re.IGNORECASE,
)


def outside(query: exp.Expr, dialect: str) -> str | None:
    """The first such thing, as a verb and its object; None: the query reads tables alone."""
    from sqlglot import exp

    is_query = isinstance(query, exp.Query | exp.Values)
    if not is_query or query.find(exp.DML, exp.DDL, exp.Summarize, exp.Describe, exp.Command):
        return "is not a plain query"
    if query.find(exp.QueryTransform):
        return "runs a command, by TRANSFORM"
    for table in query.find_all(exp.Table):
        of_file = _PATH if table.db.lower() in _FORMATS else _FOLDERS
        if of_file & set(table.name) or (table.db and _PATH & set(table.db)):
            return f"reads the file {table.name}"
    if (why := _table_function(query, dialect)) is not None:
        return why
    if dialect == "duckdb" and (why := _out_of_scope(query)) is not None:
        return why
    return next((f"calls {name}()" for name in map(_name, query.find_all(exp.Func)) if name in _OF_THE_READER), None)


def hidden(sql: str, dialect: str) -> str | None:
    """The same of a text which Spark itself may read otherwise than it was read here."""
    if dialect != "spark":
        return None
    if (found := _IN_SPARK.search(sql)) is not None:
        if found["variable"]:
            return "has ${…}, for which Spark puts settings of the reader"
        return f"calls {found['function'].lower()}()" if found["function"] else "runs a command, by TRANSFORM"
    import sqlglot

    for token in sqlglot.tokenize(sql, dialect=dialect):
        if any("/*" in comment or comment.rstrip("\r").endswith("\\") for comment in token.comments):
            return "has a comment whose end is not clear (another comment in it, or a backslash at its end)"
    return None


def _table_function(query: exp.Expr, dialect: str) -> str | None:
    """A function in FROM, or beside it, that may read more than its arguments."""
    from sqlglot import exp

    known = _TABLES_OF_VALUES.get(dialect)
    if known is None:
        return None
    for place in query.find_all(exp.Table, exp.Lateral):
        function = place.this
        if isinstance(function, exp.Func) and not isinstance(function, exp.Query) and _name(function) not in known:
            return f"calls {_name(function)}()"
    return None


def _out_of_scope(query: exp.Expr) -> str | None:
    """Where DuckDB looks up by itself what nobody has named in full."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    known = {id(table) for scope in traverse_scope(query) for table in scope.tables}
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Func) and id(table) not in known:
            return f"reads {table.sql()} in a place where tables are not looked up"
    return None


def _name(function: exp.Func) -> str:
    from sqlglot import exp

    return (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
