"""Builds a history: the model's query at each snapshot of its input, folded into the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from mere.names import TableName
from mere.pipeline.build import dumps
from mere.pipeline.build.fold import AT, HERE, Fold
from mere.pipeline.build.merge_rows import Bounds, merge_into, persisted
from mere.pipeline.build.subject import (
    BAD,
    LAST,
    NOTHING,
    SHOWN,
    TOGETHER,
    Subject,
    fold_of,
    looks_of,
    past_of,
    refuse,
    rows_at,
)
from mere.pipeline.build.task import Task
from mere.pipeline.state.observations import Observation
from mere.pipeline.write.changes import Between, changed_keys
from mere.pipeline.write.query import replace_all
from mere.pipeline.write.table import expr, fit, prepare
from mere.project.kinds import VALID_FROM
from mere.sql.spelling.spark import name_of, quoted
from mere.windows import NEVER, Spans

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    _Keep = Callable[[DataFrame], DataFrame]


def build(task: Task) -> Iterator[Spans]:
    """Fold the step's observations into what stands there, if it does."""
    subject, table = Subject(task.step, task.read, task.storage, task.shop), task.table
    if subject.model.dump:
        yield from dumps.build(subject, table)
        return
    step, model, spark = subject.step, subject.model, subject.shop.spark
    looks = looks_of(subject)
    shape = rows_at(subject, (looks or NOTHING)[0], None)
    fold = fold_of(model, shape)
    # Before anything reads the table: Spark does not follow a change of its columns.
    prepare(model, past_of(shape), spark, table, whole=step.afresh, breaking=step.breaking)
    doubts = False
    for start in range(0, max(len(looks), 1), TOGETHER):
        batch = looks[start : start + TOGETHER]
        afresh = start == 0 and step.afresh
        with ExitStack() as stack:

            def keep(frame: DataFrame, stack: ExitStack = stack) -> DataFrame:
                return stack.enter_context(persisted(frame))

            seen = _seen(subject, fold, batch or NOTHING, None if afresh else model.name, keep)
            seen = _examined(fold, seen if batch else seen.where("false"))
            seen = seen if afresh else keep(seen)
            bad = seen.where(f"{BAD} AND {LAST}").limit(SHOWN).collect()
            if bad and batch[-1] is looks[-1]:
                refuse(model, fold, bad)
            doubts = doubts or bool(bad)
            clear = seen.where(f"NOT {BAD}").drop(BAD, LAST)
            if afresh:
                replace_all(step, fit(model, fold.histories(past_of(clear), clear), spark))
            else:
                keys = clear.select(*map(quoted, fold.key)).distinct()
                bounds = Bounds.of(keys)
                stands = bounds.narrowed(spark.table(name_of(model.name))).join(keys, list(fold.key), "left_semi")
                rows = fit(model, fold.histories(past_of(clear, stands), clear), spark)
                merge_into(model.name, keys, rows, [*fold.key, VALID_FROM], spark, bounds)
        yield NEVER
    if doubts:
        _refuse_what_is_still_bad(subject, fold, looks[-1])


def _seen(
    subject: Subject, fold: Fold, looks: Sequence[Observation], stands: TableName | None, keep: _Keep
) -> DataFrame:
    """What is observed of each key, as far as it can have changed. `stands`: the history so far, if there is one."""
    from pyspark.sql.functions import lit

    spark, key = subject.shop.spark, [*map(quoted, fold.key)]
    before: DataFrame | None = None
    made: list[DataFrame] = []
    for look in looks:
        found = _changed_keys(subject, look)
        keyed = None if found is None else keep(found)
        rows = rows_at(subject, look, keyed)
        if keyed is None:
            open_ = spark.table(name_of(stands)).where("is_current").select(*key) if stands and not made else before
            before = rows.select(*key)
            keyed = (before if open_ is None else before.union(open_)).distinct()
        there = rows.withColumn(HERE, lit(True))
        joined = keyed.alias("k").join(there.alias("r"), _same(fold.key), "left")
        here = expr(f"coalesce(r.{HERE}, false)").alias(HERE)
        values = [
            expr(f"{'k' if each.name in fold.key else 'r'}.{quoted(each.name)}").cast(each.dataType).alias(each.name)
            for each in rows.schema
        ]
        made.append(joined.select(*values, lit(look.at).cast("timestamp").alias(AT), here))
    return reduce(lambda one, other: one.unionByName(other), made)


def _changed_keys(subject: Subject, look: Observation) -> DataFrame | None:
    """None: any key may have changed."""
    walked = subject.walked
    if walked is None or look.before is None or {name for name, _ in walked.key} != set(subject.model.key):
        return None
    between = Between(walked.table, subject.inputs[walked.table], look.before, look.snapshot, subject.storage)
    return changed_keys(between, dict(walked.key), subject.shop.spark)


def _examined(fold: Fold, seen: DataFrame) -> DataFrame:
    """With what cannot be told of a key at an observation: a row without a key or a time, or two that claim to be one
    version. It is passed over if the key is seen again later, for nobody can mend a snapshot of the past."""
    key, version = _names(fold.key), _names(fold.version)
    without = " OR ".join(f"{quoted(name)} IS NULL" for name in fold.version)
    odd = f"{HERE} AND (count(*) OVER (PARTITION BY {version}) > 1 OR {without})"
    nameless = " OR ".join(f"{quoted(name)} IS NULL" for name in fold.key)
    return (
        seen.withColumn(BAD, expr(odd))
        .withColumn(BAD, expr(f"bool_or({BAD}) OVER (PARTITION BY {key}, {AT})"))
        .withColumn(LAST, expr(f"{AT} = max({AT}) OVER (PARTITION BY {key})"))
        .where(f"{BAD} OR NOT ({nameless})")
    )


def _refuse_what_is_still_bad(subject: Subject, fold: Fold, look: Observation) -> None:
    """What was passed over in one batch may not have been seen again in the next."""
    seen = _seen(subject, fold, [replace(look, before=None)], None, lambda frame: frame)
    if bad := _examined(fold, seen).where(BAD).limit(SHOWN).collect():
        refuse(subject.model, fold, bad)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _same(key: Sequence[str]) -> Column:
    return expr(" AND ".join(f"k.{quoted(name)} <=> r.{quoted(name)}" for name in key))
