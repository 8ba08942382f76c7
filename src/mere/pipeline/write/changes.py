"""The rows of a table that changed between two of its snapshots, for Spark to read.

Where rows were only appended, Iceberg tells which. Otherwise the two snapshots are compared row by row: by DuckDB, that
need not read the files which both have, or by Spark where that is too much for one process. (Iceberg's own changelog
fails on tables with delete files.)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mere.engine.frames import from_arrow
from mere.errors import RunFailed
from mere.lake.iceberg.metadata import Metadata
from mere.lake.query.tables import TableSet
from mere.lake.storage.port import Storage
from mere.names import TableName
from mere.pipeline.state.replaced import only_added
from mere.pipeline.state.state import Points
from mere.sql.spelling.spark import name_of, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# Of rows that came and went; INSERT and DELETE, or for one that has a key before and after, the two others.
CHANGE = "_change"
INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_before", "update_after"
_NET = "mere_net"  # how often a row came, less how often it went


@dataclass(frozen=True)
class Between:
    """A table, and two of its snapshots. Both are read with the columns that the table has now."""

    table: TableName
    metadata: Metadata  # as it stands on the branch of the run; it has both snapshots
    since: int | None  # None: the table was empty
    to: int | None
    storage: Storage

    def __bool__(self) -> bool:
        """Whether there is anything in between."""
        return self.since != self.to

    @cached_property
    def appends_only(self) -> bool:
        if self.since is None:
            return True
        snapshot = self.metadata.snapshot(self.to)
        while snapshot is not None and snapshot.id != self.since:
            if snapshot.operation not in ("append", "replace"):
                return False
            snapshot = self.metadata.snapshot(snapshot.parent)
        return snapshot is not None

    @cached_property
    def keeps_all(self) -> bool:
        """Whether every row of the first snapshot still stands at the second."""
        from mere.lake.diff.changes import taken_away
        from mere.lake.iceberg.timeline import Timeline

        if self.appends_only:
            return True
        way = self.metadata.since(self.since)
        timeline = Timeline(str(self.table), self.metadata, None, self.storage)
        went = taken_away(timeline, way) if way is not None else None
        return went is not None and not went.old


@dataclass(frozen=True)
class Inputs:
    """Where the tables that a model reads stood when it was last built, and stand now on the branch of the run."""

    since: Points
    to: Points
    tables: TableSet

    def between(self, table: TableName) -> Between:
        name, storage = str(table), self.tables.reader.storage
        since = self.since[name].snapshot if name in self.since else None
        return Between(table, self.tables.metadata(table), since, self.to[name].snapshot, storage)


def changed_rows(between: Between, spark: SparkSession, columns: Sequence[str] | None = None) -> DataFrame:
    """The rows that came (`_change` = insert) and went (delete), as often as they did; with all columns, or some.

    A row that was updated is there twice. What both snapshots have is not there, however it lies in files.
    """
    schema = spark.table(name_of(between.table)).schema
    wanted = schema.names if columns is None else list(columns)
    if any(name.casefold() == CHANGE for name in wanted):
        raise RunFailed(
            f"{between.table} has a column {CHANGE}, the name that mere uses to say what happened to a row.",
            remedy=f"Rename it where the table is made: {CHANGE} AS change",
        )
    if not between:
        return _marked(spark.table(name_of(between.table)).where("false"), wanted, INSERT)
    if between.appends_only:
        return _marked(_appended(between, schema, spark), wanted, INSERT)
    found = _by_duckdb(between, wanted)
    return _by_spark(between, wanted, schema, spark) if found is None else _frame(found, wanted, schema, spark)


def added_rows(between: Between, spark: SparkSession) -> DataFrame:
    """Of rows that came and went, those that just came: for whoever leaves out what was exchanged."""
    if between.keeps_all:
        came = changed_rows(between, spark)
        return came.where(f"{CHANGE} = '{INSERT}'").drop(CHANGE)
    frame = spark.table(name_of(between.table)).where("false")
    for start, end in only_added(between.metadata, between.since) or ():
        frame = frame.unionByName(appended(between.table, start, end, spark))
    return frame


def appended(table: TableName, start: int, end: int, spark: SparkSession) -> DataFrame:
    """The rows that the snapshots after the first, up to the second, have appended.

    Read by its format, not by `table()`: a server resolves a whole plan at once, and there Spark takes a table that is
    read twice for the same, whatever the options of each are.
    """
    reader = spark.read.format("iceberg").option("start-snapshot-id", str(start)).option("end-snapshot-id", str(end))
    return reader.load(name_of(table))


def changed_keys(between: Between, key: Mapping[str, str], spark: SparkSession) -> DataFrame:
    """The keys of the rows that came and went, each once: a column for each name, by its expression in Spark's SQL."""
    schema = spark.table(name_of(between.table)).schema
    rows = changed_rows(between, spark, _columns_in(key.values(), schema))
    return rows.selectExpr(*(f"{expression} AS {quoted(name)}" for name, expression in key.items())).distinct()


