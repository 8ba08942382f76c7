"""Histories from full dumps: each dump is an observation of all keys, at the time that its rows give.

A dump is what its rows were when they were last seen, and the history is what follows from all dumps in the order of
their times, in whatever order they came. Between two dumps nothing is known to change, so the versions tell what each
dump showed, if it is known when there was one: their times are kept in the table, as a property.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson

from mere.engine.frames import from_rows
from mere.errors import RunFailed
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import DUMPS
from mere.pipeline.build.fold import AT, HERE, Fold
from mere.pipeline.build.merge_rows import merge_into, persisted
from mere.pipeline.build.subject import NOTHING, SHOWN, TOGETHER, Subject, fold_of, looks_of, past_of, refuse, rows_at
from mere.pipeline.state.observations import Observation
from mere.pipeline.write.changes import CHANGE, Between, changed_rows
from mere.pipeline.write.query import query, replace_all
from mere.pipeline.write.table import expr, fit, prepare
from mere.project.kinds import HISTORY, IS_CURRENT, VALID_FROM, VALID_TO
from mere.project.model import Sql
from mere.sql.spelling.spark import name_of, quoted
from mere.windows import NEVER, Spans, stamp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build(subject: Subject, table: Metadata | None) -> Iterator[Spans]:
    """Fold what the step's observations show of dumps into what stands there: `table`, if it does."""
    step, model, spark = subject.step, subject.model, subject.shop.spark
    looks = looks_of(subject)
    shape = rows_at(subject, (looks or NOTHING)[0], None)
    fold = fold_of(model, shape)
    # Before anything reads the table: Spark does not follow a change of its columns.
    prepare(model, past_of(shape), spark, table, whole=step.afresh, breaking=step.breaking)
    known = set() if step.afresh or table is None else _known(subject, table)
    for start in range(0, max(len(looks), 1), TOGETHER):
        work = _Dumps(subject, fold, looks[start : start + TOGETHER] or NOTHING)
        owners, lost = work.owners(known)
        afresh = start == 0 and step.afresh
        past = past_of(shape) if afresh else past_of(shape, spark.table(name_of(model.name)))
        with ExitStack() as stack:
            contents = work.contents(owners)
            seen = stack.enter_context(persisted(contents.unionByName(work.recalled(past, lost)) if lost else contents))
            work.refuse_bad(seen)
            keys = past.select(*map(quoted, fold.key)).union(seen.select(*map(quoted, fold.key))).distinct()
            times = from_rows(spark, [(at,) for at in (*owners, *lost)], "mere_micros BIGINT")
            dumps = times.select(expr("timestamp_micros(mere_micros)").alias(AT))
            rows = fit(model, fold.dumped(past, seen, keys.crossJoin(dumps), dumps), spark)
            work.refuse_forgotten(past, rows, lost)
            if afresh:
                replace_all(step, rows)
            elif owners:
                merge_into(model.name, keys, rows, [*fold.key, VALID_FROM], spark)
        known |= owners.keys()
        text = orjson.dumps(sorted(known)).decode()
        spark.sql(f"ALTER TABLE {name_of(model.name)} SET TBLPROPERTIES ('{DUMPS}' = '{text}')")
        yield NEVER


def _known(subject: Subject, table: Metadata) -> set[int]:
    """Of a history that mere did not build, those at which something changed."""
    if text := table.properties.get(DUMPS):
        return set(orjson.loads(text))
    stands = subject.shop.spark.table(name_of(subject.model.name))
    times = stands.selectExpr(f"explode(array({VALID_FROM}, {VALID_TO})) AS at").where("at IS NOT NULL")
    return {row[0] for row in times.selectExpr("unix_micros(at)").distinct().collect()}


