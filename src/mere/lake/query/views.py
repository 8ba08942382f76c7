"""Views that Spark wrote, in DuckDB's SQL.

A view is read the way Spark reads it: its names are looked up on the ref on which it is read, names without a schema
in the view's default namespace, and its columns get by position the names and types that stand in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mere.errors import QueryError
from mere.lake.guards import current_version
from mere.lake.metadata import Json, Metadata
from mere.lake.query.columns import columns, quoted
from mere.names import TableName

if TYPE_CHECKING:
    from sqlglot import exp

_OURS = "duckdb"
_DIALECTS = (_OURS, "spark")  # by preference; after them whatever sqlglot can read

# A name's parts as written, to the table that they mean, or None.
Lookup = Callable[[Sequence[str]], TableName | None]


@dataclass(frozen=True)
class Translation:
    sql: str
    tables: tuple[TableName, ...]


def translate(name: str, view: Metadata, database: str, lookup: Lookup) -> Translation:
    """The view's query for DuckDB, its tables named in full, in this database."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    version = current_version(view)
    representation = _representation(name, version)
    dialect = representation["dialect"].lower()
    try:
        query = sqlglot.parse_one(representation["sql"], dialect=dialect)
        if not isinstance(query, exp.Query):
            raise QueryError(f"View {name} is not a query.")
        # A name that is defined by a WITH around it is not a table: the scopes know.
        sources = [source for scope in traverse_scope(query) for source in scope.sources.values()]
        found: dict[TableName, None] = {}
        for table in {id(each): each for each in sources if isinstance(each, exp.Table)}.values():
            found[_resolve(name, table, version, database, lookup)] = None
        sql = query.sql(dialect=_OURS, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise untranslatable(name, f"{type(error).__name__}: {str(error).splitlines()[0]}", dialect) from error
    return Translation(_with_declared_columns(sql, view, version), tuple(found))


def untranslatable(name: str, why: str, dialect: str = "spark") -> QueryError:
    return QueryError(
        f"View {name} is written in {dialect} SQL that mere sql cannot translate for DuckDB: {why}",
        remedy="Query its tables instead, or read it with Spark.",
    )


def _representation(name: str, version: Json) -> Json:
    found = {each.get("dialect", "spark").lower(): each for each in version.get("representations", [])}
    if not found:
        raise QueryError(f"View {name} has no SQL in its metadata.")
    return next((found[dialect] for dialect in _DIALECTS if dialect in found), next(iter(found.values())))


def _resolve(view: str, table: exp.Table, version: Json, database: str, lookup: Lookup) -> TableName:
    from sqlglot import exp

    parts = [part.name for part in table.parts]
    if len(parts) == 1:
        parts = [*version.get("default-namespace", []), *parts]
    elif parts[0] == version.get("default-catalog"):
        parts = parts[1:]  # Spark's own name for the branch on which the view was made
    found = lookup(parts)
    if found is None:
        raise QueryError(f"View {view} reads {'.'.join(parts)}, which is not a table of the ref it is read on.")
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
    table.set("this", exp.to_identifier(found.name, quoted=True))
    table.set("db", exp.to_identifier(found.namespace, quoted=True))
    table.set("catalog", exp.to_identifier(database, quoted=True))
    table.set("alias", alias)
    return found


def _with_declared_columns(sql: str, view: Metadata, version: Json) -> str:
    schema = next(each for each in view.raw["schemas"] if each["schema-id"] == version["schema-id"])
    declared = columns(schema)
    given = [f"c{at}" for at in range(len(declared))]
    casts = [f"CAST({at} AS {type_})" if type_ else at for at, (_, type_) in zip(given, declared, strict=True)]
    wanted = ", ".join(f"{cast} AS {quoted(name)}" for cast, (name, _) in zip(casts, declared, strict=True))
    return f"SELECT {wanted} FROM ({sql}) AS v({', '.join(given)})"
