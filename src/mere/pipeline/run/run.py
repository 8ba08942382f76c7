"""A run: fork a branch, build there what is due, audit it, and publish all of it or nothing."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from mere.audits.audit import Audit
from mere.errors import LakeConflict, LakeError, LeaseHeld, LeaseLost, RunFailed, RunLost
from mere.lake import faults
from mere.lake.iceberg.properties import RUN
from mere.lake.log.commits import Commit, Space
from mere.lake.log.fence import Fence
from mere.lake.log.runs import Run
from mere.lake.refs.leases import Held
from mere.names import TableName
from mere.pipeline.build.model import Built, Site, audit_across, build_model, starts_over
from mere.pipeline.plan.evolution import readers_of
from mere.pipeline.plan.facts import LakeFacts
from mere.pipeline.plan.steps import Action, Plan, Step, Wish
from mere.pipeline.run import accept, cross_audits, failures, resume
from mere.pipeline.run.leased import leased, look
from mere.pipeline.run.record import Record, about, described, new_run
from mere.pipeline.run.refusals import refuse_blocked, refuse_known, refuse_read_only, refuse_samples_of_main
from mere.pipeline.run.request import (
    Event,
    Finished,
    IfRunning,
    Listener,
    Project,
    Request,
    planned,
    refuse_errors,
    resolved,
)
from mere.pipeline.run.schedule import Abandoned, Failure, Unbuilt, execute
from mere.pipeline.state import unfinished
from mere.pipeline.state.signed import Signed, sign
from mere.pipeline.write.query import Workshop, make_namespaces
from mere.pipeline.write.table import BreakingChange
from mere.project.archive import send_modules
from mere.project.functions import function
from mere.project.model import Model, Python
from mere.sources.source import Database, Portion, Source

if TYPE_CHECKING:
    from mere.engine.jvm.jars import Jar
    from mere.engine.session import Session

_REBASES = 3
_SELDOM = 0.5  # seconds between two events that tell how far a file was fetched


def run(project: Project, request: Request, listen: Listener, stop: threading.Event | None = None) -> Finished:
    """`stop`: set by another thread, it ends the run as Ctrl-C does in this one, with Stopped."""
    refuse_samples_of_main(request)
    stop = stop or threading.Event()
    project = replace(project, offers=project.new_offers())
    if request.resume:
        return _resumed(project, request, listen, stop)
    refuse_read_only(project.lake, request.on)
    refuse_known(project.lake, request)
    now = request.now or project.lake.now()
    request = resolved(project, request, now)
    due = planned(project, request, now)
    refuse_blocked(due)
    if not _has_work(due, request):
        return Finished(due)
    refuse_errors(project, request, due)
    _get_ready(project)
    id_ = request.id or secrets.token_hex(6)
    try:
        with leased(project.lake, due, request, id_, listen, stop) as held:
            due = planned(project, request, now)  # the run for which we waited may have done it
            refuse_blocked(due)
            if not _has_work(due, request):
                return Finished(due)
            branch = project.lake.run_branch(request.on, id=id_)
            faults.point("run.forked")
            anew = new_run(project, request, branch.name, id_, now)
            return _Running(project, request, anew, now, listen, stop).carry_out(due, held)
    except LeaseLost:
        raise
    except LeaseHeld as held:
        if request.if_running is IfRunning.SKIP:
            return Finished(due, skipped=f"skipped: {held.message}")
        raise


def _get_ready(project: Project) -> None:
    """There is work for Spark: what its client needs is imported while the run begins."""
    from mere.engine.session import get_ready

    get_ready(project.lake, project.spark)


def _resumed(project: Project, request: Request, listen: Listener, stop: threading.Event) -> Finished:
    lake = project.lake
    now = lake.now()
    if done := resume.had_ended(lake, str(request.resume)):
        commit = lake.resolve(done.about["commit"]).commit if done.about.get("commit") else None
        how = f"was published already, as commit {commit.short_id}" if commit else "had nothing to publish"
        return Finished(Plan(done.target, now, ()), commit=commit, skipped=f"nothing to do: run {done.id} {how}")
    past = resume.left(lake, str(request.resume))
    wish = Wish.from_json(past.about.get("wish", {}))
    wish = replace(wish, accepted=wish.accepted | request.wish.accepted)  # decided since
    asked = resume.as_then(project, replace(request, on=past.target, wish=wish), past, now)
    due = planned(project, asked, now)
    refuse_errors(project, asked, due)
    _get_ready(project)
    anew = resume.take_over(lake, past, new_run(project, asked, past.branch, past.id, now))
    return _Running(project, asked, anew, now, listen, stop).go_on(due)


def _has_work(due: Plan, request: Request) -> bool:
    return bool(due.building or request.wish.forward_only)


def _drivers(models: Iterable[Model]) -> list[Jar]:
    """Of databases that sources read."""
    databases = [model.body.feed for model in models if isinstance(model.body, Source)]
    found = [each for each in databases if isinstance(each, Database)]
    if not found:
        return []
    from mere.sources.database import drivers

    return [jar for each in found for jar in drivers(each)]


class _Running:
    """One attempt at a run, from its branch to its commit."""

    def __init__(
        self, project: Project, request: Request, anew: Run, now: datetime, listen: Listener, stop: threading.Event
    ) -> None:
        self.project = project
        self.lake = project.lake
        self.request = request
        self._wish = request.wish  # as it was asked for, whatever of it is done by now
        self.branch = anew.branch
        self.now = now
        self.listen = listen
        self.stop = threading.Event()
        self._asked_to_stop = stop
        self._held: Held | None = None
        self._signed: Signed = {}
        self._told_at = 0.0
        self._stack = ExitStack()
        self._opened: Session | None = None
        self._opening = threading.Lock()
        self.record = Record(self.lake.store, anew)

    def carry_out(self, due: Plan, held: Held | None) -> Finished:
        with self._begun():
            return self._finish(due, held)

    def go_on(self, due: Plan) -> Finished:
        """With what an attempt before has left on the branch."""
        with self._begun(), leased(self.lake, due, self.request, self.id, self.listen, self._asked_to_stop) as held:
            unfinished.take_back(self.lake, self.branch, self.request.on)
            self.record.recover(resume.built_before(self._facts, self.id))
            self._catch_up()  # what was mended may be data on the target
            due = self._without_own(planned(self.project, self.request, self.now, ref=self.branch))
            refuse_blocked(due, branch=self.branch)
            return self._finish(due, held)

    def _without_own(self, due: Plan) -> Plan:
        """What stopped at rows that an attempt before has taken is built again from what is published."""
        known = self._facts
        own = [step.model for step in due.blocked if starts_over(step, self.id, known)]
        for model in own:
            sign(self._signed, unfinished.start_over(self.lake, self.branch, self.request.on, model.name))
        return planned(self.project, self.request, self.now, ref=self.branch) if own else due

    @contextmanager
    def _begun(self) -> Iterator[None]:
        with self.record.kept(self._cancel), self._stack:
            self.listen(Event("run", about={"id": self.id, "branch": self.branch, "on": self.request.on}))
            yield

    def _finish(self, due: Plan, held: Held | None) -> Finished:
        self._held = held
        if self.request.wish.forward_only:
            known = self._facts
            made = accept.with_code(self.lake, self.project.graph, self.request.wish.forward_only, known, self.branch)
            sign(self._signed, made)
        try:
            commit = self._built_and_published(due)
        except Exception:
            self._ask()
            raise
        self.record.succeeded(commit)
        return Finished(due, self.record.run, commit)

    def _built_and_published(self, due: Plan) -> Commit | None:
        """A target that moved meanwhile is caught up with: what that touches is built again, the rest is kept."""
        for attempt in range(_REBASES + 1):
            made = self._build(due) if due.building else {}
            relied_upon = self._compare(due, made)
            self.check()
            look(self._asked_to_stop)
            try:
                faults.point("run.publishing")
                return self._publish(relied_upon)
            except LakeConflict as conflict:
                if attempt == _REBASES:
                    raise
                self.listen(Event("rebase", about={"tables": [str(each.key) for each in conflict.conflicts]}))
                self._catch_up()
                due = planned(self.project, self.request, self.now, ref=self.branch)
                refuse_blocked(due, self._untouched, self.branch)
        raise AssertionError("the last attempt returns or raises")

    def _catch_up(self) -> None:
        """The branch stands on the target's head afterwards, and what it has built is not asked for again."""
        rebased = self.lake.rebase(self.branch)
        self._signed.clear()
        self._signed.update(resume.still_signed(rebased))
        built = self._facts.built_by_mere()
        self.request = replace(self.request, wish=resume.still_wished(self._wish, built, self.id))

    @property
    def _facts(self) -> LakeFacts:
        return self.project.facts(self.branch, self.now)

    def _ask(self) -> None:
        """Whether the run has its branch and its tables still. Else what failed is not to blame: engines are refused,
        or cannot find their tables."""
        self.record.ask()
        if self._held:
            try:
                self._held.check()
            except LeaseLost:
                raise
            except LakeError:  # busy or away: what failed tells of that
                return

    def check(self) -> None:
        self.record.check()
        if self._held:
            self._held.check()

    def _publish(self, relied_upon: Set[TableName]) -> Commit | None:
        message = self.request.message or f"run {self.id}"
        leased = (self._held.holder, self._held.tables) if self._held else ()
        fence = Fence(self.id, self.request.on, self._signed, *leased)
        published = self.lake.publish(
            self.branch, self.request.on, message=message, run=self.id, reads=relied_upon, fence=fence
        )
        commit = published.commit
        self.listen(Event("published", about={"commit": commit.id if commit else None, "on": self.request.on}))
        return commit

    def _build(self, due: Plan) -> Mapping[TableName, Built]:
        building = {step.model.name for step in due.tried}
        waiting = {step.model.name for step in due.tried if step.waits}
        graph = self.project.graph
        chosen = [name for name in graph.models if name in building]
        needs = {name: (graph.upstream([name]) - {name}) & building for name in chosen}
        self.listen(Event("plan", about={"models": [str(step.model) for step in due.building]}))
        site = self._site(due)
        known = self._facts
        standing = {table.namespace for table in known.tables}
        make_namespaces([name for name in chosen if name.namespace not in standing], site.shop)
        later = {name: cross_audits.waiting(graph, graph.models[name], building, known) for name in chosen}

        def build(name: TableName) -> Built:
            try:
                built = build_model(graph.models[name], site, later[name])
            except BreakingChange as refused:
                raise refused.read_by(partial(readers_of, graph, known, name)) from None
            if built.step.builds or name not in waiting:
                self.listen(Event("built" if built.step.builds else "unchanged", name, self._about(built)))
            return built

        return self._execute(chosen, needs, build, waiting)

    def _compare(self, due: Plan, made: Mapping[TableName, Built]) -> set[TableName]:
        """Ask the audits between tables that what was built has not answered; what they relied upon is given."""
        if not any(audit.reads for model in self.project.graph.models.values() for audit in model.audits):
            return set()
        changed = cross_audits.changed_by(self.lake, self.branch, self.request.on)
        found = cross_audits.comparisons(self.project.graph, self._facts, changed)
        if self.request.wish.partial:  # a part of a table lacks rows that others point to
            found = [each for each in found if each.own & changed]
        open_: dict[TableName, list[Audit]] = {}
        for each in cross_audits.unanswered(found, made, changed):
            open_.setdefault(each.model.name, []).append(each.audit)
        if open_:
            site = self._site(due)

            def compare(name: TableName) -> Built:
                built = audit_across(self.project.graph.models[name], open_[name], site)
                self.listen(Event("audited", name, self._about(built)))
                before = self.record.outcomes.get(name)
                if not isinstance(before, Built):
                    return built
                old = [each for each in before.findings if each.audit not in open_[name]]
                return replace(before, findings=(*old, *built.findings))

            self._execute(list(open_), dict.fromkeys(open_, frozenset()), compare)
        return cross_audits.relied_upon(found, changed)

    def _execute(
        self,
        names: Sequence[TableName],
        needs: Mapping[TableName, Set[TableName]],
        work: Callable[[TableName], Built],
        waiting: Set[TableName] = frozenset(),
    ) -> dict[TableName, Built]:
        """`waiting`: of what is nothing said if there was nothing to do."""

        def one(name: TableName) -> Built:
            begun = time.monotonic()
            try:
                return work(name)
            except Exception as error:
                try:
                    self._ask()
                except (LeaseLost, RunLost) as ended:
                    raise Abandoned(ended) from error
                seconds = time.monotonic() - begun
                failed = {"branch": self.branch, "seconds": seconds, **described(Failure(error))}
                self.listen(Event("failed", name, failed))
                raise

        def ended(name: TableName, outcome: Built | Failure | Unbuilt[TableName]) -> None:
            if name not in waiting or not isinstance(outcome, Built) or outcome.step.builds:
                self.record.add(name, outcome)

        try:
            outcomes = execute(
                names, needs, one, self.request.threads, self._cancel, ended, partial(look, self._asked_to_stop)
            )
        except Abandoned as abandoned:
            raise abandoned.why from abandoned
        failures.refuse(self.record.run, self.record.outcomes, self._has_built, self._untouched)
        return {name: each for name, each in outcomes.items() if isinstance(each, Built)}

    def _cancel(self) -> None:
        self.stop.set()
        if self._opened:
            self._opened.cancel()

    def _site(self, due: Plan) -> Site:
        make = partial(function, self.project.folder)
        shop = Workshop(partial(self._session, due), self.project.folder, make, self.now, self._sampled(due))
        if any(step.action is not Action.AUDIT for step in due.building):
            shop.opened()  # before models ask for it side by side: if it cannot be had, that is said once

        def started(step: Step) -> None:
            self.listen(Event("building", step.model.name, about(step)))

        offers = self.project.offers or self.project.new_offers()
        wish = self.request.wish

        def fetching(model: TableName, portion: Portion, done: int, of: int | None) -> None:
            self._go_on()
            if done != of and time.monotonic() - self._told_at < _SELDOM:
                return
            self._told_at = time.monotonic()
            self.listen(Event("fetching", model, {"portion": portion.name, "bytes": done, "of": of}))

        target, go_on = self.request.on, self._go_on
        return Site(
            self.lake,
            self.branch,
            target,
            shop,
            self.id,
            wish,
            go_on,
            started,
            self._signed,
            offers,
            fetching,
            self.project.heads,
        )

    def _about(self, built: Built) -> dict[str, Any]:
        return {"branch": self.branch, **described(built)}

    def _session(self, due: Plan) -> Session:
        """Opened once, when something has to be built or is too large to be audited without, until the run ends."""
        with self._opening:
            if self._opened is None:
                self._opened = self._open(due)
            return self._opened

    def _open(self, due: Plan) -> Session:
        from mere.engine.session import session

        opened = session(
            self.lake,
            self.branch,
            settings=self.project.spark,
            read_bytes=due.load.bytes,
            drivers=_drivers(step.model for step in due.building),
            check=self.check,
        )
        self._stack.enter_context(opened)
        opened.spark.conf.set(f"spark.sql.iceberg.snapshot-property.{RUN}", self.id)
        if opened.is_elsewhere and any(isinstance(step.model.body, Python) for step in due.building):
            send_modules(self.project.folder, opened)
        if opened.about:
            self.listen(Event("engine", about={"where": opened.about}))
        return opened

    def _sampled(self, due: Plan) -> dict[TableName, float]:
        """Where rows come into what is built: of these a share is taken, and not of that share a share again."""
        share = self.request.wish.sample
        # What a source brings is brought whole: the ledger says that it is there.
        built = {step.model.name for step in due.building if not isinstance(step.model.body, Source)}
        read = {each.table for step in due.building for each in step.model.inputs}
        return {} if share is None else dict.fromkeys(read - built, share)

    @property
    def id(self) -> str:
        return self.record.run.id

    def _go_on(self) -> None:
        self.check()
        if self.stop.is_set():
            raise RunFailed("interrupted")

    @property
    def _untouched(self) -> str:
        built = f"What was built is on the branch {self.branch}." if self._has_built else "Nothing was built."
        return f"{self.request.on} was left as it was. {built}"

    @property
    def _has_built(self) -> bool:
        """Whether there is a table or view on the branch that it has not from its target."""
        store = self.lake.store
        ours, theirs = store.ref(self.branch), store.ref(self.request.on)
        if ours is None or theirs is None:
            return False
        own = store.divergence(ours, theirs).source
        return any(change.key.space is Space.RELATION for commit in own for change in commit.changes)
