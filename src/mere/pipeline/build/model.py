"""Builds one model on the run's branch: plans it by what its inputs have become, builds, verifies and audits it, and
only then signs it with its state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mere.audits.audit import Audit
from mere.audits.builtin import Scope
from mere.audits.engines import on_duckdb, on_spark
from mere.audits.evaluate import Finding, evaluate
from mere.audits.quarantine import Counts, judged
from mere.audits.rules import Key as KeyRule
from mere.errors import LakeConflict, RunFailed
from mere.lake import faults
from mere.lake.diff import changes
from mere.lake.iceberg.metadata import Metadata, Snapshot, growth
from mere.lake.iceberg.properties import LINEAGE, SAMPLE, WRITTEN
from mere.lake.iceberg.timeline import Timeline
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit, Key, Stats
from mere.names import TableName
from mere.pipeline.build.accounting import NONE, Accounting, rows_in_windows, rows_read, rows_written
from mere.pipeline.build.failures import explained
from mere.pipeline.build.kinds import KINDS
from mere.pipeline.build.lineage import is_traced, recorded_lineage
from mere.pipeline.build.task import Task
from mere.pipeline.load.batch_rows import Place
from mere.pipeline.load.load import Loading
from mere.pipeline.plan.audits import new_audits
from mere.pipeline.plan.facts import HeadFacts, LakeFacts
from mere.pipeline.plan.kinds.incremental import done_before
from mere.pipeline.plan.kinds.inputs import points_of
from mere.pipeline.plan.outcome import built, under_way
from mere.pipeline.plan.plan import plan_model, reads_samples
from mere.pipeline.plan.remedies import on_branch, within
from mere.pipeline.plan.steps import Action, Step, Wish
from mere.pipeline.quarantine.sieve import Sieve
from mere.pipeline.state import unfinished
from mere.pipeline.state.key import key_property
from mere.pipeline.state.signed import Signed, sign
from mere.pipeline.state.state import PROPERTY, Point, Points, State
from mere.pipeline.write import changes as changed
from mere.pipeline.write import query, table, timeless
from mere.pipeline.write.query import Workshop
from mere.project.model import Model
from mere.sources.cache import cache_folder
from mere.sources.offered import Offers
from mere.sources.source import Portion, Source
from mere.sources.variables import with_variables
from mere.sql.spelling.spark import name_of
from mere.text.words import counted
from mere.windows import NEVER, Spans, stamp

# A table below this is audited by DuckDB where that means the same: a query on a JVM that has just been started takes
# half a second of CPU time, whatever it reads.
_LOCAL = 256 * 1024 * 1024


@dataclass(frozen=True)
class Built:
    """What came of a step. Nothing was written if the step, planned again on the branch, found nothing to do."""

    step: Step
    seconds: float = 0.0
    stats: Stats | None = None
    size: int = 0  # of the files that were added
    accounting: Accounting = NONE
    findings: tuple[Finding, ...] = ()
    scoped: bool = False  # whether the audits looked at the new windows only
    quarantine: Counts | None = None  # of a model that has one
    started_at: datetime | None = None
    metadata: Metadata | None = None  # of the table or view, as it was written
    windows: Spans = NEVER  # that the table has now
    notes: tuple[str, ...] = ()  # what the user should know of the rows


class AuditFailed(RunFailed):
    """The table was built, and some of its rows break an audit of severity `error`."""

    def __init__(self, message: str, built: Built, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.built = built


@dataclass(frozen=True)
class Site:
    """Where the models of a run are built."""

    lake: Lake
    branch: str
    target: str
    shop: Workshop
    run: str
    wish: Wish
    go_on: Callable[[], None]  # raises if the run is to end
    started: Callable[[Step], None]
    signed: Signed = field(default_factory=dict)
    offers: Offers | None = None
    fetching: Callable[[TableName, Portion, int, int | None], None] = lambda *_: None
    heads: HeadFacts = field(default_factory=HeadFacts)

    @property
    def facts(self) -> LakeFacts:
        """Of the branch as it is now."""
        return self.heads.of(self.lake, self.branch, self.shop.now, self.offers)


def build_model(model: Model, site: Site, later: Collection[Audit] = ()) -> Built:
    """`later`: audits that have to wait for tables which are not built yet; see `audit_across`."""
    begun, started_at = time.monotonic(), datetime.now(UTC)
    site.go_on()
    before = site.facts
    step = plan_model(model, before, site.wish)
    if starts_over(step, site.run, before):
        sign(site.signed, unfinished.start_over(site.lake, site.branch, site.target, model.name))
        before = site.facts
        step = plan_model(model, before, site.wish)
    if step.action is Action.BLOCKED:
        remedy = on_branch(within(step.remedy, site.branch), site.target, site.branch)
        raise RunFailed("; ".join(step.reasons), remedy=remedy)
    if not step.builds:
        return Built(step)
    site.started(step)
    work = _Work(site, step, before)
    with explained(model):
        if step.action is Action.ALTER:
            work.alter()
        elif step.action is not Action.AUDIT:
            work.write()
            if work.found_nothing:
                return Built(replace(step, action=Action.SKIP))
        standing = work.standing()
        asked = [] if step.action is Action.ALTER else [audit for audit in model.audits if audit not in later]
        findings = work.audit(asked)
        made = replace(work.outcome(), findings=tuple(findings), scoped=work.scoped)
    made = replace(made, seconds=time.monotonic() - begun, started_at=started_at)
    _refuse_bad(made)
    faults.point("run.audited")
    work.sign(standing)
    faults.point("run.signed")
    return made


def starts_over(step: Step, run: str, before: LakeFacts) -> bool:
    """Whether this run has built the table, and its input has gone on since, so that all of it is built again."""
    kind = KINDS.get(step.model.kind)
    if kind is None or step.action is not kind.starts_over:
        return False
    standing = before.standing(step.model.name)
    return standing is not None and standing.state is not None and standing.state.run == run


def audit_across(model: Model, audits: Sequence[Audit], site: Site) -> Built:
    """Of a table that stays as it is, all of it: the tables with which these audits compare it may have changed."""
    site.go_on()
    begun = time.monotonic()
    with explained(model):
        findings = evaluate(model.name, audits, on_spark(site.shop.session), now=site.shop.now)
    made = Built(Step(model, Action.SKIP, ("compared with other tables",)), findings=tuple(findings))
    made = replace(made, seconds=time.monotonic() - begun)
    _refuse_bad(made)
    return made


def _refuse_bad(made: Built) -> None:
    if bad := [each for each in made.findings if each.blocks]:
        key = next((each.audit for each in bad if isinstance(each.audit.rule, KeyRule)), None)
        loosen = f"{key.place} declares the key; `key_audit: warn` there would let such rows pass" if key else None
        raise AuditFailed("; ".join(f"{each.audit}: {each.message}" for each in bad), made, loosen)


class _Work:
    def __init__(self, site: Site, step: Step, before: LakeFacts) -> None:
        self.site = site
        self.step = step
        self.before = before
        self.timeless = timeless.Timeless()
        self.model = step.model
        self.points = points_of(step.model, before)
        self.tables = before.tables
        by_key = [each for each in step.model.inputs if each.key] if step.action is Action.KEYS else []
        self.keys = {each.table: before.keyed(each.table, dict(each.key)) or {} for each in by_key}
        names = [each.table for each in step.model.inputs if each.table in before.tables]
        self.read = {name: before.tables.metadata(name) for name in names if not before.tables.is_view(name)}
        standing = before.standing(step.model.name)
        self.state = None if step.afresh or standing is None else standing.state
        self.done = done_before(step.model, self.state, before) if self.state else NEVER
        self.sample = site.wish.partial or reads_samples(step.model, before)
        stored = step.model.kind.rules.stored
        known = standing is not None and not (standing.view and stored)
        self.old = before.tables.metadata(step.model.name) if known else None
        if standing and standing.view == stored:
            site.lake.drop(str(step.model), on=site.branch)
        self.sieve: Sieve | Loading = Sieve(step, site.lake, site.branch, site.run, site.shop)
        if isinstance(step.model.body, Source):
            self.sieve = self._loading(step.model.body, before)
        self.goes_on = self._goes_on()
        if self.state and self.state.sifted and self.goes_on:
            self.sieve.counts = self.state.sifted  # of the batches before the build was interrupted

    def _goes_on(self) -> bool:
        """Whether an interrupted build is taken up where it was left."""
        if self.state is None:
            return False
        if isinstance(self.sieve, Loading):
            return bool(self.state.towards) and self.state.run == self.site.run
        return bool(self.done) and not self.done & self.step.spans

    def _loading(self, body: Source, before: LakeFacts) -> Loading:
        site, name = self.site, self.model.name

        def fetching(portion: Portion, done: int, of: int | None) -> None:
            site.fetching(name, portion, done, of)

        source = replace(body, feed=with_variables(body.feed, self.model.file, body.line))
        place = Place(site.shop.folder, cache_folder(), fetching, site.offers.landing if site.offers else None)
        loaded = {} if self.step.afresh else before.loaded(name)
        return Loading(self.step, source, site.lake, site.branch, site.run, site.shop, place, loaded)

    def write(self) -> None:
        if isinstance(self.sieve, Loading):
            self._load(self.sieve)
        else:
            self._write(self.sieve)

    @property
    def found_nothing(self) -> bool:
        """Whether a source that had to be asked had nothing to give."""
        is_signed = self.state is not None and not self.state.towards
        return isinstance(self.sieve, Loading) and not self.sieve.wrote and is_signed

    def _load(self, loading: Loading) -> None:
        for pausing in loading.write():
            self.site.go_on()
            if pausing:
                self._sign(self._halfway(NEVER))
                faults.point("run.batch")
        faults.point("run.written")

    def _write(self, sieve: Sieve) -> None:
        if self.step.timeless:
            self.timeless = timeless.look(self.step, self.before, self.site.shop, self.state)
        since = self.state.inputs if self.state else {}
        written = NEVER
        for written in self._writing(since, sieve):
            self.site.go_on()
            if self.step.spans - written:
                self._sign(self._halfway(written))
                faults.point("run.batch")
        if self.step.timeless:
            sieve.put_timeless(self.timeless.frame)
        faults.point("run.written")
        if self.model.time:
            self._verify(self.model.time.column, written)

    def alter(self) -> None:
        assert self.old
        table.alter(self.model, self.site.shop.spark, self.old)

    def _writing(self, since: Points, sieve: Sieve) -> Iterator[Spans]:
        shop, inputs = self.site.shop, changed.Inputs(since, self.points, self.tables)
        if self.step.action in (Action.KEYS, Action.ROWS):
            shop = query.with_changes(self.model, inputs, shop)
        retried = self.model.name in self.site.wish.retry
        storage = self.site.lake.storage
        task = Task(self.step, inputs, self.keys, self.read, self.old, storage, shop, sieve, retried)
        return KINDS[self.model.kind].write(task)

    def _verify(self, column: str, written: Spans) -> None:
        """From the bounds of the files of the model's own rows, for a delete may have written others again: every row
        has a time, in a window that was to be built."""
        metadata = self._metadata()
        timeline = Timeline(str(self.model), metadata, column, self.site.lake.storage)
        added = changes.added(timeline, _own(metadata, self.old))
        if added.nulls:
            raise RunFailed(
                f"{self.model.file}: {counted(added.nulls, 'row')} of {self.model} without {column}, and so without"
                " a window.",
                remedy=f"Leave them out (WHERE {column} IS NOT NULL) or give them a time.",
            )
        outside = added.times - written if added.times else NEVER
        if outside and (hull := outside.hull):
            raise RunFailed(
                f"{self.model.file}: {self.model} returned rows outside of the windows that it was asked for:"
                f" {column} from {stamp(hull.start)} to {stamp(hull.end)}.",
                remedy=f"Its {column} must be the time by which it reads its input, within :start and :end.",
            )

    def outcome(self) -> Built:
        if not self.model.kind.rules.stored:
            return Built(self.step, metadata=self._metadata())
        new = self._metadata()
        size = sum(
            each.count("added-files-size")
            for each in new.since(self.old.current_id if self.old else None) or new.snapshots[-1:]
        )
        windows = (self.state.built if self.state else NEVER) | self.step.spans
        put_aside = self.sieve.counts if self.model.quarantines else None
        stats, accounting = growth(self.old, new), self._accounting(new)
        return Built(
            self.step,
            0.0,
            stats,
            size,
            accounting,
            quarantine=put_aside,
            metadata=new,
            windows=windows,
            notes=self.timeless.told,
        )

    def _accounting(self, new: Metadata) -> Accounting:
        """Of all of the build, also of what it had done before it was interrupted."""
        counts, name = self.sieve.counts, self.model.name
        if self.step.action in (Action.ALTER, Action.AUDIT):
            return NONE
        if isinstance(self.sieve, Loading):
            return Accounting(counts.rows, counts.good, counts.bad)
        spans, old = self.step.spans, self.old
        if self.goes_on:
            spans = spans | self.done
            target = self.site.lake.at(self.site.target)
            old = target.metadata(name) if name in target else None
        written = rows_written(_since(new, old) if self.model.kind.rules.by_key else _own(new, old))
        if not self.model.inputs:  # a seed
            return Accounting(written + counts.bad, written, counts.bad)
        if self.model.time:
            read = rows_in_windows(self.model, spans, self.timeless, self.before)
        else:
            read = rows_read(self.step, self.state.inputs if self.state else {}, self.points, self.before)
        dropped = sum(self.timeless.rows.values()) if self.timeless.drops else 0
        return Accounting(read, written, counts.bad, dropped)

    @property
    def scoped(self) -> bool:
        """Whether audits look at the new windows only: not if one of them has never been asked of the others."""
        return bool(self.model.time and self.state and not new_audits(self.model, self.state))

    def audit(self, audits: Sequence[Audit]) -> list[Finding]:
        if not audits:
            return []
        shop, time_ = self.site.shop, self.model.time
        scope = None
        if time_ and self.state and self.scoped:
            schema = shop.spark.table(name_of(self.model.name)).schema
            windows = query.within(schema, time_.column, *(self.state.done | self.step.spans))
            scope = Scope(time_.column, windows)
        metadata = self._metadata() if self.model.kind.rules.stored else None
        ask = partial(
            evaluate,
            self.model.name,
            now=shop.now,
            scope=scope,
            count=metadata.rows if metadata else None,
            before=self._rows_on_target(),
        )
        found = {id(each): self._judged(each) for each in audits if each.quarantine}
        if metadata and metadata.size < _LOCAL:
            quick = [each for each in audits if each.portable and not each.quarantine]
            asked = ask(quick, on_duckdb(self.site.lake, self.site.branch)) if quick else []
            found |= {id(each.audit): each for each in asked if not each.broken}
        rest = [each for each in audits if id(each) not in found]
        found |= {id(each.audit): each for each in ask(rest, self._on_spark)}
        return [found[id(each)] for each in audits]

    def _on_spark(self, sql: str) -> list[dict[str, Any]]:
        return on_spark(self.site.shop.session)(sql)

    def _judged(self, audit: Audit) -> Finding:
        """By what was put aside: the table itself has none of these rows."""
        return judged(self.model.name, audit, self.sieve.counts, self.site.run, self._on_spark)

    def _rows_on_target(self) -> int | None:
        """The branch may hold a part of what an interrupted build has written."""
        standing = self.site.lake.at(self.site.target)
        name = self.model.name
        return None if name not in standing or standing.is_view(name) else standing.metadata(name).rows

    def standing(self) -> Signed:
        """Where the tables stand that are audited now and signed then."""
        entries = self.site.lake.at(self.site.branch).entries
        return {key: entries[key] for key in map(Key.of, self.model.writes) if key in entries}

    def sign(self, standing: Signed) -> None:
        state = built(self.step, self.state, self.points, self.site.run, self.site.shop.now)
        try:
            made = self._sign(state, standing)
        except LakeConflict as moved:
            raise RunFailed(
                f"{moved.message.removesuffix(' Nothing was changed.')} It was audited before that.",
                remedy="Only the run may write to its branch. Resuming the run undoes that.",
            ) from moved
        self.site.signed.update(standing)
        sign(self.site.signed, made)

    def _halfway(self, written: Spans) -> State:
        state = under_way(self.step, self.state, self.points, self.site.run, self.done | written)
        if isinstance(self.sieve, Loading):  # it reads nothing in the lake by which that could be told
            state = replace(state, towards={str(self.model): Point("")})
        return replace(state, sifted=self.sieve.counts) if self.model.quarantines else state

    def _sign(self, state: State, standing: Signed | None = None) -> Commit | None:
        """The state goes into the table as it stands; into what is `standing`, or nowhere."""
        metadata = self._metadata()
        key = key_property(self.model, metadata)
        form = unfinished.form_of(metadata.with_properties(key))
        state = replace(state, snapshot=metadata.current_id, sample=self.sample, form=form)
        properties = {PROPERTY: state.to_json(), **key, **self._lineage(metadata)}
        if state.sample or SAMPLE in metadata.properties:
            properties[SAMPLE] = str(state.sample).lower()
        quarantine = self.sieve.signature(self.sample)
        signatures = {self.model.name: properties, **quarantine}
        return self.site.lake.set_properties(signatures, on=self.site.branch, expected=standing)

    def _lineage(self, metadata: Metadata) -> dict[str, str]:
        """Once for a function, as long as it stays what it is: to ask for a plan takes its time."""
        result = self.site.shop.results.get(self.model.name)
        if result is None or is_traced(self.model, metadata.properties.get(LINEAGE)):
            return {}
        return {LINEAGE: recorded_lineage(self.model, result, self.site.shop.spark)}

    def _metadata(self) -> Metadata:
        return self.site.lake.at(self.site.branch).metadata(self.model.name)


def _since(metadata: Metadata, old: Metadata | None) -> list[Snapshot]:
    """The snapshots that came to what stood there; if that was replaced, all of them."""
    way = metadata.since(old.current_id if old else None)
    return (metadata.since(None) if way is None else way) or []


def _own(metadata: Metadata, old: Metadata | None) -> list[Snapshot]:
    """Those among them in which the model's own rows came: a delete may have written others again."""
    return [each for each in _since(metadata, old) if WRITTEN in each.summary]
