"""Observations become a history: the model's query at each snapshot of its input, folded into the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.lake.metadata import Metadata
from mere.lake.storage import Storage
from mere.names import TableName
from mere.pipeline.changed import CHANGE, Between, changed_keys, changed_rows
from mere.pipeline.materialize import Workshop, query, replace_all
from mere.pipeline.merge.rows import Bounds, kept, merge_into
from mere.pipeline.scd2.fold import AT, HERE, Fold
from mere.pipeline.scd2.observations import Observation
from mere.pipeline.steps import Step
from mere.pipeline.tables import expr, field_of, fit, name_of, prepare, quoted
from mere.project.model import HISTORY, VALID_FROM, Input, Model
from mere.windows import NEVER, Spans

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import Row as SparkRow

    _Keep = Callable[[DataFrame], DataFrame]

# So many observations are folded at once; each is a query in the plan that Spark makes of them.
_TOGETHER = 16
_SHOWN = 6
_BAD, _LAST = "mere_bad", "mere_last"
# An input without a snapshot was never seen; but a table has columns even so.
_NOTHING = (Observation(datetime(1970, 1, 1, tzinfo=UTC)),)


@dataclass(frozen=True)
class Subject:
    """What is observed."""

    step: Step
    inputs: dict[TableName, Metadata]  # the tables among them, as they stand
    storage: Storage
    shop: Workshop

    @property
    def model(self) -> Model:
        return self.step.model

    @property
    def walked(self) -> Input | None:
        """The one input whose snapshots are looked at one after the other."""
        (first, *others) = self.model.inputs
        return first if not others and first.table in self.inputs else None


def build(subject: Subject, table: Metadata | None) -> Iterator[Spans]:
    """Fold the step's observations into what stands there: `table`, if it does."""
    step, model, spark = subject.step, subject.model, subject.shop.spark
    looks = step.observations
    if any(each.table in subject.shop.sampled for each in model.inputs):
        # Of each snapshot another sample would be taken: keys would come and go for no reason.
        looks = tuple(Observation(look.at) for look in looks[-1:])
    shape = _rows(subject, (looks or _NOTHING)[0], None)
    fold = _fold(model, shape)
    # Before anything reads the table: Spark does not follow a change of its columns.
    prepare(model, _past(shape), spark, table, whole=step.afresh, breaking=step.breaking)
    doubts = False
    for start in range(0, max(len(looks), 1), _TOGETHER):
        batch = looks[start : start + _TOGETHER]
        afresh = start == 0 and step.afresh
        with ExitStack() as stack:

            def keep(frame: DataFrame, stack: ExitStack = stack) -> DataFrame:
                return stack.enter_context(kept(frame))

            seen = _seen(subject, fold, batch or _NOTHING, None if afresh else model.name, keep)
            seen = _examined(fold, seen if batch else seen.where("false"))
            seen = seen if afresh else keep(seen)
            bad = seen.where(f"{_BAD} AND {_LAST}").limit(_SHOWN).collect()
            if bad and batch[-1] is looks[-1]:
                _refuse(model, fold, bad)
            doubts = doubts or bool(bad)
            clear = seen.where(f"NOT {_BAD}").drop(_BAD, _LAST)
            if afresh:
                replace_all(step, fit(model, fold.histories(_past(clear), clear), spark))
            else:
                keys = clear.select(*map(quoted, fold.key)).distinct()
                bounds = Bounds.of(keys)
                stands = bounds.narrowed(spark.table(name_of(model.name))).join(keys, list(fold.key), "left_semi")
                rows = fit(model, fold.histories(_past(clear, stands), clear), spark)
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
        rows = _rows(subject, look, keyed)
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


def _rows(subject: Subject, look: Observation, keys: DataFrame | None) -> DataFrame:
    """The query at an observation, of some keys or of all."""
    walked, shop = subject.walked, subject.shop
    if walked is None or look.snapshot is None:
        return query(subject.model, None, shop)
    between = Between(walked.table, subject.inputs[walked.table], None, look.snapshot, subject.storage)
    frame = changed_rows(between, shop.spark).drop(CHANGE)  # all that came since it was empty, and is still there
    if keys is not None:
        frame = Bounds.of(keys).having(frame, walked.key, keys)
    return query(subject.model, None, replace(shop, given={**shop.given, walked.table: frame}))


