"""The record of a run in the lake's database, kept from its first moment: a killed run cannot report later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mere.config import default_author
from mere.errors import LakeError, MereError, RunLost
from mere.lake.iceberg.metadata import Metadata
from mere.lake.log.commits import Commit
from mere.lake.log.process import Process
from mere.lake.log.runs import Run, RunStatus, beating
from mere.lake.store.port import Store
from mere.names import TableName
from mere.pipeline.build.model import AuditFailed, Built
from mere.pipeline.plan.steps import Step
from mere.pipeline.run.documents import columns_document, model_document, range_document, table_document
from mere.pipeline.run.request import Project, Request
from mere.pipeline.run.schedule import Failure, Unbuilt

Outcome = Built | Failure | Unbuilt[TableName]
_KEPT = timedelta(days=90)
_DECLARED = ("inputs", "key", "owner", "tags", "grain")


def new_run(project: Project, request: Request, branch: str, id_: str, now: datetime) -> Run:
    about = {
        "process": Process.mine().to_json(),
        "selection": list(request.selection),
        "chosen": None if request.chosen is None else sorted(map(str, request.chosen)),
        "variables": dict(project.variables),
        "wish": request.wish.to_json(),
        "message": request.message,
        "check": request.check,
    }
    return Run(id_, request.on, branch, RunStatus.RUNNING, default_author(), started_at=now, beat_at=now, about=about)


def resumed(past: Run, anew: Run) -> Run:
    """The record of another attempt at a run: it keeps those before it."""
    attempts = [*past.attempts[:-1], {**past.attempts[-1], "ended_at": _moment(past.ended_at or past.beat_at)}]
    about = {**anew.about, "attempts": attempts, "resumed_at": _moment(anew.started_at)}
    return replace(anew, started_at=past.started_at, about=about)


def _moment(instant: datetime) -> str:
    return instant.isoformat(timespec="milliseconds")


class Record:
    """One run's record, and the outcomes of its models as far as they are known."""

    def __init__(self, store: Store, run: Run) -> None:
        self.store = store
        self.run = run
        self.outcomes: dict[TableName, Outcome] = {}
        self._lost = threading.Event()

    @contextmanager
    def kept(self, lost: Callable[[], None]) -> Iterator[None]:
        """However the block ends, the record says so; unless nobody is left to write it, or the run is somebody else's
        by now: RunLost then. `lost` is called as soon as that is noticed."""

        def stop() -> None:
            self._lost.set()
            lost()

        self.store.delete_runs(self.store.now() - _KEPT)
        self._save(RunStatus.RUNNING)
        with beating(self.store, self.run, stop):
            try:
                yield
            except (KeyboardInterrupt, SystemExit):
                with suppress(LakeError):  # there may be no room for it: why the run ended matters more
                    self._save(RunStatus.CANCELLED)
                raise
            except BaseException as error:
                with suppress(LakeError):
                    self._save(RunStatus.FAILED, error=said(error))
                if self._lost.is_set():
                    raise self._taken() from error
                raise

    def ask(self) -> None:
        """As `check`, without waiting for the next heartbeat."""
        with suppress(LakeError):
            if not self.store.beat_run(self.run.id, self.run.branch):
                self._lost.set()
        self.check()

    def recover(self, built: Mapping[TableName, Metadata]) -> None:
        """What an attempt before has built and could not say any more: it was ended, or killed."""
        past = [{**each, "models": dict(each["models"])} for each in self.run.about.get("attempts", ())]
        for name, metadata in built.items():
            if self.run.models.get(str(name), {}).get("state") != "built" and past:
                begun = [each for each in past if datetime.fromisoformat(each["started_at"]) <= metadata.updated_at]
                (begun or past)[-1]["models"][str(name)] = {"state": "built", **table_document(metadata)}
        self.run = replace(self.run, about={**self.run.about, "attempts": past})
        self._save(RunStatus.RUNNING)

    def check(self) -> None:
        """Raise if the run is somebody else's by now."""
        if self._lost.is_set():
            raise self._taken()

    def _taken(self) -> RunLost:
        found = self.store.run(self.run.id)
        if found is None or found.status is RunStatus.CANCELLED:
            what = found.about.get("error", "ended") if found else "ended"
        else:
            what = f"taken over by {found.author} ({found.process})"
        return RunLost(
            f"Run {self.run.id} was {what} meanwhile, so this attempt at it stopped. It published nothing.",
            remedy=f"See what became of it: mere runs show {self.run.id}",
        )

    def add(self, name: TableName, outcome: Outcome) -> None:
        self.outcomes[name] = outcome
        with suppress(LakeError):  # busy or away: it is written with the next one
            self._save(RunStatus.RUNNING)

    def succeeded(self, commit: Commit | None) -> None:
        self._save(RunStatus.SUCCEEDED, commit=commit.id if commit else None)

    def _save(self, status: RunStatus, **about: Any) -> None:
        now = self.store.now()
        models = {str(name): described(outcome) for name, outcome in self.outcomes.items()}
        self.run = replace(
            self.run,
            status=status,
            beat_at=now,
            ended_at=None if status is RunStatus.RUNNING else now,
            about={**self.run.about, "models": models, **about},
        )
        if not self.store.save_run(self.run):
            self._lost.set()


def said(error: BaseException) -> str:
    """Never empty: not every error has a text."""
    if isinstance(error, MereError) and str(error):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def described(outcome: Outcome) -> dict[str, Any]:
    """For the run's record and for whoever watches."""
    match outcome:
        case Unbuilt(because_of=name):
            return {"state": "unbuilt", "because_of": str(name)}
        case Failure(error=error):
            findings = _counted(error.built) if isinstance(error, AuditFailed) else {}
            return {"state": "failed", "error": said(error), **findings}
    stats = outcome.stats
    return {
        "state": "built" if outcome.step.builds else "unchanged",
        "kind": outcome.step.model.kind,
        **about(outcome.step),
        "notes": list(outcome.notes),
        "seconds": round(outcome.seconds, 3),
        "rows_added": stats.rows_added if stats else 0,
        "rows_removed": stats.rows_removed if stats else 0,
        "files_added": stats.files_added if stats else 0,
        "files_removed": stats.files_removed if stats else 0,
        "bytes_added": outcome.size,
        **_table(outcome),
        **_counted(outcome),
    }


def _table(outcome: Built) -> dict[str, Any]:
    """What tools want to know of the table besides what was done to it."""
    model, metadata, began = outcome.step.model, outcome.metadata, outcome.started_at
    declared = {key: value for key, value in model_document(model).items() if key in _DECLARED}
    ended = began + timedelta(seconds=outcome.seconds) if began else None
    return {
        **declared,
        "columns": columns_document(metadata, model),
        **(table_document(metadata) if metadata else {"snapshot_id": None, "rows_total": None}),
        "windows": outcome.step.spans.to_json(),
        "range": range_document(outcome.windows),
        "started_at": _moment(began) if began else None,
        "ended_at": _moment(ended) if ended else None,
    }


def about(step: Step) -> dict[str, Any]:
    return {"action": step.action, "reasons": list(step.reasons), "rows": step.load.rows, "bytes": step.load.bytes}


def _counted(built: Built) -> dict[str, Any]:
    return {**built.accounting.to_json(), **findings_of(built)}


def findings_of(built: Built) -> dict[str, Any]:
    found: dict[str, Any] = {"audits": [finding.to_dict() for finding in built.findings]}
    if built.quarantine is not None:
        found["quarantine"] = {"table": str(built.step.model.name.quarantine), **built.quarantine.to_json()}
    return found
