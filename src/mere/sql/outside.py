"""Finds what the SQL of a view reads beside tables: files, settings, Java. Its readers run it, with their rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

# Functions in FROM that make rows of their arguments alone; others could read files, or run SQL in a string.
_TABLES_OF_VALUES = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
_OF_THE_READER = frozenset(
    {"current_setting", "getenv", "getvariable", "which_secret", "reflect", "java_method", "try_reflect"}
)
_FORMATS = frozenset({"avro", "binaryfile", "csv", "delta", "hudi", "iceberg", "json", "orc", "parquet", "text", "xml"})


def outside(query: exp.Expr, dialect: str) -> str | None:
    """The first such thing, as a verb and its object; None: the query reads tables alone."""
    from sqlglot import exp

    for table in query.find_all(exp.Table):
        if table.db.lower() in _FORMATS and set(table.name) & set("/:"):
            return f"reads the file {table.name}"
    if dialect == "duckdb" and (why := _outside_in_duckdb(query)) is not None:
        return why
    return next((f"calls {name}()" for name in map(_name, query.find_all(exp.Func)) if name in _OF_THE_READER), None)


def _outside_in_duckdb(query: exp.Expr) -> str | None:
    """Where DuckDB knows many functions that read files, and looks up by itself what nobody has named in full."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    if not isinstance(query, exp.Query) or query.find(exp.Summarize, exp.Describe, exp.Command):
        return "is not a plain query"
    known = {id(table) for scope in traverse_scope(query) for table in scope.tables}
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            if (name := _name(table.this)) not in _TABLES_OF_VALUES:
                return f"calls {name}()"
        elif id(table) not in known:
            return f"reads {table.sql()} in a place where tables are not looked up"
    return None


def _name(function: exp.Func) -> str:
    from sqlglot import exp

    return (function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
