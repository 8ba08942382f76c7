"""Folds a history: the table's rows and the new observations become the versions of each key.

A history is a set of events: a version begins, a key is gone, a key is back. Each version lasts to the next event. The
table's rows tell the events of before, so that folding in five observations at once, or one by one, is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mere.pipeline.write.changes import comparable
from mere.pipeline.write.table import expr, field_of
from mere.project.kinds import IS_CURRENT as CURRENT
from mere.project.kinds import VALID_FROM as FROM
from mere.project.kinds import VALID_TO as TO
from mere.sql.spelling.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


# Of what was observed: when, and whether the key was there; if not, there is one row with NULL in its other columns.
AT, HERE = "mere_at", "mere_here"

_BEGUN = "mere_begun"  # from when a version holds, by its own word
_KIND = "mere_kind"
_GONE, _BACK, _VERSION = range(3)  # at one instant in this order


@dataclass(frozen=True)
class Fold:
    """How the versions of a model are told apart."""

    key: Sequence[str]
    updated_at: str | None = None  # the column that says from when a row holds; None: versions are told by comparing
    compare: Sequence[str] = ()  # these columns; none: all but the key
    dump: str | None = None  # the column that says in which full dump a row was

    @property
    def version(self) -> list[str]:
        """What tells one version from all others that are seen."""
        return [*self.key, AT, *([self.updated_at] if self.updated_at else [])]

    def histories(self, past: DataFrame, seen: DataFrame) -> DataFrame:
        """All versions of the keys that were seen. `past`: what the table has of them."""
        return self._by_time(past, seen) if self.updated_at else self._by_comparing(past, seen)

    def dumped(self, past: DataFrame, seen: DataFrame, asked: DataFrame, dumps: DataFrame) -> DataFrame:
        """By comparing one full dump with the next. `seen`: all rows of some `dumps`, with their times; `asked`: these
        times for each key. What follows upon each of them is among them, too, as far as there is anything."""
        values = _values(seen)
        absent = asked.join(seen.select(*map(quoted, self.key), AT), [*self.key, AT], "left_anti")
        nothing = [name if name in self.key else _as_null(seen, name) for name in values]
        gone = absent.select(*(quoted(each) if isinstance(each, str) else each for each in nothing), AT)
        seen = seen.unionByName(gone.withColumn(HERE, expr("false"))).withColumn(_KIND, expr("false"))
        before = self._stood(past, seen, values).join(dumps, AT, "left_anti")
        events = self._with_changes(before.unionByName(seen), values).where("mere_changed")
        return _lasting(events.withColumn(TO, expr(f"lead({AT}) OVER {_window(self.key, AT)}")).where(HERE), values)

    def _by_comparing(self, past: DataFrame, seen: DataFrame) -> DataFrame:
        values = _values(seen)
        events = self._stood(past, seen, values).unionByName(seen.withColumn(_KIND, expr("false")))
        events = self._with_changes(events, values).where(f"mere_changed OR {_KIND}")
        order = _window(self.key, AT, f"{_KIND} DESC")
        return _lasting(events.withColumn(TO, expr(f"lead({AT}) OVER {order}")).where(HERE), values)

    def _stood(self, past: DataFrame, seen: DataFrame, values: Sequence[str]) -> DataFrame:
        """The events that the table tells: versions begin, and keys are gone."""
        begun = past.select(*values, _col(FROM).alias(AT), expr("true").alias(HERE), expr("true").alias(_KIND))
        gone = _ends(past, self.key).select(
            *(_as_null(seen, name) if name not in self.key else quoted(name) for name in values),
            _col(TO).alias(AT),
            expr("false").alias(HERE),
            expr("true").alias(_KIND),
        )
        return begun.unionByName(gone)

    def _with_changes(self, events: DataFrame, values: Sequence[str]) -> DataFrame:
        """Whether each shows what the one before did not."""
        order = _window(self.key, AT, f"{_KIND} DESC")  # what stands there goes before what is seen again
        compared = self.compare or [name for name in values if name not in (*self.key, self.dump)]
        fields = [field for name in compared if (field := field_of(events.schema, name))]
        state = ", ".join([HERE, *(comparable(quoted(each.name), each.dataType) for each in fields)])
        before = expr(f"lag(struct({state})) OVER {order}")
        changed = expr(HERE) & before.isNull() | before.isNotNull() & ~before.eqNullSafe(expr(f"struct({state})"))
        return events.withColumn("mere_changed", changed)

    def _by_time(self, past: DataFrame, seen: DataFrame) -> DataFrame:
        assert self.updated_at
        values = _values(seen)
        begun = _col(self.updated_at).cast("timestamp").alias(_BEGUN)
        past = past.select("*", begun)
        seen = seen.select("*", begun)
        events = self._versions(past, seen, values).unionByName(self._absences(past, seen), allowMissingColumns=True)
        order = _window(self.key, AT, _KIND)
        before = f"lag({_KIND}) OVER {order}"
        # A key that is back where a version has begun meanwhile has long been back.
        events = events.withColumn("mere_before", expr(before)).where(
            f"{_KIND} = {_VERSION} OR ({_KIND} = {_BACK} AND mere_before = {_GONE})"
            f" OR ({_KIND} = {_GONE} AND mere_before <> {_GONE})"
        )
        events = events.select(
            *map(quoted, self.key),
            AT,
            _KIND,
            expr(f"last(mere_values, true) OVER {order}").alias("mere_values"),
            expr(f"lead({AT}) OVER {order}").alias(TO),
        )
        lasting = events.where(f"{_KIND} <> {_GONE} AND ({TO} IS NULL OR {TO} > {AT})")
        return _lasting(lasting.select("mere_values.*", AT, TO), values)

    def _versions(self, past: DataFrame, seen: DataFrame, values: Sequence[str]) -> DataFrame:
        """Each once, with the values that were seen last."""
        columns = [*map(quoted, values), _BEGUN]
        known = past.select(*columns, expr("CAST(NULL AS timestamp)").alias(AT))
        known = known.unionByName(seen.where(HERE).select(*columns, AT))
        newest = f"row_number() OVER (PARTITION BY {_names([*self.key, _BEGUN])} ORDER BY {AT} DESC NULLS LAST)"
        return (
            known.withColumn("mere_number", expr(newest))
            .where("mere_number = 1")
            .select(
                *map(quoted, self.key),
                _col(_BEGUN).alias(AT),
                expr(f"{_VERSION}").alias(_KIND),
                expr(f"struct({_names(values)})").alias("mere_values"),
            )
        )

    def _absences(self, past: DataFrame, seen: DataFrame) -> DataFrame:
        """When keys were gone and when they were back."""
        key = [*map(quoted, self.key)]
        earlier = _ends(past, self.key).where("mere_next IS NOT NULL").select(*key, TO, expr(f"{_GONE}"))
        earlier = earlier.union(past.where(f"{FROM} <> {_BEGUN}").select(*key, FROM, expr(f"{_BACK}")))
        earlier = earlier.toDF(*self.key, AT, _KIND)
        stood = past.groupBy(*key).agg(
            expr("CAST(NULL AS timestamp)").alias(AT),
            expr(f"bool_or({TO} IS NULL)").alias(HERE),
            expr(f"max({_BEGUN})").alias(_BEGUN),
            expr(f"max({TO})").alias("mere_gone"),
        )
        looks = seen.groupBy(*key, AT).agg(
            expr(f"bool_or({HERE})").alias(HERE),
            expr(f"max({_BEGUN})").alias(_BEGUN),
            expr("CAST(NULL AS timestamp)").alias("mere_gone"),
        )
        order = f"(PARTITION BY {_names(self.key)} ORDER BY {AT} NULLS FIRST)"
        turns = (
            stood.unionByName(looks)
            .withColumn("mere_before", expr(f"lag({HERE}) OVER {order}"))
            .withColumn("mere_newest", expr(f"max({_BEGUN}) OVER {order} + INTERVAL 1 MICROSECOND"))
            .where(f"{AT} IS NULL OR mere_before <> {HERE}")
            .withColumn("mere_next", expr(f"lead({AT}) OVER {order}"))
            # It was there for the last of its versions, whatever the clock of whoever wrote that.
            .withColumn("mere_gone", expr(f"coalesce(mere_gone, greatest({AT}, mere_newest))"))
            .where(f"NOT {HERE} AND (mere_next IS NULL OR mere_next > mere_gone)")
        )
        both = f"array(struct(mere_gone AS {AT}, {_GONE} AS {_KIND}), struct(mere_next AS {AT}, {_BACK} AS {_KIND}))"
        later = turns.select(*key, expr(f"inline({both})").alias(AT, _KIND)).where(f"{AT} IS NOT NULL")
        return earlier.unionByName(later)


def _ends(past: DataFrame, key: Sequence[str]) -> DataFrame:
    """The versions after which the key was gone, with `mere_next`: when there was one again."""
    following = expr(f"lead({FROM}) OVER {_window(key, FROM)}")
    past = past.withColumn("mere_next", following)
    return past.where(f"{TO} IS NOT NULL AND ({TO} < mere_next OR mere_next IS NULL)")


def _lasting(frame: DataFrame, values: Sequence[str]) -> DataFrame:
    current = expr(f"{TO} IS NULL").alias(CURRENT)
    return frame.select(*map(quoted, values), _col(AT).alias(FROM), _col(TO), current)


def _values(seen: DataFrame) -> list[str]:
    return [name for name in seen.columns if name not in (AT, HERE)]


def _as_null(frame: DataFrame, name: str) -> Column:
    from pyspark.sql.functions import lit

    return lit(None).cast(frame.schema[name].dataType).alias(name)


def _window(key: Sequence[str], *by: str) -> str:
    return f"(PARTITION BY {_names(key)} ORDER BY {', '.join(by)})"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _col(name: str) -> Column:
    return expr(quoted(name))