@dataclass(frozen=True)
class _Dumps:
    """What some observations show."""

    subject: Subject
    fold: Fold
    looks: Sequence[Observation]

    def owners(self, known: set[int]) -> tuple[dict[int, int], set[int]]:
        """The dumps that may have changed, by their times, each with the number of the last look that shows it; and
        those that follow upon them, which may have shown nothing new so far. Then those that are not there any more."""
        found: dict[int, int] = {}
        for number, look in enumerate(self.looks):
            if self._is_rowwise and look.before is not None:
                touched = self._times(self._changed(look))
                found |= dict.fromkeys(self._times(self._of(number, touched)), number)
            else:
                found |= dict.fromkeys(self._times(self._frame(number)), number)
        order = sorted(known | found.keys())
        following = {later for at, later in pairwise(order) if at in found and later not in found}
        last = len(self.looks) - 1
        there = self._times(self._of(last, following)) if following else set()
        return found | dict.fromkeys(there, last), following - there

    @property
    def _is_rowwise(self) -> bool:
        """Whether a row of the input makes its rows by itself, in the dump that a column of it names."""
        from mere.project.files.query import copied_from

        body, walked, dump = self.subject.model.body, self.subject.walked, self.fold.dump
        return isinstance(body, Sql) and walked is not None and walked.table in copied_from(body.text, str(dump))

    def contents(self, owners: dict[int, int]) -> DataFrame:
        """The rows of these dumps, with the time of their dump."""
        by_look: dict[int, set[int]] = {}
        for at, number in owners.items():
            by_look.setdefault(number, set()).add(at)
        frames = [self._of(number, times) for number, times in by_look.items()] or [self._frame(0).where("false")]
        rows = reduce(lambda one, other: one.unionByName(other), frames)
        return rows.select("*", expr(f"{self._time} AS {AT}"), expr(f"true AS {HERE}"))

    def recalled(self, past: DataFrame, lost: set[int]) -> DataFrame:
        """What these dumps showed, by the versions that held at their times: what is compared was the same in all rows
        of a version."""
        at = from_rows(self.subject.shop.spark, [(each,) for each in lost], "mere_micros BIGINT")
        holds = f"{VALID_FROM} <= {AT} AND ({VALID_TO} IS NULL OR {AT} < {VALID_TO})"
        held = past.crossJoin(at.select(expr("timestamp_micros(mere_micros)").alias(AT))).where(holds)
        kind = past.schema[str(self.fold.dump)].dataType.simpleString()
        held = held.withColumn(str(self.fold.dump), expr(f"CAST({AT} AS {kind})")).drop(
            VALID_FROM, VALID_TO, IS_CURRENT
        )
        return held.withColumn(HERE, expr("true"))

    def refuse_forgotten(self, past: DataFrame, rows: DataFrame, lost: set[int]) -> None:
        """A version that begins with such a dump now, and did not before: its row had values that nothing tells, if not
        all of them are compared."""
        told = {name.casefold() for name in (*self.fold.key, *self.fold.compare, str(self.fold.dump), *HISTORY)}
        if not lost or not self.fold.compare or all(name.casefold() in told for name in rows.columns):
            return
        begins = f"unix_micros({VALID_FROM}) IN ({', '.join(map(str, sorted(lost)))})"
        before = past.where(begins).select(*map(quoted, self.fold.key), VALID_FROM)
        new = rows.where(begins).join(before, [*self.fold.key, VALID_FROM], "left_anti")
        if found := new.selectExpr(f"min(unix_micros({VALID_FROM}))").collect()[0][0]:
            self._refuse_lost(found)

    @property
    def _time(self) -> str:
        return f"CAST({quoted(str(self.fold.dump))} AS timestamp)"

    def _frame(self, number: int) -> DataFrame:
        return rows_at(self.subject, self.looks[number], None)

    def _of(self, number: int, times: set[int]) -> DataFrame:
        listed = ", ".join(map(str, sorted(times)))
        return self._frame(number).where(f"unix_micros({self._time}) IN ({listed})" if times else "false")

    def _times(self, frame: DataFrame) -> set[int]:
        found = frame.selectExpr(f"unix_micros({self._time}) AS at").distinct().where("at IS NOT NULL")
        return {row[0] for row in found.collect()}

    def _changed(self, look: Observation) -> DataFrame:
        """What the query makes of the rows that came and went."""
        subject, walked = self.subject, self.subject.walked
        assert walked
        between = Between(walked.table, subject.inputs[walked.table], look.before, look.snapshot, subject.storage)
        changed = changed_rows(between, subject.shop.spark).drop(CHANGE)
        shop = replace(subject.shop, given={**subject.shop.given, walked.table: changed})
        return query(subject.model, None, shop)

    def refuse_bad(self, seen: DataFrame) -> None:
        key = ", ".join(map(quoted, self.fold.key))
        nameless = " OR ".join(f"{quoted(name)} IS NULL" for name in self.fold.key)
        counted = seen.withColumn("mere_count", expr(f"count(*) OVER (PARTITION BY {key}, {AT})"))
        bad = counted.where(f"mere_count > 1 OR {nameless}").drop("mere_count").limit(SHOWN).collect()
        if not bad:
            timeless = self._frame(len(self.looks) - 1).where(f"{self._time} IS NULL").limit(SHOWN)
            bad = timeless.select("*", expr(f"CAST(NULL AS timestamp) AS {AT}"), expr(f"true AS {HERE}")).collect()
        if bad:
            refuse(self.subject.model, self.fold, bad)

    def _refuse_lost(self, at: int) -> None:
        model, time = self.subject.model, stamp(_EPOCH + timedelta(microseconds=at))
        raise RunFailed(
            f"{model.file}:{model.body.line}: a dump of {model} came late, and a version begins with the one after it"
            f" ({self.fold.dump} {time}). That one is no longer in its input, and the history holds only its"
            " columns in `compare`, not the others.",
            remedy="Load that dump again as well, or leave out the late one. Or rebuild the history from the dumps"
            f" that are there now: mere run --full-refresh {model}",
        )
