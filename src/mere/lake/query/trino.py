"""Views that Spark wrote, in Trino's SQL, as far as that is proven to give the same rows.

Nothing of it is stored: what is proven grows with mere, and the types of the tables behind a view may change. So the
REST catalog translates a view whenever Trino asks for it, as `mere sql` does for DuckDB.
"""

from __future__ import annotations

from mere.errors import QueryError
from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.query.types import spark_type
from mere.lake.query.views import Lookup, SchemaOf, columns_of, qualified
from mere.names import TableName
from mere.sql.spelling.standard import literal, quoted
from mere.sql.trino.types import in_trino

DIALECT = "trino"


def translate(name: str, view: Metadata, catalog: str, lookup: Lookup, schema: SchemaOf) -> str:
    """The view's query in Trino, where `catalog` is the ref; QueryError if it is not proven to be the same there."""
    version = view.view_version
    found = {each.get("dialect", "spark").lower(): each["sql"] for each in version.get("representations", [])}
    if DIALECT in found:
        return str(found[DIALECT])
    if "spark" not in found:
        raise QueryError(f"View {name} is written in {' and '.join(found) or 'no'} SQL alone.")
    return _with_declared_columns(translated(name, found["spark"], version, catalog, lookup, schema), view.schema)


def translated(name: str, sql: str, version: Json, catalog: str, lookup: Lookup, schema: SchemaOf) -> str:
    """A query of Spark's in Trino's SQL. `version`: what names without a schema mean in it."""
    import sqlglot

    from mere.sql.spark.read import read
    from mere.sql.spark.translate import translate as translate_query
    from mere.sql.trino.translate import ENGINE

    try:
        query = read(sql)
        tables = qualified(name, query, version, lambda table: (catalog, table.namespace, table.name), lookup)
        translate_query(query, lambda table: columns_of(schema(tables[id(table)])), ENGINE)
        return query.sql(dialect=DIALECT, identify=True, unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise unreadable(name, str(error).splitlines()[0]) from error


def unreadable(name: str, why: str) -> QueryError:
    return QueryError(
        f"View {name} cannot be read from Trino: {why.rstrip('.')}.",
        remedy="Write it otherwise, or make it a table: kind: full.",
    )


def answered(name: TableName, view: Metadata, catalog: str, lookup: Lookup, schema: SchemaOf) -> Json:
    """The metadata of a view for the Trino that has the ref as this catalog, in which Trino looks for its tables. A
    view that is not proven to be the same there is a query that fails, and says why: an error here would end every
    list of views."""
    try:
        sql = translate(str(name), view, catalog, lookup, schema)
    except QueryError as error:
        sql = _failing(str(error), view.schema)
    version = view.view_version
    others = [each for each in version.get("representations", []) if each.get("dialect", "").lower() != DIALECT]
    own = {"type": "sql", "sql": sql, "dialect": DIALECT}
    told = {**version, "default-catalog": catalog, "representations": [*others, own]}
    return {**view.raw, "versions": [told if each is version else each for each in view.raw["versions"]]}


def _failing(why: str, schema: Json) -> str:
    nothing = ", ".join(f"CAST(NULL AS {type_}) AS {quoted(name)}" for name, type_ in _columns(schema) if type_)
    return f"SELECT {nothing or '1'} FROM (VALUES 1) AS v(c0) WHERE CAST(fail({literal(why)}) AS BOOLEAN)"


def _with_declared_columns(sql: str, schema: Json) -> str:
    made = _columns(schema)
    given = [f"c{at}" for at in range(len(made))]
    casts = [f"CAST({at} AS {type_})" if type_ else at for at, (_, type_) in zip(given, made, strict=True)]
    wanted = ", ".join(f"{cast} AS {quoted(name)}" for cast, (name, _) in zip(casts, made, strict=True))
    return f"SELECT {wanted} FROM ({sql}) AS v({', '.join(given)})"


def _columns(schema: Json) -> list[tuple[str, str | None]]:
    return [(field["name"], in_trino(spark_type(field["type"]))) for field in schema["fields"]]
