"""The rows of a database as Spark reads them over JDBC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mere.engine.translate import is_from_spark
from mere.errors import SourceError
from mere.sources.database import cut, is_cut, is_postgres, low, reading
from mere.sources.source import Database, Portion, Source
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_DRIVER = ("No suitable driver", "ClassNotFoundException", "CLASS_NOT_FOUND")


def frame(source: Source, portion: Portion, spark: SparkSession) -> DataFrame:
    """Columns are called as in the database. `source`: with the values of its variables."""
    database = _database(source)
    how = reading(database, portion, source.columns)
    if how.columns is not None:
        rows = _read(how.options, spark)
        return rows.selectExpr(*(f"{sql} AS {quoted(name)}" for name, sql in how.columns.items()))
    rows = _of_portion(database, portion, _read(how.options, spark))
    if not is_cut(database):
        return rows
    column = quoted(database.partition_column or "")
    found = rows.selectExpr(f"CAST(min({column}) AS STRING)", f"CAST(max({column}) AS STRING)").first()
    if found is None or found[0] in (None, found[1]):
        return rows
    parts = cut(database.partition_column or "", (found[0], found[1]), database.partitions)
    return _of_portion(database, portion, _read({**how.options, **parts}, spark))


def bounded(source: Source, portion: Portion, spark: SparkSession) -> Portion:
    """The portion with the newest value of its cursor, where only Spark could ask the database for it."""
    database = _database(source)
    if database.cursor is None or portion.until is not None or is_postgres(database):
        return portion
    rows = _read(reading(database, portion, source.columns).options, spark)
    found = rows.selectExpr(f"CAST(max({quoted(database.cursor)}) AS STRING)").first()
    return replace(portion, until=found[0] if found else None)


def tail(database: Database, portion: Portion, column: str, kind: str) -> str | None:
    """Which rows of the table a portion replaces where there is no key; None: all of them. `kind`: of the column."""
    since = low(database, portion)
    return None if since is None else f"{quoted(column)} >= CAST({text_literal(since)} AS {kind})"


def _of_portion(database: Database, portion: Portion, rows: DataFrame) -> DataFrame:
    """By conditions that Spark puts into the words of the database."""
    if database.cursor is None or portion.until is None:
        return rows
    cursor, kind = quoted(database.cursor), rows.schema[database.cursor].dataType.simpleString()
    up_to = f"{cursor} <= CAST({text_literal(portion.until)} AS {kind})"
    since = low(database, portion)
    if since is None:
        return rows.where(f"{up_to} OR {cursor} IS NULL")
    return rows.where(f"{up_to} AND {cursor} >= CAST({text_literal(since)} AS {kind})")


def _read(options: Mapping[str, str], spark: SparkSession) -> DataFrame:
    try:
        rows = spark.read.format("jdbc").options(**options).load()
        assert rows.schema  # a server of Spark looks at the address only now
    except Exception as error:
        if is_from_spark(error) and any(words in str(error) for words in _NO_DRIVER):
            raise SourceError(
                "Spark has no driver for this database.",
                remedy="Download its jar, and name the file in mere.yaml: spark: {conf: {spark.jars: /path/to.jar}}.",
            ) from None
        raise
    return rows


def _database(source: Source) -> Database:
    assert isinstance(source.feed, Database)
    return source.feed