def _fold(model: Model, rows: DataFrame) -> Fold:
    """With the names of columns as the query writes them."""
    taken = [name for name in rows.columns if name.casefold() in HISTORY]
    if taken:
        raise RunFailed(
            f"{model.file}:{model.body.line}: {model} has a column {taken[0]}, which is a name that mere gives.",
            remedy="Name it otherwise: AS …",
        )

    def named(setting: str, column: str) -> str:
        if (field := field_of(rows.schema, column)) is None:
            raise RunFailed(
                f"{model.file}:{model.body.line}: `{setting}` names {column}, which {model} does not have.",
                remedy=f"It has: {', '.join(rows.columns)}.",
            )
        return field.name

    key = [named("key", name) for name in model.key]
    if model.updated_at is None:
        return Fold(key, compare=[named("compare", name) for name in model.compare])
    fold = Fold(key, updated_at=named("updated_at", model.updated_at))
    kind = rows.schema[str(fold.updated_at)].dataType
    if kind.typeName() not in ("date", "timestamp", "timestamp_ntz"):
        raise RunFailed(
            f"{model.file}:{model.body.line}: `updated_at` of {model} is a {kind.simpleString()}.",
            remedy="It must be a date or a timestamp in UTC: cast it.",
        )
    return fold


def _past(seen: DataFrame, stands: DataFrame | None = None) -> DataFrame:
    """The history of the keys so far, with the columns that the query has now."""
    from pyspark.sql.functions import lit

    kinds = {field.name: field.dataType for field in seen.schema if field.name not in (AT, HERE)}
    if stands is None:
        nothing = [lit(None).cast(kind).alias(name) for name, kind in zip(HISTORY, _KINDS, strict=True)]
        return seen.where("false").select(*map(quoted, kinds), *nothing)
    known = [
        (expr(quoted(name)) if field_of(stands.schema, name) else lit(None)).cast(kind).alias(name)
        for name, kind in kinds.items()
    ]
    return stands.select(*known, *HISTORY)


_KINDS = ("timestamp", "timestamp", "boolean")


def _examined(fold: Fold, seen: DataFrame) -> DataFrame:
    """With what cannot be told of a key at an observation: a row without a key or a time, or two that claim to be one
    version. It is passed over if the key is seen again later, for nobody can mend a snapshot of the past."""
    key, version = _names(fold.key), _names(fold.version)
    without = " OR ".join(f"{quoted(name)} IS NULL" for name in fold.version)
    odd = f"{HERE} AND (count(*) OVER (PARTITION BY {version}) > 1 OR {without})"
    nameless = " OR ".join(f"{quoted(name)} IS NULL" for name in fold.key)
    return (
        seen.withColumn(_BAD, expr(odd))
        .withColumn(_BAD, expr(f"bool_or({_BAD}) OVER (PARTITION BY {key}, {AT})"))
        .withColumn(_LAST, expr(f"{AT} = max({AT}) OVER (PARTITION BY {key})"))
        .where(f"{_BAD} OR NOT ({nameless})")
    )


def _refuse_what_is_still_bad(subject: Subject, fold: Fold, look: Observation) -> None:
    """What was passed over in one batch may not have been seen again in the next."""
    seen = _seen(subject, fold, [replace(look, before=None)], None, lambda frame: frame)
    if bad := _examined(fold, seen).where(_BAD).limit(_SHOWN).collect():
        _refuse(subject.model, fold, bad)


def _refuse(model: Model, fold: Fold, bad: Sequence[SparkRow]) -> None:
    shown = [name for name in bad[0].asDict() if name not in (AT, HERE, _BAD, _LAST)]
    rows = "\n".join("  " + ", ".join(f"{name}: {row[name]}" for name in shown) + f" ({row[AT]} UTC)" for row in bad)
    lacking = next((name for row in bad for name in fold.version if row[name] is None), None)
    if lacking:
        what, remedy = f"rows without {lacking}", f"Leave them out: WHERE {lacking} IS NOT NULL."
    elif fold.updated_at:
        what = f"several rows of one {', '.join(fold.key)} with one {fold.updated_at}"
        remedy = f"Keep one of them, or make the `key` one that tells them apart, or {fold.updated_at} more precise."
    else:
        what = f"several rows of one {', '.join(fold.key)} at one time"
        remedy = "Keep one of them, or make the `key` one that tells them apart; or, if each is a version, name the"
        remedy += " column that says from when it holds: `updated_at`."
    raise RunFailed(f"{model.file}:{model.body.line}: {model} has {what}.\n{rows}", remedy=remedy)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _same(key: Sequence[str]) -> Column:
    return expr(" AND ".join(f"k.{quoted(name)} <=> r.{quoted(name)}" for name in key))
