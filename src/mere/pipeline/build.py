"""One model on the run's branch: planned by what its inputs have become, built, verified, audited, and only then signed
with its state."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from mere.audits.audit import Audit
from mere.audits.builtin import Scope
from mere.audits.engines import on_duckdb, on_spark
from mere.audits.evaluate import Finding, evaluate
from mere.engine.translate import explain, is_from_spark
from mere.errors import MereError, RunFailed
from mere.lake import changes, faults
from mere.lake.commits import Stats
from mere.lake.guards import SAMPLE
from mere.lake.lake import Lake
from mere.lake.metadata import Metadata, growth
from mere.lake.timeline import Timeline
from mere.pipeline import materialize, tables
from mere.pipeline.facts import LakeFacts, facts
from mere.pipeline.materialize import WRITTEN, Workshop
from mere.pipeline.outcome import built, under_way
from mere.pipeline.plan import done_before, plan_model, points_of, reads_samples
from mere.pipeline.state import PROPERTY, State
from mere.pipeline.steps import Action, Step, Wish
from mere.project.model import Kind, Model, Python, Sql
from mere.windows import NEVER, Spans, stamp

_LINE = re.compile(r"\(line (\d+), column (\d+)\)")
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
    findings: tuple[Finding, ...] = ()
    scoped: bool = False  # whether the audits looked at the new windows only


class AuditFailed(RunFailed):
    """The table was built, and some of its rows break an audit of severity `error`."""

    def __init__(self, message: str, built: Built) -> None:
        super().__init__(message)
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


def build_model(model: Model, site: Site, later: Collection[Audit] = ()) -> Built:
    """`later`: audits that have to wait for tables which are not built yet; see `audit_across`."""
    begun = time.monotonic()
    site.go_on()
    before = facts(site.lake, site.branch, site.shop.now)
    step = plan_model(model, before, site.wish, {})
    if step.action is Action.BLOCKED:
        raise RunFailed(f"{model}: {step.reasons[0]}", remedy=step.remedy)
    if not step.builds:
        return Built(step)
    site.started(step)
    work = _Work(site, step, before)
    with _explained(model):
        if step.action is not Action.AUDIT:
            work.write()
        findings = work.audit([audit for audit in model.audits if audit not in later])
        made = replace(work.outcome(), findings=tuple(findings), scoped=work.scoped)
    made = replace(made, seconds=time.monotonic() - begun)
    _refuse_bad(made)
    faults.point("run.audited")
    work.sign()
    faults.point("run.signed")
    return made


def audit_across(model: Model, audits: Sequence[Audit], site: Site) -> Built:
    """Of a table that stays as it is, all of it: the tables with which these audits compare it may have changed."""
    site.go_on()
    begun = time.monotonic()
    with _explained(model):
        findings = evaluate(model.name, audits, on_spark(site.shop.session), now=site.shop.now)
    made = Built(Step(model, Action.SKIP, ("compared with other tables",)), findings=tuple(findings))
    made = replace(made, seconds=time.monotonic() - begun)
    _refuse_bad(made)
    return made


def _refuse_bad(made: Built) -> None:
    if bad := [each for each in made.findings if each.blocks]:
        raise AuditFailed("; ".join(f"{each.audit}: {each.message}" for each in bad), made)


class _Work:
    def __init__(self, site: Site, step: Step, before: LakeFacts) -> None:
        self.site = site
        self.step = step
        self.model = step.model
        self.points = points_of(step.model, before)
        standing = before.standing(step.model.name)
        self.state = None if step.afresh or standing is None else standing.state
        self.done = done_before(step.model, self.state, before) if self.state else NEVER
        self.sample = site.wish.partial or reads_samples(step.model, before)
        self.old = before.tables.metadata(step.model.name) if standing and not standing.view else None
        if standing and standing.view != (step.model.kind is Kind.VIEW):
            site.lake.drop(str(step.model), on=site.branch)

    def write(self) -> None:
        since = self.state.inputs if self.state else {}
        written = NEVER
        for written in materialize.build(self.step, since, self.points, self.old, self.site.shop):
            self.site.go_on()
            if self.step.spans - written:
                self._sign(self._halfway(written))
                faults.point("run.batch")
        faults.point("run.written")
        if self.model.time:
            self._verify(self.model.time.column, written)

    def _verify(self, column: str, written: Spans) -> None:
        """From the bounds of the files of the model's own rows, for a delete may have written others again: every row
        has a time, in a window that was to be built."""
        metadata = self._metadata()
        timeline = Timeline(str(self.model), metadata, column, self.site.lake.storage)
        way = metadata.since(self.old.current_id if self.old else None)
        own = [each for each in (metadata.since(None) if way is None else way) or () if WRITTEN in each.summary]
        added = changes.added(timeline, own)
        if added.nulls:
            raise RunFailed(
                f"{self.model.file}: {added.nulls:,} rows of {self.model} have no {column}: they belong to no window.",
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
        if self.model.kind is Kind.VIEW:
            return Built(self.step)
        new = self._metadata()
        size = sum(
            each.count("added-files-size")
            for each in new.since(self.old.current_id if self.old else None) or new.snapshots[-1:]
        )
        return Built(self.step, stats=growth(self.old, new), size=size)

    @property
    def scoped(self) -> bool:
        return bool(self.model.time and self.state)

    def audit(self, audits: Sequence[Audit]) -> list[Finding]:
        if not audits:
            return []
        shop, time_ = self.site.shop, self.model.time
        scope = None
        if time_ and self.state:
            schema = shop.spark.table(tables.name_of(self.model.name)).schema
            windows = materialize.within(schema, time_.column, *(self.state.done | self.step.spans))
            scope = Scope(time_.column, windows)
        metadata = None if self.model.kind is Kind.VIEW else self._metadata()
        ask = partial(
            evaluate,
            self.model.name,
            now=shop.now,
            scope=scope,
            count=metadata.rows if metadata else None,
            before=self._rows_on_target(),
        )
        found: dict[int, Finding] = {}
        if metadata and metadata.size < _LOCAL:
            quick = [each for each in audits if each.portable]
            asked = ask(quick, on_duckdb(self.site.lake, self.site.branch)) if quick else []
            found = {id(each.audit): each for each in asked if not each.broken}
        rest = [each for each in audits if id(each) not in found]
        found |= {id(each.audit): each for each in ask(rest, on_spark(shop.session))}
        return [found[id(each)] for each in audits]

    def _rows_on_target(self) -> int | None:
        """The branch may hold a part of what an interrupted build has written."""
        standing = self.site.lake.at(self.site.target)
        name = self.model.name
        return None if name not in standing or standing.is_view(name) else standing.metadata(name).rows

    def sign(self) -> None:
        self._sign(built(self.step, self.state, self.points, self.site.run, self.site.shop.now))

    def _halfway(self, written: Spans) -> State:
        return under_way(self.step, self.state, self.points, self.site.run, self.done | written)

    def _sign(self, state: State) -> None:
        """The state goes into the table as it stands, with nothing in between: nobody else writes to this branch."""
        metadata = self._metadata()
        state = replace(state, snapshot=metadata.current_id, sample=self.sample)
        properties = {PROPERTY: state.to_json()}
        if state.sample or SAMPLE in metadata.properties:
            properties[SAMPLE] = str(state.sample).lower()
        self.site.lake.set_properties({self.model.name: properties}, on=self.site.branch)

    def _metadata(self) -> Metadata:
        return self.site.lake.at(self.site.branch).metadata(self.model.name)


@contextmanager
def _explained(model: Model) -> Iterator[None]:
    """Whatever goes wrong in here is told with the model's file and, if it can be known, the line."""
    try:
        yield
    except MereError:
        raise
    except Exception as exc:
        if is_from_spark(exc):
            failure = explain(exc)
            raise RunFailed(
                f"{_place(model, failure.message)}: {_without_line(failure.message)}", remedy=failure.remedy
            ) from exc
        if isinstance(model.body, Python):
            raise RunFailed(f"{_python_place(model, exc)}: {type(exc).__name__}: {exc}") from exc
        raise


def _place(model: Model, message: str) -> str:
    found = _LINE.search(message)
    if not found or not isinstance(model.body, Sql):
        return f"{model.file}:{model.body.line}"
    return f"{model.file}:{model.body.line + int(found[1]) - 1}:{found[2]}"


def _without_line(message: str) -> str:
    return _LINE.sub("", message).rstrip()


def _python_place(model: Model, exc: BaseException) -> str:
    """The deepest line of the stack that is in the model's own file."""
    line, traceback = model.body.line, exc.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.replace("\\", "/").endswith(model.file):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{model.file}:{line}"
