"""Who runs an audit's queries: Spark where tables are built, DuckDB where they are only read."""

from __future__ import annotations

from datetime import UTC
from functools import cache
from typing import TYPE_CHECKING, Any

from mere.audits.evaluate import Rows
from mere.errors import QueryError

if TYPE_CHECKING:
    from sqlglot import exp

    from mere.engine.session import Session
    from mere.lake.lake import Lake
    from mere.sql.spark.inference import ColumnsOf
    from mere.sql.spark.types import Columns


def on_spark(session: Session) -> Rows:
    """At the ref that the session uses."""
    from pyspark.sql.types import TimestampType

    from mere.engine.translate import explain, is_from_spark

    def rows(sql: str) -> list[dict[str, Any]]:
        try:
            found = session.spark.sql(sql)
            instants = [field.name for field in found.schema if isinstance(field.dataType, TimestampType)]
            collected = [row.asDict(recursive=True) for row in found.collect()]
        except Exception as exc:
            if is_from_spark(exc):
                raise explain(exc) from exc
            raise
        for row in collected:
            # PySpark gives them in the local zone, without saying so.
            row.update({name: row[name].astimezone(UTC) for name in instants if row[name] is not None})
        return collected

    return rows


def on_duckdb(lake: Lake, at: str) -> Rows:
    """At one commit, however the ref moves meanwhile."""
    commit = lake.at(at).commit.id
    columns_of = columns_at(lake, commit)

    def rows(sql: str) -> list[dict[str, Any]]:
        with lake.sql(duckdb_sql(sql, columns_of), commit) as result:
            names = [column.name for column in result.columns]
            return [dict(zip(names, row, strict=True)) for row in result.rows()]

    return rows


def columns_at(lake: Lake, at: str) -> ColumnsOf:
    """Of the tables of a ref, which is looked up when the first is asked for."""
    from mere.lake.query.bindings import Directory, schema_of
    from mere.lake.query.views import columns_of

    directory = cache(lambda: Directory(lake.at(at)))

    def columns(table: exp.Table) -> Columns:
        parts = [part.name for part in table.parts]
        found = directory().find(parts) if len(parts) > 1 else None
        if found is None:
            raise ValueError(f"there is no table {'.'.join(parts)}")
        return columns_of(schema_of(directory().tables, found))

    return columns


def duckdb_sql(sql: str, columns_of: ColumnsOf) -> str:
    """A query in DuckDB's SQL; QueryError if it is not proven to mean the same there."""
    import sqlglot

    from mere.sql.duckdb.translate import translate
    from mere.sql.spark.read import read

    try:
        query = read(sql)
        translate(query, columns_of)
        return query.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise QueryError(
            f"DuckDB cannot run this audit as Spark would: {str(error).splitlines()[0].rstrip('.')}.",
            remedy="Run it on Spark: mere audit --spark",
        ) from error
