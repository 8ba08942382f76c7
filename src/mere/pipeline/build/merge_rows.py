"""Writes rows into a table by key: inserts new ones, updates those that differ, deletes those that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mere.names import TableName
from mere.pipeline.write.changes import comparable
from mere.pipeline.write.table import expr
from mere.sql.spelling.spark import name_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

# More than this Iceberg does not look for in the bounds of a file.
_LISTED = 200
_LISTABLE = ("byte", "short", "integer", "long", "string", "date")
_ROWS, _HERE = "mere_rows", "mere_here"


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """What is asked for several times is computed once."""
    persisted = frame.persist()
    try:
        yield persisted
    finally:
        persisted.unpersist()


@dataclass(frozen=True)
class Bounds:
    """Values between which keys lie, so that files without them are not read."""

    listed: Mapping[str, tuple[Any, ...]]
    ranges: Mapping[str, tuple[Any, Any]]

    @classmethod
    def of(cls, keys: DataFrame) -> Bounds:
        """`keys` is computed for it: see that it is cheap to compute again."""
        from pyspark.sql.functions import max as greatest
        from pyspark.sql.functions import min as least

        names = [each.name for each in keys.schema if each.dataType.typeName() in _LISTABLE]
        if not names:
            return cls({}, {})
        few = keys.select(*map(quoted, names)).limit(_LISTED + 1).collect()
        if len(few) <= _LISTED:
            return cls({name: tuple({row[at] for row in few}) for at, name in enumerate(names)}, {})
        values = [side(quoted(name)) for name in names for side in (least, greatest)]
        (found,) = keys.agg(*values).collect()
        return cls({}, {name: (found[2 * at], found[2 * at + 1]) for at, name in enumerate(names)})

    def near(self, name: str, value: Column) -> Column | None:
        """What holds of a value of this key column, NULL apart, if it is one of the keys; None: nothing is known."""
        if name in self.listed:
            return value.isin([each for each in self.listed[name] if each is not None])
        return value.between(*self.ranges[name]) if name in self.ranges else None

    def narrowed(self, frame: DataFrame) -> DataFrame:
        """Rows that may have one of the keys, by columns of their names."""
        for name in (*self.listed, *self.ranges):
            if (near := self.near(name, expr(quoted(name)))) is not None:
                frame = frame.where(near)
        return frame

    def having(self, frame: DataFrame, key: Sequence[tuple[str, str]], keys: DataFrame) -> DataFrame:
        """Rows that have one of the keys, by expressions over their columns; or NULL in it, which may have to be
        refused."""
        names = {name: f"mere_key_{at}" for at, (name, _) in enumerate(key)}
        for name, text in key:
            if (near := self.near(name, expr(text))) is not None:
                frame = frame.where(near | expr(text).isNull())
        same = " AND ".join(f"({text}) <=> {names[name]}" for name, text in key)
        wanted = keys.selectExpr(*(f"{quoted(name)} AS {other}" for name, other in names.items()))
        return frame.join(wanted, expr(same), "left_semi")


def merge_into(
    table: TableName,
    keys: DataFrame,
    rows: DataFrame,
    on: Sequence[str],
    spark: SparkSession,
    bounds: Bounds | None = None,
) -> None:
    """Of the keys in `keys`, the table has exactly `rows` afterwards; all else stays. One commit; rows that are there
    already are not written.

    `keys` has columns of `on`, by their names: all of them, or some, such as the key of which `rows` has versions; it
    is computed more than once. `rows` has the table's columns, at most one row for each `on`, and only of these keys.
    A key with NULL in it is none.
    """
    target = spark.table(name_of(table))
    bounds = bounds or Bounds.of(keys)
    here = rows.selectExpr("*", f"true AS {_HERE}")
    if len(keys.columns) == len(on):
        source = keys.join(here, list(on), "left")
    else:
        standing = bounds.narrowed(target).join(keys, keys.columns, "left_semi").select(*map(quoted, on))
        source = standing.join(here, list(on), "full")
    (
        source.alias(_ROWS)
        .mergeInto(name_of(table), _matched(table, on, bounds))
        .whenMatched(expr(f"{_source(_HERE)} IS NULL"))
        .delete()
        .whenMatched(expr(_differs(table, target.schema, on)))
        .updateAll()
        .whenNotMatched(expr(_source(_HERE)))
        .insertAll()
        .merge()
    )


def merge_latest(table: TableName, rows: DataFrame, on: Sequence[str], latest_by: str, spark: SparkSession) -> None:
    """Each row takes the place of the one with its key if it is later, or is added. `rows` is computed twice."""
    schema = spark.table(name_of(table)).schema
    bounds = Bounds.of(rows.select(*map(quoted, on)))
    new = order(schema, on, latest_by, _source)
    old = order(schema, on, latest_by, partial(_target, table))
    (
        rows.alias(_ROWS)
        .mergeInto(name_of(table), _matched(table, on, bounds))
        .whenMatched(expr(f"{new} > {old}"))
        .updateAll()
        .whenNotMatched()
        .insertAll()
        .merge()
    )


def latest(rows: DataFrame, on: Sequence[str], latest_by: str) -> DataFrame:
    """Of each key, the row with the greatest value; NULL is the least, and the other columns break ties."""
    whole = f"struct({', '.join(map(quoted, rows.columns))})"
    found = expr(f"max_by({whole}, {order(rows.schema, on, latest_by)})").alias(_ROWS)
    return rows.groupBy(*map(quoted, on)).agg(found).select(f"{_ROWS}.*")


def order(schema: StructType, on: Sequence[str], latest_by: str, named: Callable[[str], str] = quoted) -> str:
    """By what the rows of one key are ordered: an expression that differs wherever two of them do."""
    keys = {name.casefold() for name in on}
    first = [each for each in schema if each.name.casefold() == latest_by.casefold()]
    others = [each for each in schema if each.name.casefold() not in keys and each not in first]
    others.sort(key=lambda each: each.name.casefold())  # the table may have them in another order than the query
    return f"struct({', '.join(comparable(named(each.name), each.dataType) for each in [*first, *others])})"


def _matched(table: TableName, on: Sequence[str], bounds: Bounds) -> Column:
    matched = expr(" AND ".join(f"{_source(name)} = {_target(table, name)}" for name in on))
    for name in on:
        if (near := bounds.near(name, expr(_target(table, name)))) is not None:
            matched = matched & near
    return matched


def _differs(table: TableName, schema: StructType, on: Sequence[str]) -> str:
    keys = {name.casefold() for name in on}
    same = [
        f"{comparable(_source(each.name), each.dataType)} <=> {comparable(_target(table, each.name), each.dataType)}"
        for each in schema
        if each.name.casefold() not in keys
    ]
    return f"NOT ({' AND '.join(same)})" if same else "false"


def _source(name: str) -> str:
    return f"{_ROWS}.{quoted(name)}"


def _target(table: TableName, name: str) -> str:
    return f"{name_of(table)}.{quoted(name)}"
