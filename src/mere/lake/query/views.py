"""Views that Spark wrote, in DuckDB's SQL.

A view is read the way Spark reads it: its names are looked up on the ref on which it is read, names without a schema
in the view's default namespace, and its columns get by position the names and types that stand in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mere.errors import QueryError
from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.query.types import columns, spark_type
from mere.names import TableName
from mere.sql.outside import outside
from mere.sql.spark.types import Columns
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    from sqlglot import exp

_OURS = "duckdb"
_DIALECTS = (_OURS, "spark")  # by preference; of no other is it proven what it means in DuckDB

# A name's parts as written, to the table that they mean, or None.
Lookup = Callable[[Sequence[str]], TableName | None]
# A table's name in DuckDB: database, schema, name.
Place = Callable[[TableName], tuple[str, str, str]]
# A table's schema, or a view's, in Iceberg's words.
SchemaOf = Callable[[TableName], Json]


@dataclass(frozen=True)
class Translation:
    sql: str
    tables: tuple[TableName, ...]


def translate(name: str, view: Metadata, place: Place, lookup: Lookup, schema: SchemaOf) -> Translation:
    """The view's query for DuckDB, its tables named in full, as `place` says; `schema`: of a table that it reads."""
    import sqlglot

    from mere.sql.duckdb.translate import translate as for_duckdb
    from mere.sql.spark.read import read

    version = view.view_version
    representation = _representation(name, version)
    dialect = representation.get("dialect", "spark").lower()
    try:
        is_spark = dialect == "spark"
        query = read(representation["sql"]) if is_spark else sqlglot.parse_one(representation["sql"], dialect=dialect)
        if (
            not is_spark and (why := outside(query, dialect)) is not None
        ):  # of Spark's, all is refused that is not proven
            raise _outside(name, why)
        tables = qualified(name, query, version, place, lookup)
        if is_spark:
            for_duckdb(query, lambda table: columns_of(schema(tables[id(table)])))
        sql = query.sql(dialect=_OURS, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise untranslatable(name, str(error).splitlines()[0], dialect) from error
    return Translation(_with_declared_columns(sql, view), tuple(dict.fromkeys(tables.values())))


def _outside(view: str, why: str) -> QueryError:
    return QueryError(
        f"View {view} {why}, and a view may read only tables of the lake.",
        remedy=f"Drop it, or create it again without that: mere drop {view}",
    )


def columns_of(schema: Json) -> Columns:
    return [(field["name"], spark_type(field["type"])) for field in schema["fields"]]


def untranslatable(name: str, why: str, dialect: str = "spark") -> QueryError:
    return QueryError(
        f"View {name} is written in {dialect} SQL that mere sql cannot translate for DuckDB: {why.rstrip('.')}.",
        remedy=f'Read it with Spark: mere sql --spark "select * from {name}". Or make it a table: kind: full.',
    )


def _representation(name: str, version: Json) -> Json:
    found: dict[str, Json] = {each.get("dialect", "spark").lower(): each for each in version.get("representations", [])}
    if not found:
        raise QueryError(f"View {name} has no SQL in its metadata.")
    known = [found[dialect] for dialect in _DIALECTS if dialect in found]
    if not known:
        raise QueryError(
            f"View {name} is written in {' and '.join(found)} SQL alone: nothing shows that it would give the same"
            " values in DuckDB.",
            remedy="Read it with the engine that made it. Or make it a model of yours: kind: view, or kind: full.",
        )
    return known[0]


def qualified(view: str, query: exp.Expr, version: Json, place: Place, lookup: Lookup) -> dict[int, TableName]:
    """Write every table's name in full; which node of the query means which table."""
    from sqlglot import exp
    from sqlglot.optimizer.scope import traverse_scope

    # A name that is defined by a WITH around it is not a table: the scopes know.
    sources = [source for scope in traverse_scope(query) for source in scope.sources.values()]
    named = {id(table): table for table in sources if isinstance(table, exp.Table) and table.name}
    found: dict[int, TableName] = {}
    written = set()
    for table in named.values():
        if not isinstance(table.this, exp.Identifier):
            continue  # a function such as range(5)
        written.add((table.db.lower(), table.name.lower()))
        resolved = _resolve(view, table, version, lookup)
        found[id(table)] = resolved
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        table.set("alias", alias)
        for part, text in zip(("catalog", "db", "this"), place(resolved), strict=True):
            table.set(part, exp.to_identifier(text, quoted=True))
    # Columns follow the alias; in `t.st.a`, which looks the same, `t` is a table and `st` its column.
    for column in query.find_all(exp.Column):
        if column.args.get("db") and (column.text("db").lower(), column.table.lower()) in written:
            column.set("db", None)
            column.set("catalog", None)
    return found


def _resolve(view: str, table: exp.Table, version: Json, lookup: Lookup) -> TableName:
    parts = [part.name for part in table.parts]
    if len(parts) == 1:
        parts = [*version.get("default-namespace", []), *parts]
    elif len(parts) > 2 and parts[0] == version.get("default-catalog"):
        parts = parts[1:]  # Spark's own name for the branch on which the view was made
    found = lookup(parts)
    if found is None:
        raise QueryError(f"View {view} reads {'.'.join(parts)}, which is not a table of the ref it is read on.")
    return found


def _with_declared_columns(sql: str, view: Metadata) -> str:
    made = columns(view.schema)
    given = [f"c{at}" for at in range(len(made))]
    casts = [f"CAST({at} AS {type_})" if type_ else at for at, (_, type_) in zip(given, made, strict=True)]
    wanted = ", ".join(f"{cast} AS {quoted(name)}" for cast, (name, _) in zip(casts, made, strict=True))
    return f"SELECT {wanted} FROM ({sql}) AS v({', '.join(given)})"
