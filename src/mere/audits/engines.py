"""Who runs the audits' queries: Spark, where tables are built; DuckDB, where they are only read."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from mere.audits.evaluate import Rows
from mere.errors import QueryError

if TYPE_CHECKING:
    from mere.engine.session import Session
    from mere.lake.lake import Lake


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

    def rows(sql: str) -> list[dict[str, Any]]:
        with lake.sql(duckdb_sql(sql), commit) as result:
            names = [column.name for column in result.columns]
            return [dict(zip(names, row, strict=True)) for row in result.rows()]

    return rows


def duckdb_sql(sql: str) -> str:
    """A query in DuckDB's SQL; QueryError if it would mean something else there."""
    import sqlglot

    from mere.lake.query import spark

    try:
        query = sqlglot.parse_one(sql, dialect=spark.SparkView)
        spark.mend(query)
        return query.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise QueryError(
            f"DuckDB cannot run this audit as Spark would: {str(error).splitlines()[0].rstrip('.')}.",
            remedy="Run it on Spark: mere audit --spark",
        ) from error
