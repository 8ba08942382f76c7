"""Builds a merge model: rebuilds all rows of the keys that changed in its inputs, and puts them in place.

Its table is its query over all of its inputs, one row for each key. Where an input is read by the model's key, a key is
built from its rows alone; so a run gives what a build of everything would.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from mere.engine.frames import from_rows
from mere.errors import RunFailed
from mere.lake.iceberg.metadata import Metadata
from mere.names import TableName
from mere.pipeline.build.merge_rows import Bounds, latest, merge_into, merge_latest, persisted
from mere.pipeline.build.task import Keys, Task
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.write.changes import CHANGE, DELETE, UPDATE_BEFORE, Between, Inputs, changed_keys, changed_rows
from mere.pipeline.write.query import Sift, Workshop, input_frame, query, replace_all
from mere.pipeline.write.table import expr, field_of, prepare
from mere.project.model import Input, Model
from mere.sql.spelling.spark import name_of, quoted
from mere.windows import NEVER, Spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_SHOWN = 5
_TWICE = "If the latest is meant, say by which column: `latest_by: updated_at`. Otherwise fix the query or the `key`."
_INTEGERS = ("byte", "short", "integer", "long")


def build(task: Task) -> Iterator[Spans]:
    step, again = task.step, task.sieve.keys() if task.retried else None
    work = _Merge(step, task.inputs, task.keys, task.table, task.shop, task.sieve, again)
    if step.action is not Action.KEYS:
        work.build_all()
    elif any(each.changes for each in step.model.inputs):
        work.merge_changes()
    elif again is None and not work.moved:
        pass  # what was to be tried again has gone through before the run was interrupted
    elif work.competes:
        work.merge_latest()
    elif work.has_types_of_key:
        work.merge_keys()
    else:
        work.build_all()
    yield NEVER


@dataclass(frozen=True)
class _Merge:
    step: Step
    inputs: Inputs
    keys: Keys
    table: Metadata | None
    shop: Workshop
    sift: Sift
    again: DataFrame | None = None

    @property
    def model(self) -> Model:
        return self.step.model

    @property
    def spark(self) -> SparkSession:
        return self.shop.spark

    @cached_property
    def keyed(self) -> list[Input]:
        return [each for each in self.model.inputs if each.key]

    @cached_property
    def moved(self) -> list[tuple[Between, Mapping[str, str]]]:
        """The tables that changed, each with the key by its columns."""
        # A table that is read by itself and behind a view is there twice, each time with the key by that way.
        tables = [(name, key) for each in self.keyed for name, key in self.keys[each.table].items()]
        found = ((self.inputs.between(TableName.parse(name)), key) for name, key in tables)
        return [(between, key) for between, key in found if between]

    def build_all(self) -> None:
        frame = self._one_each(_without_deleted(query(self.model, None, self.shop)))
        with self.sift(
            prepare(self.model, frame, self.spark, self.table, whole=True, breaking=self.step.breaking)
        ) as good:
            replace_all(self.step, good)
        self._check(self.spark.table(name_of(self.model.name)))

    # The new rows of one input, each of which competes with the row that has its key.

    @cached_property
    def competes(self) -> bool:
        if self.model.latest_by is None or self.model.quarantines or self.again is not None:
            return False
        if self.shop.sampled or len(self.moved) != 1:
            return False
        ((between, _),) = self.moved
        rowwise = {each.table for each in self.keyed if each.rowwise}
        return between.table in rowwise and between.appends_only

    def merge_latest(self) -> None:
        assert self.model.latest_by
        ((between, _),) = self.moved
        new = changed_rows(between, self.spark).drop(CHANGE)
        with persisted(self._fitted(self._made({between.table: new}))) as rows:
            self._check(rows)
            merge_latest(self.model.name, rows, self.model.key, self.model.latest_by, self.spark)

    # The keys that changed, from all their rows.

    @cached_property
    def has_types_of_key(self) -> bool:
        """Of the inputs' expressions: where Spark had to convert one for a join, values that differ may be equal."""
        return all(
            _alike(self.spark.table(name_of(table)).selectExpr(text).schema[0].dataType, self._types[name])
            for each in self.keyed
            for table, key in [(each.table, each.key), *self._behind(each)]
            for name, text in key
        )

    def _behind(self, each: Input) -> list[tuple[TableName, tuple[tuple[str, str], ...]]]:
        return [(TableName.parse(name), tuple(key.items())) for name, key in self.keys[each.table].items()]

    @cached_property
    def _types(self) -> dict[str, DataType]:
        stands = self.spark.table(name_of(self.model.name)).schema
        return {name: field.dataType for name in self.model.key if (field := field_of(stands, name))}

    def merge_keys(self) -> None:
        with persisted(self._changed()) as keys:
            bounds = Bounds.of(keys)
            made = self._made({each.table: self._narrowed(each, keys, bounds) for each in self.keyed})
            with persisted(self._fitted(made)) as rows, self.sift(rows, keys=keys) as good:
                self._check(good)
                merge_into(self.model.name, keys, good, self.model.key, self.spark, bounds)

    def _changed(self) -> DataFrame:
        from pyspark.sql.functions import col

        found = [
            changed_keys(between, key, self.spark).select(
                *(col(quoted(name)).cast(self._types[name]).alias(name) for name in key)
            )
            for between, key in self.moved
        ]
        if self.again is not None:
            found.append(self.again.select(*(quoted(name) for name, _ in self.keyed[0].key)))
        return reduce(lambda one, other: one.unionByName(other), found).distinct()

    def _narrowed(self, each: Input, keys: DataFrame, bounds: Bounds) -> DataFrame:
        return bounds.having(input_frame(each, self.shop), each.key, keys)

    # What a function of the user makes of the changes of an input.

    def merge_changes(self) -> None:
        key = list(map(quoted, self.model.key))
        with persisted(query(self.model, None, self.shop)) as made:
            frame = self._fitted(self._one_each(_without_deleted(made)))
            touched = made.select(*key).distinct()
            with persisted(frame) as rows, self.sift(rows, keys=touched) as good:
                self._check(good)
                if self.model.latest_by is None:
                    merge_into(self.model.name, touched, good, self.model.key, self.spark)
                    return
                gone = touched.join(rows.select(*key), list(self.model.key), "left_anti")
                merge_into(self.model.name, gone, good.where("false"), self.model.key, self.spark)
                merge_latest(self.model.name, good, self.model.key, self.model.latest_by, self.spark)

    # What all of them do.

    def _made(self, given: Mapping[TableName, DataFrame]) -> DataFrame:
        return self._one_each(query(self.model, None, replace(self.shop, given={**self.shop.given, **given})))

    def _fitted(self, frame: DataFrame) -> DataFrame:
        return prepare(self.model, frame, self.spark, self.table, whole=False, breaking=self.step.breaking)

    def _one_each(self, frame: DataFrame) -> DataFrame:
        for setting, names in {"key": self.model.key, "latest_by": filter(None, [self.model.latest_by])}.items():
            for name in names:
                if field_of(frame.schema, name) is None:
                    raise RunFailed(
                        f"{self.model.file}: {self.model} has no column {name}, which is its {setting}.",
                        remedy=f"It has: {', '.join(frame.columns)}.",
                    )
        return latest(frame, self.model.key, self.model.latest_by) if self.model.latest_by else frame

    def _check(self, frame: DataFrame) -> None:
        """That every row has a key of its own."""
        key = list(map(quoted, self.model.key))
        null = " OR ".join(f"{name} IS NULL" for name in key)
        counted = frame.groupBy(*key).count().where(f"count > 1 OR {null}").drop("count")
        # Where the latest was taken, no two have the same; and what a file says about NULL saves reading it.
        bad = frame.where(null).select(*key) if self.model.latest_by else counted
        found = bad.limit(_SHOWN).collect()
        if not found:
            return
        what, remedy = "several rows of {} have the same key", _TWICE
        if None in tuple(found[0]):
            what, remedy = "rows of {} have NULL in their key", f"Leave them out: WHERE {key[0]} IS NOT NULL."
        same = " AND ".join(f"mere_rows.{name} <=> mere_keys.{name}" for name in key)
        keys = from_rows(self.spark, found, bad.schema).alias("mere_keys")
        rows = frame.alias("mere_rows").join(keys, expr(same), "left_semi").orderBy(*key).limit(2 * _SHOWN)
        shown = "\n".join(f"  {row[0]}" for row in rows.selectExpr("to_json(struct(*))").collect())
        raise RunFailed(
            f"{self.model.file}: {what.format(self.model)}, {', '.join(self.model.key)}:\n{shown}", remedy=remedy
        )


def _without_deleted(frame: DataFrame) -> DataFrame:
    """Of what a function returned, the rows that there are to be."""
    if field_of(frame.schema, CHANGE) is None:
        return frame
    return frame.where(f"{CHANGE} IS NULL OR {CHANGE} NOT IN ('{DELETE}', '{UPDATE_BEFORE}')").drop(CHANGE)


def _alike(kind: DataType, of_key: DataType) -> bool:
    return kind == of_key or {kind.typeName(), of_key.typeName()} <= set(_INTEGERS)
