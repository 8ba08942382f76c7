"""What a history follows: the model's query at an observation of its inputs, and the rows in its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.lake.iceberg.metadata import Metadata
from mere.lake.storage.port import Storage
from mere.names import TableName
from mere.pipeline.build.fold import AT, HERE, Fold
from mere.pipeline.build.merge_rows import Bounds
from mere.pipeline.plan.steps import Step
from mere.pipeline.state.observations import Observation
from mere.pipeline.write.changes import CHANGE, Between, changed_rows
from mere.pipeline.write.query import Workshop, query
from mere.pipeline.write.table import expr, field_of
from mere.project.kinds import HISTORY
from mere.project.model import Input, Model
from mere.sql.spelling.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import Row as SparkRow

# So many observations are folded at once; each is a query in the plan that Spark makes of them.
TOGETHER = 16
SHOWN = 6
# Whether nothing can be told of a key at an observation, and whether it is the last of that key.
BAD, LAST = "mere_bad", "mere_last"
# An input without a snapshot was never seen; but a table has columns even so.
NOTHING = (Observation(datetime(1970, 1, 1, tzinfo=UTC)),)
_KINDS = ("timestamp", "timestamp", "boolean")


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


def looks_of(subject: Subject) -> tuple[Observation, ...]:
    looks = subject.step.observations
    if any(each.table in subject.shop.sampled for each in subject.model.inputs):
        # Of each snapshot another sample would be taken: keys would come and go for no reason.
        return tuple(Observation(look.at) for look in looks[-1:])
    return looks


def rows_at(subject: Subject, look: Observation, keys: DataFrame | None) -> DataFrame:
    """The query at an observation, of some keys or of all."""
    walked, shop = subject.walked, subject.shop
    if walked is None or look.snapshot is None:
        return query(subject.model, None, shop)
    between = Between(walked.table, subject.inputs[walked.table], None, look.snapshot, subject.storage)
    frame = changed_rows(between, shop.spark).drop(CHANGE)  # all that came since it was empty, and is still there
    if keys is not None:
        frame = Bounds.of(keys).having(frame, walked.key, keys)
    return query(subject.model, None, replace(shop, given={**shop.given, walked.table: frame}))


def fold_of(model: Model, rows: DataFrame) -> Fold:
    """With the names of columns as the query writes them."""
    taken = [name for name in rows.columns if name.casefold() in HISTORY]
    if taken:
        raise RunFailed(
            f"{model.file}:{model.body.line}: {model} has a column {taken[0]}, a name that mere uses itself.",
            remedy="Rename it: AS …",
        )

    def named(setting: str, column: str) -> str:
        if (field := field_of(rows.schema, column)) is None:
            raise RunFailed(
                f"{model.file}:{model.body.line}: `{setting}` names {column}, which {model} does not have.",
                remedy=f"It has: {', '.join(rows.columns)}.",
            )
        return field.name

    def timed(setting: str, column: str) -> str:
        kind = rows.schema[name := named(setting, column)].dataType
        if kind.typeName() not in ("date", "timestamp", "timestamp_ntz"):
            raise RunFailed(
                f"{model.file}:{model.body.line}: `{setting}` of {model} is a {kind.simpleString()}.",
                remedy="It must be a date or a timestamp in UTC: cast it.",
            )
        return name

    key = [named("key", name) for name in model.key]
    compare = [named("compare", name) for name in model.compare]
    if model.dump:
        return Fold(key, compare=compare, dump=timed("dump", model.dump))
    return Fold(key, timed("updated_at", model.updated_at)) if model.updated_at else Fold(key, compare=compare)


def past_of(seen: DataFrame, stands: DataFrame | None = None) -> DataFrame:
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


def refuse(model: Model, fold: Fold, bad: Sequence[SparkRow]) -> None:
    shown = [name for name in bad[0].asDict() if name not in (AT, HERE, BAD, LAST)]
    rows = "\n".join("  " + ", ".join(f"{name}: {row[name]}" for name in shown) + f" ({row[AT]} UTC)" for row in bad)
    version = [*fold.key, fold.dump] if fold.dump else fold.version
    lacking = next((name for row in bad for name in version if row[name] is None), None)
    if lacking:
        what, remedy = f"rows without {lacking}", f"Leave them out: WHERE {lacking} IS NOT NULL."
    elif fold.dump:
        what = f"several rows of one {', '.join(fold.key)} in one dump"
        remedy = "Keep one of them, or choose a `key` that tells them apart."
    elif fold.updated_at:
        what = f"several rows of one {', '.join(fold.key)} with one {fold.updated_at}"
        remedy = f"Keep one of them, or choose a `key` that tells them apart, or {fold.updated_at} more precise."
    else:
        what = f"several rows of one {', '.join(fold.key)} at one time"
        remedy = "Keep one of them, or choose a `key` that tells them apart; or, if each is a version, name the"
        remedy += " column that says from when it holds: `updated_at`."
    raise RunFailed(f"{model.file}:{model.body.line}: {model} has {what}.\n{rows}", remedy=remedy)
