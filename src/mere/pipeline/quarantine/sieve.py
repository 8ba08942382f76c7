"""Separates bad rows while a model is built: good ones go on to its table, bad ones to its quarantine.

A query is computed once for both, and what it returned is kept until both are written: asked twice, it might return
other rows, and one of them might be in both tables, or in none. The two tables are signed and published together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mere.audits.quarantine import FROM, NO_RULES, TO, Counts, RowRule, broken_rules, row_rules
from mere.audits.rules import TIME
from mere.engine.translate import explain, is_from_spark
from mere.errors import RunFailed
from mere.lake import faults
from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.names import AT, RULES, RUN
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.quarantine.lookups import looked_up
from mere.pipeline.write.companions import Signatures, declared, filled, is_ours, signature, standing
from mere.pipeline.write.query import Workshop, literal, query, within, writer
from mere.pipeline.write.table import expr, field_of, prepare
from mere.project.model import Model
from mere.sql.spelling.spark import name_of, quoted, text_literal
from mere.windows import Span, Spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BAD = f"size({RULES}) > 0"
_GOOD = f"size({RULES}) = 0"
_ABOUT = {
    RULES: "the rules that the row breaks",
    RUN: "the run that put it aside",
    AT: "the time of that run",
    FROM: "of a row without a time: the start of the windows in whose build it came; NULL if its input had no time",
    TO: "their end",
}


@dataclass
class Sieve:
    """For one build of a model. See `materialize.Sift`."""

    step: Step
    lake: Lake
    branch: str
    run: str
    shop: Workshop
    counts: Counts = field(default_factory=Counts)
    _begun: bool = False

    @property
    def model(self) -> Model:
        return self.step.model

    @property
    def _rules(self) -> list[RowRule]:
        time = self.model.time
        # What looks back returns rows of other windows, too, and of one without a time nobody knows whether it is one.
        return row_rules(self.model.audits, time.column if time and not time.context else None)

    @contextmanager
    def __call__(
        self, frame: DataFrame, span: Span | None = None, keys: DataFrame | None = None
    ) -> Iterator[DataFrame]:
        rules, standing = self._rules, self._standing()
        if not rules and (standing is None or not standing.rows):
            yield frame
            return
        self._refuse_taken(frame)
        sifted = self._sifted(frame, rules, span).persist()
        try:
            counts = self._counted(sifted, rules)
            self.counts += counts
            self._exchange(sifted.where(_BAD), counts, standing, span, keys)
            faults.point("quarantine.written")
            yield sifted.where(_GOOD).drop(RULES)
        finally:
            sifted.unpersist()

    def put_timeless(self, frame: DataFrame | None) -> None:
        """Put what the query makes of rows without a time in place of those that are there. They are told from those of
        windows by having no `_from`."""
        standing = self._standing()
        if standing and standing.rows and not self.step.afresh and field_of(self._table().schema, FROM):
            there = f"array_contains({RULES}, '{TIME}') AND {FROM} IS NULL"
            if not self._table().where(there).isEmpty():
                self._begun = True
                self._delete(there)
        if frame is None:
            return
        self._refuse_taken(frame)
        rules = [*row_rules(self.model.audits, None), RowRule(TIME, "true", self.model.file)]
        sifted = self._sifted(frame, rules, None).persist()
        try:
            self._refuse_times(sifted)
            counts = self._counted(sifted, rules)
            self.counts += counts
            self._begun = True
            nowhere = [f"CAST(NULL AS timestamp) AS {name}" for name in (FROM, TO)]
            fitted = self._fitted(self._described(sifted, None).selectExpr("*", *nowhere), standing, whole=False)
            if counts.bad:
                self._writer(fitted).append()
            faults.point("quarantine.timeless")
        finally:
            sifted.unpersist()

    def _refuse_times(self, frame: DataFrame) -> None:
        """A row with a time would lie in a window, of which a build would not make it."""
        assert self.model.time
        time = self.model.time.column
        if not frame.where(f"{quoted(time)} IS NOT NULL").isEmpty():
            raise RunFailed(
                f"{self.model.file}: {self.model} gives a {time} to rows of its inputs that have none, so they lie"
                " in a window by which they were not read.",
                remedy=f"Give them the time in a table that it reads, or leave {time} NULL where it is not known.",
            )

    def take_back(self) -> None:
        """Of an append model, whose input is not read again: rows that break no rule any more go into the table."""
        standing = self._standing()
        if standing is None or not standing.rows:
            return
        self._begun = True
        table, rules = self.shop.spark.table(name_of(self.model.name)), self._rules
        # So that it has the columns that the table has by now.
        self._fitted(self._described(self._sifted(table.where("false"), rules, None), None), standing, whole=False)
        sifted = self._sifted(self._table().drop(RULES), rules, None).persist()
        try:
            if self._counted(sifted, rules).good:
                writer(self.step, sifted.where(_GOOD).select(*map(quoted, table.columns))).append()
                self._writer(sifted.where(_BAD)).overwrite(expr("true"))
        finally:
            sifted.unpersist()

    def keys(self) -> DataFrame | None:
        """Of a merge model: those of the rows in quarantine, as it stands now and whatever becomes of it."""
        standing = self._standing()
        if standing is None or not standing.rows:
            return None
        names = ", ".join(map(quoted, self.model.key))
        table = name_of(self.model.name.quarantine)
        return self.shop.spark.sql(f"SELECT DISTINCT {names} FROM {table} VERSION AS OF {standing.current_id}")

    def _refuse_taken(self, frame: DataFrame) -> None:
        for name in (RULES, RUN, AT, *((FROM, TO) if self.model.time else ())):
            if field_of(frame.schema, name):
                raise RunFailed(
                    f"{self.model.file}: {self.model} has a column {name}, a name that its quarantine uses itself.",
                    remedy="Rename it: AS …",
                )

    def _standing(self) -> Metadata | None:
        name, tables = self.model.name.quarantine, self.lake.at(self.branch)
        if not self.model.quarantines and not self._begun and name in tables and not is_ours(tables.metadata(name)):
            return None  # a table of that name is none of its business
        return standing(self.lake, self.branch, name, f"bad rows of {self.model}", self._begun)

    def _sifted(self, frame: DataFrame, rules: Sequence[RowRule], span: Span | None) -> DataFrame:
        """With the rules that each row breaks."""
        columns = [quoted(name) for name in frame.columns]
        broken = broken_rules(rules) if rules else NO_RULES
        if self.model.time and span:
            # A row that does not belong there is a mistake of the query. It goes on, so that the build finds it.
            time = self.model.time.column
            inside = within(frame.schema, time, span)
            inside = inside if self.model.time.context else f"{quoted(time)} IS NULL OR {inside}"
            broken = f"IF({inside}, {broken}, {NO_RULES})"
        frame = looked_up(frame, rules, self.shop.spark)
        try:
            sifted = frame.selectExpr(*columns, f"{broken} AS {RULES}")
            _ = sifted.schema  # over Connect, this is when a mistake is found
        except Exception as exc:
            raise self._explained(exc, frame, rules) from exc
        return sifted

    @staticmethod
    def _explained(exc: Exception, frame: DataFrame, rules: Sequence[RowRule]) -> Exception:
        """With the place of the rule that cannot be asked of the frame."""
        for rule in rules if is_from_spark(exc) else ():
            try:
                _ = frame.selectExpr(rule.bad).schema
            except Exception as failure:  # noqa: BLE001 - of whatever kind: the rule by itself fails, too
                message = explain(failure).message.partition("\n")[0]
                return RunFailed(f"{rule.place}: {rule.name} cannot be checked on the rows: {message}")
        return exc

    @staticmethod
    def _counted(sifted: DataFrame, rules: Sequence[RowRule]) -> Counts:
        of_rules = (f"array_contains({RULES}, {text_literal(rule.name)})" for rule in rules)
        counts = ["count(*)", *(f"count_if({condition})" for condition in (_BAD, *of_rules))]
        rows, bad, *by_rule = sifted.agg(*map(expr, counts)).collect()[0]
        return Counts(rows, bad, {rule.name: count for rule, count in zip(rules, by_rule, strict=True)})

    def _exchange(
        self, bad: DataFrame, counts: Counts, standing: Metadata | None, span: Span | None, keys: DataFrame | None
    ) -> None:
        """What the build replaces of the table goes from the quarantine, too, and the new bad rows come."""
        first, self._begun = not self._begun, True
        whole = first and keys is None and self.step.action not in (Action.WINDOWS, Action.ROWS)
        rows = self._described(bad, span)
        some = counts.bad > 0
        if standing and standing.rows and not whole:
            if self.model.time and span:
                pieces = self._replace_windows(span)
                for piece in pieces:
                    rows = rows.unionByName(self._without_time(piece))
                some = some or bool(pieces)
            elif keys is not None:
                self._remove_keys(keys)
        if whole and standing and standing.rows:
            self._writer(self._fitted(rows, standing, whole=True)).overwrite(expr("true"))
        elif some or (standing is None and self.model.quarantines):
            fitted = self._fitted(rows, standing, whole)
            if some:
                self._writer(fitted).append()

    def _described(self, bad: DataFrame, span: Span | None) -> DataFrame:
        about = [f"{text_literal(self.run)} AS {RUN}", f"{literal(self.shop.now, 'timestamp')} AS {AT}"]
        if self.model.time and span:
            timeless = f"{quoted(self.model.time.column)} IS NULL"
            bounds = ((span.start, FROM), (span.end, TO))
            about += [f"IF({timeless}, {literal(at, 'timestamp')}, NULL) AS {name}" for at, name in bounds]
        return bad.selectExpr("*", *about)

    def _replace_windows(self, span: Span) -> Spans:
        """Take away what lies in the span. Of rows without a time it is known only in the build of which windows they
        came: what is left of those windows has to be asked again for such rows, and is given."""
        assert self.model.time
        frame, time = self._table(), quoted(self.model.time.column)
        start, end = (literal(at, "timestamp") for at in (span.start, span.end))
        inside = within(frame.schema, self.model.time.column, span)
        timeless = f"{time} IS NULL AND {FROM} < {end} AND {TO} > {start}"
        bounds = [f"IF({time} IS NULL, unix_micros({at}), NULL)" for at in (FROM, TO)]
        found = {tuple(row) for row in frame.where(f"{inside} OR {timeless}").selectExpr(*bounds).distinct().collect()}
        # Each by itself: where rows lie in windows, whole files are taken away.
        if (None, None) in found:
            self._delete(inside)
        if batches := found - {(None, None)}:
            self._delete(timeless)
        return Spans.of(Span(*(_EPOCH + timedelta(microseconds=at) for at in row)) for row in batches) - Spans((span,))

    def _without_time(self, piece: Span) -> DataFrame:
        assert self.model.time
        frame = query(self.model, piece, self.shop).where(f"{quoted(self.model.time.column)} IS NULL")
        return self._described(self._sifted(frame, self._rules, piece), piece)

    def _remove_keys(self, keys: DataFrame) -> None:
        name = name_of(self.model.name.quarantine)
        wanted = keys.distinct().alias("mere_keys")
        same = expr(" AND ".join(f"mere_keys.{quoted(key)} <=> {name}.{quoted(key)}" for key in keys.columns))
        if not self._table().join(wanted, same, "left_semi").isEmpty():
            wanted.mergeInto(name, same).whenMatched().delete().merge()

    def _delete(self, condition: str) -> None:
        self.shop.spark.sql(f"DELETE FROM {name_of(self.model.name.quarantine)} WHERE {condition}")

    def _table(self) -> DataFrame:
        return self.shop.spark.table(name_of(self.model.name.quarantine))

    def _fitted(self, rows: DataFrame, standing: Metadata | None, whole: bool) -> DataFrame:
        """The table made or altered to hold the rows. What the model has no more stays, for the rows before."""
        whole = whole or (standing is not None and not standing.rows)
        if standing and not whole:
            before = {old.casefold() for old in self.model.was.values()}
            rows = filled(rows, self._table().schema, before)
        return prepare(self._declared, rows, self.shop.spark, standing, whole=whole, breaking=whole)

    @property
    def _declared(self) -> Model:
        about = f"Rows that did not go into {self.model}, because they break its rules."
        return declared(self.model, self.model.name.quarantine, about, {**self.model.columns, **_ABOUT})

    def _writer(self, rows: DataFrame) -> DataFrameWriterV2:
        return rows.writeTo(name_of(self.model.name.quarantine)).option("fanout-enabled", "true")

    def signature(self, sample: bool) -> Signatures:
        """What is to be written into the quarantine, together with the model's own state."""
        if not self._begun:
            return {}
        name, what = self.model.name.quarantine, f"quarantine of {self.model}"
        return signature(self.lake, self.branch, name, what, self.run, sample)
