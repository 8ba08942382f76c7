"""Resumes a run that did not finish: its request, and which part of it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from mere.errors import RefNotFound, UsageError
from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.lake.log.commits import Space
from mere.lake.log.runs import Run, RunStatus
from mere.lake.refs import attempts
from mere.lake.refs.rebase import Rebased
from mere.lake.store.port import Moved
from mere.names import MAIN, TableName
from mere.pipeline.plan.facts import LakeFacts
from mere.pipeline.plan.steps import Wish
from mere.pipeline.run.record import resumed
from mere.pipeline.run.request import Project, Request, resolved
from mere.pipeline.state.signed import Signed
from mere.pipeline.state.state import State


def had_ended(lake: Lake, id_: str) -> Run | None:
    """The run, if it has done what it was to do: it was published, or had nothing to publish."""
    past = lake.run(id_)
    if past.status is RunStatus.RUNNING or attempts.branch_of(lake.store, past) is not None:
        return None
    if past.status is not RunStatus.SUCCEEDED:  # it may have died before it could say so
        past = attempts.end(lake.store, id_, by="").run
        if past.status is not RunStatus.SUCCEEDED and (commit := attempts.published(lake.store, past)):
            return replace(past, about={**past.about, "commit": commit})
    return past if past.status is RunStatus.SUCCEEDED else None


def left(lake: Lake, id_: str) -> Run:
    """A run that can be resumed."""
    past = lake.run(id_)
    if past.status is RunStatus.RUNNING:
        where = f" ({past.process})" if past.process else ""
        raise UsageError(
            f"Run {id_} is still running{where}.",
            remedy=f"Wait for it, or end it: mere runs end {id_}",
        )
    if attempts.branch_of(lake.store, past) is None:
        raise RefNotFound(
            f"Run {id_} cannot be resumed: its branch {past.branch} was deleted, by mere runs clean, mere branch"
            " delete or mere gc. It published nothing.",
            remedy=f"Start a new one: mere run{'' if past.target == MAIN else f' --on {past.target}'}",
        )
    return past


def take_over(lake: Lake, past: Run, anew: Run) -> Run:
    """The run, on a branch of its own, from which whoever had it is cut off."""
    try:
        return attempts.take_over(lake.store, past, resumed(past, anew))
    except Moved:
        left(lake, past.id)  # which tells why not
        raise UsageError(f"Run {past.id} was resumed by somebody else a moment ago.", remedy="Try again.") from None


def as_then(project: Project, request: Request, past: Run, now: datetime) -> Request:
    """With the models that the run was for, unless others are asked for; with its message, unless there is another."""
    message, check = request.message or past.about.get("message"), request.check and past.about.get("check", True)
    request = replace(request, message=message, check=check)
    if request.selection:
        return resolved(project, request, now)
    chosen = past.about.get("chosen")
    names = None if chosen is None else frozenset(map(TableName.parse, chosen))
    return replace(request, selection=tuple(past.about.get("selection", ())), chosen=names)


def built_before(known: LakeFacts, id_: str) -> dict[TableName, Metadata]:
    """What stands on the branch of a run as it has built it: the models, without the companions of their tables."""
    built = known.built_by_mere().items()
    done = [name for name, state in built if state.run == id_ and not state.towards and not name.owner]
    return {name: known.tables.metadata(name) for name in done}


def still_wished(wish: Wish, built: Mapping[TableName, State], id_: str) -> Wish:
    """Without what the run has already built on its branch, unless it is due again."""
    begun = {name: state for name, state in built.items() if state.run == id_}
    done = {name for name, state in begun.items() if not state.towards}
    retry = {name: spans for name, spans in wish.retry.items() if name not in done}
    return replace(wish, refresh=wish.refresh - begun.keys(), retry=retry, settled=frozenset(done))


def still_signed(rebased: Rebased) -> Signed:
    """Where the tables stand that a branch has changed, seen from its parent's head."""
    return {change.key: change.new for change in rebased.kept if change.key.space is Space.RELATION}
