"""Loads portions of a source into its table on the run's branch, one snapshot per batch.

Good rows go to the table, bad ones to its quarantine, and each portion gets a row in the ledger. All three are signed
together: a load that is cut off leaves nothing of a portion, or all of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from mere.audits.quarantine import Counts, broken_rules, row_rules
from mere.errors import RunFailed
from mere.lake import faults
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import REPLACES, WRITTEN
from mere.lake.lake import Lake
from mere.names import RULES
from mere.pipeline.load.batch_rows import Brought, Known, Place, Way, bring
from mere.pipeline.load.formats.lines import with_lines
from mere.pipeline.load.ledger import Ledger
from mere.pipeline.load.quarantine import Aside
from mere.pipeline.load.records import LINE, RAW, WHY
from mere.pipeline.load.unseen import Unseen
from mere.pipeline.plan.steps import Step
from mere.pipeline.quarantine.lookups import looked_up
from mere.pipeline.write.companions import Signatures, signature
from mere.pipeline.write.query import Workshop, literal, writer
from mere.pipeline.write.table import expr, prepare
from mere.project.files.source import READABLE
from mere.project.model import Model
from mere.sources.source import Files, Loaded, OnChange, Portion, Snapshots, Source
from mere.sql.spelling.spark import name_of, quoted, text_literal
from mere.text.words import counted
from mere.windows import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BAD = f"size({RULES}) > 0"
_GOOD = f"size({RULES}) = 0"
# Seconds after which what was loaded so far is signed, so that a load that is cut off can go on from there.
_PAUSE = 30.0
# Of files in one snapshot: what is not signed yet is read again after a kill.
_BYTES = 2**30


@dataclass
class Loading:
    """One build of a source. `loaded`: what its ledger says, or nothing if all is loaded afresh."""

    step: Step
    source: Source  # with the values of its variables
    lake: Lake
    branch: str
    run: str
    shop: Workshop
    place: Place
    loaded: Mapping[str, Loaded]
    counts: Counts = field(default_factory=Counts)
    _new: list[Loaded] = field(default_factory=list)  # not yet in the ledger
    _replaced: set[str] = field(default_factory=set)  # portions of which the ledger says what holds no more
    _signed: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._afresh = self._ledger_afresh = self.step.afresh  # whether what stands there is still to be replaced
        self._seen = {each.columns for each in self.loaded.values() if each.columns}
        self.aside = Aside(self.model, self.source, self.lake, self.branch, self.run, self.shop)
        self.ledger = Ledger(self.model, self.lake, self.branch, self.shop)
        self.unseen = Unseen(self.model)

    @property
    def model(self) -> Model:
        return self.step.model

    @property
    def wrote(self) -> bool:
        """Whether anything came: an API may have been asked in vain."""
        return self.ledger.touched

    def write(self) -> Iterator[bool]:
        """After each batch, whether what is there by now is worth to be signed before all is there."""
        # A run that goes on after it was cut off has loaded some of them already.
        portions = [each for each in self.step.portions if not self._has(each)]
        batches = batched(portions, self.source, self.loaded)
        for number, batch in enumerate(batches, 1):
            self._load(batch, f"{self.run}-{secrets.token_hex(4)}")
            faults.point("load.batch")
            last = number == len(batches)
            pausing = not last and time.monotonic() - self._signed > _PAUSE
            if last:
                self.unseen.refuse()
            if last or pausing:
                self._record()
            yield pausing

    def _has(self, portion: Portion) -> bool:
        known = self.loaded.get(portion.name)
        return known is not None and (known.run, known.version) == (self.run, portion.version)

    def _load(self, batch: Sequence[Portion], load: str) -> None:
        table = self._standing()
        with bring(batch, self.source, self.model, self._known(table), self.place, self.shop) as brought:
            if brought.nothing:
                return
            rules = row_rules(self.model.audits, None)
            faults.point("load.reading")
            frame = self._with_unseen(self._with_trace(brought.frame), table)
            frame = frame.withColumn(RULES, expr(f"IF({_BAD}, array_union(array('{READABLE}'), {RULES}), {RULES})"))
            if asked := [rule for rule in rules if rule.name != READABLE]:
                # What could not be read has broken a rule, and no value of which another could tell anything.
                frame = looked_up(frame, asked, self.shop.spark)
                frame = frame.withColumn(RULES, expr(f"IF({_BAD}, {RULES}, {broken_rules(asked)})"))
                frame = frame.drop(*(name for rule in asked for name in rule.helpers))
            before = table.current_id if table else None
            read, bad = self._put_good(batch, brought, frame, table, brought.rows.may_be_bad or bool(asked))
            faults.point("load.written")
            self.aside.make(frame)
            put_aside = self._put_aside(brought, frame, [rule.name for rule in rules]) if bad else {}
            brought.verify()
            faults.point("load.put_aside")
            rows = self._rows(batch, brought, frame, before)
            self._refuse_lost(batch, read, sum(rows.values()), bad)
            self._note(batch, load, brought, put_aside, rows)
        self._afresh = False

    def _standing(self) -> Metadata | None:
        tables = self.lake.at(self.branch)
        return tables.metadata(self.model.name) if self.model.name in tables else None

    def _known(self, table: Metadata | None) -> Known:
        """The columns of the table as it stands, without those that mere adds, and of what came before."""
        if table is None or self._afresh:
            return Known()
        added = {name.casefold() for name in self.source.trace.names}
        schema = self.shop.spark.table(name_of(self.model.name)).schema
        own = [each for each in schema if each.name.casefold() not in added and each.name not in self.unseen]
        return Known([(each.name, each.dataType.simpleString()) for each in own], self._seen)

    def _with_trace(self, frame: DataFrame) -> DataFrame:
        trace = self.source.trace
        added = {trace.loaded_at: literal(self.shop.now, "timestamp"), trace.run: text_literal(self.run)}
        if trace.raw != RAW:
            added[trace.raw] = quoted(RAW)
        return frame.selectExpr("*", *(f"{sql} AS {quoted(name)}" for name, sql in added.items() if name))

    def _with_unseen(self, rows: DataFrame, table: Metadata | None) -> DataFrame:
        if self._afresh and table and not self.step.breaking:
            self.unseen.begin(table, self.shop.spark.table(name_of(self.model.name)).schema, rows)
        return self.unseen.filled(rows)

    def _put_good(
        self, batch: Sequence[Portion], brought: Brought, frame: DataFrame, table: Metadata | None, dirty: bool
    ) -> tuple[int, int]:
        """How many rows were read, and how many of them are bad: seen on the way, so that what is read is read once."""
        from pyspark.sql import Observation

        counts = {"rows": "count(1)", "bad": f"count_if({_BAD if dirty else 'false'})"}
        observed = Observation()
        # A MERGE may go through its rows twice, which would count them twice; they are held in memory.
        by_key = brought.way is Way.MERGE
        good = frame if by_key else frame.observe(observed, *(expr(sql).alias(name) for name, sql in counts.items()))
        if dirty:
            good = good.where(_GOOD)
        good = good.drop(*(name for name in (RULES, WHY, LINE, RAW) if name != self.source.trace.raw))
        good = prepare(self.model, good, self.shop.spark, table, whole=self._afresh, breaking=self.step.breaking)
        self._put(batch, brought, good, table)
        if by_key:
            read, bad = frame.selectExpr(*counts.values()).collect()[0]
            return read, bad
        return observed.get["rows"], observed.get["bad"]

    def _refuse_lost(self, batch: Sequence[Portion], read: int, written: int, bad: int) -> None:
        """Every row that was read is in the table or in quarantine: by what stands there, not by what was meant to."""
        if read == written + bad:
            return
        names = batch[0].name + (f" and {len(batch) - 1:,} more" if len(batch) > 1 else "")
        raise RunFailed(
            f"{self.model.file}: of {counted(read, 'row')} of {names}, {written:,} are in {self.model} and {bad:,} in"
            " quarantine. Nothing was loaded.",
            remedy="Something else has changed the table or the files meanwhile: run again.",
        )

    def _put(self, batch: Sequence[Portion], brought: Brought, good: DataFrame, table: Metadata | None) -> None:
        into = writer(self.step, good, sum(each.size for each in batch))
        if table is None:
            into.append()
            self.aside.clear()
        elif self._afresh or brought.way is Way.ALL:
            into.overwrite(expr("true"))
            self.aside.clear()
            self._replaced.update(each.portion for each in self.loaded.values())
        elif brought.way is Way.TAIL:
            if brought.tail:
                self._delete(brought.tail)
                into = into.option(f"snapshot-property.{REPLACES}", "true")
            into.append()
        elif brought.way is Way.MERGE:
            name = name_of(self.model.name)
            same = expr(" AND ".join(f"s.{quoted(key)} <=> {name}.{quoted(key)}" for key in self.model.key))
            merge = good.alias("s").mergeInto(name, same)
            merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
        elif names := self._to_replace(batch):
            # A compaction may have put its rows into one file with others.
            compacted = any(each.operation == "replace" for each in table.snapshots)
            if not compacted and all(map(self._came_alone, names)):
                into.overwrite(expr(self._of_files(names)))
            else:
                self._delete(self._of_files(names))
                into.option(f"snapshot-property.{REPLACES}", "true").append()
            if bad := [name for name in names if self.loaded[name].bad]:
                self.aside.remove(bad)
            self._replaced.update(names)
        else:
            into.append()

    def _to_replace(self, batch: Iterable[Portion]) -> list[str]:
        """The portions whose rows go. What is loaded again as it is never comes beside itself."""
        feed = self.source.feed
        adds = isinstance(feed, Files) and feed.on_change is OnChange.APPEND
        there = [each for each in batch if each.name in self.loaded]
        return [each.name for each in there if not adds or each.version == self.loaded[each.name].version]

    def _came_alone(self, name: str) -> bool:
        """Whether the rows of the portion are in files of their own, which can be exchanged as they are."""
        load = self.loaded[name].load
        return [each.portion for each in self.loaded.values() if each.load == load] == [name]

    def _of_files(self, names: Iterable[str]) -> str:
        return f"{quoted(str(self.source.trace.file))} IN ({', '.join(map(text_literal, names))})"

    def _delete(self, condition: str) -> None:
        self.shop.spark.sql(f"DELETE FROM {name_of(self.model.name)} WHERE {condition}")

    def _put_aside(self, brought: Brought, frame: DataFrame, rules: Sequence[str]) -> dict[str, int]:
        """How many rows of each portion."""
        own = {name.casefold() for name in (RULES, WHY, LINE, RAW, *self.source.trace.names)}
        record = ", ".join(quoted(name) for name in frame.columns if name.casefold() not in own)
        told = frame.where(_BAD).withColumn(RAW, expr(f"coalesce({quoted(RAW)}, to_json(struct({record})))"))
        bad = kept = told.persist()
        try:
            if brought.way is not Way.APPEND:
                bad = self.aside.without_known(bad)
            counted = bad.groupBy(expr(brought.rows.portion).alias("portion"), RULES).count().collect()
            self.aside.add(with_lines(bad, brought.rows, brought.paths, self.shop.spark))
        finally:
            kept.unpersist()
        by_portion: dict[str, int] = {}
        by_rule = dict.fromkeys(rules, 0)
        for portion, broken, count in counted:
            by_portion[portion] = by_portion.get(portion, 0) + count
            for rule in broken:
                by_rule[rule] = by_rule.get(rule, 0) + count
        total = sum(by_portion.values())
        self.counts += Counts(total, total, by_rule)
        return by_portion

    def _note(
        self, batch: Sequence[Portion], load: str, brought: Brought, bad: Mapping[str, int], rows: Mapping[str, int]
    ) -> None:
        """For the ledger, which is written when all is there, or after a while."""
        self._seen.update(brought.rows.columns.values())
        self.counts += Counts(sum(rows.values()), 0, {})
        for each in batch:
            self._new.append(
                Loaded(
                    each.name,
                    each.location,
                    each.version,
                    each.size,
                    each.modified,
                    brought.checksums.get(each.name),
                    rows.get(each.name, 0),
                    bad.get(each.name, 0),
                    each.span,
                    brought.until,
                    load,
                    self.shop.now,
                    self.run,
                    brought.rows.columns.get(each.name, ""),
                )
            )

    def _rows(self, batch: Sequence[Portion], brought: Brought, frame: DataFrame, before: int | None) -> dict[str, int]:
        """Of each portion, how many rows are in the table now, by what was written and not by what was read."""
        if brought.way is Way.MERGE:  # which writes others again, that are in the same files
            return {batch[0].name: frame.where(_GOOD).count()}
        if len(batch) == 1:
            table = self._standing()
            assert table
            # None: it was replaced, by what is the last.
            way = table.since(before)
            written = [each for each in (table.snapshots[-1:] if way is None else way) if WRITTEN in each.summary]
            return {batch[0].name: sum(each.count("added-records") for each in written)}
        file = str(self.source.trace.file)
        there = self.shop.spark.table(name_of(self.model.name)).where(self._of_files(each.name for each in batch))
        return {row[0]: row[1] for row in there.groupBy(quoted(file)).count().collect()}

    def _record(self) -> None:
        if self._new:
            self.ledger.write(self._new, self._replaced, self._ledger_afresh)
            self._ledger_afresh = False
            self._new, self._replaced = [], set()
        self._signed = time.monotonic()
        faults.point("load.recorded")

    def signature(self, sample: bool) -> Signatures:
        """Of the quarantine and the ledger, to be written together with the state of the table."""
        name, signed = self.model.name, Signatures()
        if self.aside.touched:
            of = f"quarantine of {self.model}"
            signed |= signature(self.lake, self.branch, name.quarantine, of, self.run, sample)
        if self.ledger.touched:
            signed |= signature(self.lake, self.branch, name.loads, f"ledger of {self.model}", self.run, sample)
        return signed


def batched(portions: Sequence[Portion], source: Source, loaded: Collection[str]) -> list[list[Portion]]:
    """Files that come in one snapshot: up to so many as are declared, and not much more than `_BYTES`; those of one
    window, if each is to have a snapshot of its own. New files and changed ones never come together, so that whoever
    reads the table can tell new rows from exchanged ones. One that comes beside what was loaded of it before comes
    alone: its rows are counted by what its snapshot added."""
    feed = source.feed
    if not isinstance(feed, Files) or not source.trace.file:
        return [[each] for each in portions]
    adds, by_window = feed.on_change is OnChange.APPEND, feed.snapshots is Snapshots.EACH

    def group_of(portion: Portion) -> tuple[bool, Span | None, str]:
        known = portion.name in loaded
        return known, portion.span if by_window else None, portion.name if adds and known else ""

    ordered = sorted(portions, key=lambda each: each.name in loaded)  # new ones first
    batches: list[list[Portion]] = []
    for _, group in groupby(ordered, key=group_of):
        size = 0
        for at, portion in enumerate(group):
            size += portion.size
            if at == 0 or size > _BYTES or len(batches[-1]) == feed.batch:
                batches.append([])
                size = portion.size
            batches[-1].append(portion)
    return batches
