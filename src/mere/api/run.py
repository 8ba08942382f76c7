"""A run from start to end: its checks, its events, its hooks and its result."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from mere import config
from mere.api.events import Began, Ended, Event, Listener, Outcome, RunState, Warned, event_of
from mere.api.plan import Plan
from mere.errors import MereError, RunLost, UsageError
from mere.lake.log.commits import Commit
from mere.lake.log.runs import Run, RunStatus
from mere.pipeline.run import request
from mere.pipeline.run.leased import Stopped
from mere.pipeline.run.record import said
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted

# What is to be done: made when the run begins, so that what goes wrong with it is told, too. None: nothing.
Prepare = Callable[[], tuple[request.Project, request.Request] | None]


@dataclass(frozen=True)
class RunResult:
    """A run that succeeded. One that fails raises instead, with its record as the error's `run`."""

    state: RunState  # published, nothing or skipped
    commit: Commit | None = None
    record: Run | None = field(default=None, repr=False)  # None: there was nothing to do
    plan: Plan | None = field(default=None, repr=False)  # what was due when it began
    skipped: str | None = None  # why it was not carried out

    @property
    def id(self) -> str | None:
        return self.record.id if self.record else None

    @cached_property
    def models(self) -> Mapping[str, Outcome]:
        """What happened to each model, by name."""
        found = self.record.models if self.record else {}
        return {name: Outcome.from_about({"model": name, **about}) for name, about in found.items()}

    @property
    def built(self) -> tuple[str, ...]:
        return tuple(name for name, each in self.models.items() if each.state == "built")

    @property
    def rows_added(self) -> int:
        return sum(each.rows_added for each in self.models.values())

    @property
    def rows_removed(self) -> int:
        return sum(each.rows_removed for each in self.models.values())

    @property
    def audits(self) -> tuple[Mapping[str, Any], ...]:
        """Of all models."""
        return tuple(audit for each in self.models.values() for audit in each.audits)

    @property
    def seconds(self) -> float | None:
        return self.record.seconds if self.record else None

    def __repr__(self) -> str:
        run = f" run {self.id}" if self.record else ""
        commit = f", commit {self.commit.short_id}" if self.commit else ""
        return f"<RunResult{run}: {self.state}{commit}, {counted(len(self.built), 'model')} built>"

    def _repr_html_(self) -> str:
        if self.record is None:
            plan = self.plan._repr_html_() if self.plan else ""
            return notebook.shown(self.skipped or "nothing to do", plan)
        columns = [Column("model"), Column("state"), Column("rows"), Column("seconds", True), Column("audits")]
        rows = [_cells(each) for each in self.models.values()]
        commit = f", commit {self.commit.short_id} on {self.record.target}" if self.commit else ""
        return notebook.shown(f"run {self.id}: {self.state}{commit}", notebook.table(columns, rows))

    def to_dict(self) -> dict[str, Any]:
        """How it ended, with what `mere runs show --json` prints of it."""
        return {
            "state": self.state,
            "commit": self.commit.id if self.commit else None,
            "skipped": self.skipped,
            "run": self.record.to_dict() if self.record else None,
        }


def _cells(of: Outcome) -> tuple[object, ...]:
    passed = sum(each["state"] == "ok" for each in of.audits)
    audits = f"{passed} of {len(of.audits)} passed" if of.audits else ""
    return of.model, of.state, f"+{of.rows_added:,} -{of.rows_removed:,}", f"{of.seconds:.1f}", audits


class Attempt:
    """Around all of a run, also what comes before it: if that fails, who listens and the project's hooks hear of it."""

    def __init__(
        self,
        on: str,
        settings: Callable[[], config.Project | None],
        listen: Listener | None,
        stop: threading.Event | None = None,
    ) -> None:
        self._on = on
        self._settings = settings
        self._listener = listen
        self._telling = threading.Lock()
        self._mistake: Exception | None = None  # of who listens
        self._stop = stop or threading.Event()
        self._started_at = datetime.now(UTC)
        self._record: Run | None = None

    def carry_out(self, prepare: Prepare) -> RunResult:
        """An exception of the listener stops the run, and comes out as it is once the run has ended."""
        try:
            return self._reported(prepare)
        finally:
            if self._mistake is not None:
                if self._record is not None:
                    self._mistake.add_note(f"Raised by what listens to run {self._record.id}.")
                raise self._mistake

    def _reported(self, prepare: Prepare) -> RunResult:
        project = None
        try:
            prepared = prepare()
            if prepared is None:
                result = RunResult(RunState.NOTHING)
            else:
                project, asked = prepared
                result = self._carried_out(project, asked)
        except BaseException as error:
            if self._record and project:
                self._record = project.lake.run(self._record.id)
            if isinstance(error, MereError | Stopped):
                error.run = self._record
            self._tell_failure(error)
            raise
        if result.record and (settings := self._settings()):
            self._tell_hook(settings.on_success, result.record.to_dict())
        commit = result.commit.id if result.commit else None
        self._tell(Ended.from_about({"state": result.state, "commit": commit}))
        return result

    def _carried_out(self, project: request.Project, asked: request.Request) -> RunResult:
        def listen(happened: request.Event) -> None:
            event = event_of(happened)
            if isinstance(event, Began):
                self._record = project.lake.run(event.id)
            self._tell(event)

        from mere.pipeline.run.run import run

        done = run(project, asked, listen, self._stop)
        on = asked.on if done.run is None else done.run.target
        plan = Plan(done.plan, project.lake.at(on))
        state = RunState.SKIPPED if done.skipped else RunState.PUBLISHED if done.commit else RunState.NOTHING
        return RunResult(state, done.commit, done.run, plan, done.skipped)

    def _tell(self, event: Event) -> None:
        """Models are built side by side, but who listens hears one thing at a time."""
        if self._listener is None:
            return
        with self._telling:
            if self._mistake is None:
                try:
                    self._listener(event)
                except Exception as error:  # noqa: BLE001 - it is the caller's, and comes out in the end
                    self._mistake = error
                    self._stop.set()

    def _tell_failure(self, error: BaseException) -> None:
        if isinstance(error, UsageError):  # what was asked wrong, who asked hears of
            return
        cancelled = isinstance(error, KeyboardInterrupt)
        state = RunState.CANCELLED if cancelled else RunState.FAILED
        if not isinstance(error, RunLost) and (settings := self._settings()):
            # Of a run that was lost, whoever has it by now tells how it ends.
            status = RunStatus.CANCELLED if cancelled else RunStatus.FAILED
            self._tell_hook(
                settings.on_failure, self._record.to_dict() if self._record else self._refusal(status, error)
            )
        self._tell(Ended.of_failure(state, error))

    def _tell_hook(self, hook: config.Hook | None, run: Mapping[str, Any]) -> None:
        if hook is None:
            return
        from mere.pipeline.run import hooks  # and urllib

        try:
            hooks.tell(hook, run)
        except MereError as error:
            self._tell(Warned.from_about({"message": str(error)}))

    def _refusal(self, status: RunStatus, error: BaseException) -> dict[str, Any]:
        """What stands for the record of a run that did not begin: it has no id and no branch."""
        now = datetime.now(UTC)
        about = {"error": said(error)}
        run = Run("", self._on, "", status, config.default_author(), self._started_at, now, now, about)
        return {**run.to_dict(), "id": None, "branch": None}