def with_updates(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Changed rows, where a key that went and came again was updated."""
    if not key:
        return rows
    of_key = f"OVER (PARTITION BY {', '.join(map(quoted, key))})"
    both = f"bool_or({CHANGE} = '{INSERT}') {of_key} AND bool_or({CHANGE} = '{DELETE}') {of_key}"
    update = f"IF({CHANGE} = '{INSERT}', '{UPDATE_AFTER}', '{UPDATE_BEFORE}')"
    columns = [quoted(name) for name in rows.columns if name != CHANGE]
    return rows.selectExpr(*columns, f"IF({both}, {update}, {CHANGE}) AS {CHANGE}")


def _columns_in(expressions: Collection[str], schema: StructType) -> list[str]:
    from sqlglot import exp, parse_one

    from mere.sql.spark.read import SparkView

    trees = [parse_one(text, dialect=SparkView) for text in expressions]
    names = {column.parts[0].name.casefold() for tree in trees for column in tree.find_all(exp.Column)}
    return [name for name in schema.names if name.casefold() in names]


def _marked(frame: DataFrame, wanted: Sequence[str], change: str) -> DataFrame:
    return frame.selectExpr(*map(quoted, wanted), f"'{change}' AS {quoted(CHANGE)}")


def _appended(between: Between, schema: StructType, spark: SparkSession) -> DataFrame:
    if between.since is None:
        return _at(between, between.to, schema, spark)
    assert between.to is not None  # it has snapshots since
    return appended(between.table, between.since, between.to, spark)


def _at(between: Between, snapshot: int | None, schema: StructType, spark: SparkSession) -> DataFrame:
    """The table as it was, with the columns that it has now: those that it did not have are NULL in every row."""
    from pyspark.sql.functions import col, lit

    if snapshot is None:
        return spark.table(name_of(between.table)).where("false")
    frame = spark.sql(f"SELECT * FROM {name_of(between.table)} VERSION AS OF {snapshot}")
    then = _names_then(between.metadata, snapshot)
    return frame.select(
        *(
            (col(quoted(then[each.name])) if each.name in then else lit(None)).cast(each.dataType).alias(each.name)
            for each in schema
        )
    )


def _names_then(metadata: Metadata, snapshot: int) -> dict[str, str]:
    """What the columns of now were called, as far as they were there."""
    found = metadata.snapshot(snapshot)
    now = metadata.schema
    then = metadata.schemas.get(found.schema, now) if found and found.schema is not None else now
    names = {field["id"]: field["name"] for field in then["fields"]}
    return {field["name"]: names[field["id"]] for field in now["fields"] if field["id"] in names}


def _by_duckdb(between: Between, wanted: Sequence[str]) -> pa.Table | None:
    from mere.lake.diff import changed_rows as changedrows

    if between.since is None or between.to is None:
        return None
    table, storage = str(between.table), between.storage
    return changedrows.changed_rows(table, between.metadata, between.since, between.to, wanted, storage)


def _frame(found: pa.Table, wanted: Sequence[str], schema: StructType, spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import col

    given = [f"c{at}" for at in range(len(wanted))]
    frame = from_arrow(spark, found.rename_columns([*given, _NET]))
    columns = [col(each).cast(schema[name].dataType).alias(name) for each, name in zip(given, wanted, strict=True)]
    return _counted(frame.select(*columns, _NET), wanted)


def _counted(frame: DataFrame, wanted: Sequence[str]) -> DataFrame:
    """Each row as often as it came or went, which becomes a word."""
    words = f"explode(array_repeat(IF({_NET} > 0, '{INSERT}', '{DELETE}'), CAST(abs({_NET}) AS int)))"
    return frame.selectExpr(*map(quoted, wanted), f"{words} AS {quoted(CHANGE)}")


def _by_spark(between: Between, wanted: Sequence[str], schema: StructType, spark: SparkSession) -> DataFrame:
    from pyspark.sql.functions import col, expr, first, lit
    from pyspark.sql.functions import sum as total

    sides = [
        _at(between, snapshot, schema, spark).withColumn(_NET, lit(net))
        for snapshot, net in ((between.since, -1), (between.to, 1))
    ]
    compared = [expr(comparable(quoted(each.name), each.dataType)).alias(f"c{at}") for at, each in enumerate(schema)]
    values = [first(col(quoted(name))).alias(f"w{at}") for at, name in enumerate(wanted)]
    differing = sides[0].unionAll(sides[1]).groupBy(*compared).agg(*values, total(_NET).alias(_NET))
    named = [col(f"w{at}").alias(name) for at, name in enumerate(wanted)]
    return _counted(differing.where(f"{_NET} <> 0").select(*named, _NET), wanted)


def comparable(value: str, kind: DataType) -> str:
    """An expression that can be compared, grouped and ordered where the value can: Spark does none of it with maps."""
    return value if is_comparable(kind) else f"to_json(struct({value}), map('ignoreNullFields', 'false'))"


def is_comparable(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, StructType

    match kind:
        case ArrayType():
            return is_comparable(kind.elementType)
        case StructType():
            return all(is_comparable(each.dataType) for each in kind)
    return kind.typeName() not in ("map", "variant")
