"""Waits for the tables that a run writes, and notices a request to stop meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from mere.errors import LeaseHeld
from mere.lake.lake import Lake
from mere.lake.log import runs
from mere.lake.log.runs import Run
from mere.lake.refs.leases import Held
from mere.pipeline.plan.steps import Plan
from mere.pipeline.run.request import Event, IfRunning, Listener, Request

_GLANCE = timedelta(seconds=2)  # how often a run that waits asks whether it should


class Stopped(KeyboardInterrupt):
    """Another thread asked the run to stop: what Ctrl-C is to a run in the main thread."""

    run: Run | None = None  # its record, if it had begun


def look(stop: threading.Event) -> None:
    if stop.is_set():
        raise Stopped


@contextmanager
def leased(
    lake: Lake, due: Plan, request: Request, id_: str, listen: Listener, stop: threading.Event
) -> Iterator[Held | None]:
    """Hold the tables that will be written, if any will."""
    tables = [name for step in due.tried for name in step.model.writes] if due.building else []
    if not tables:
        yield None
        return
    holder = runs.holder(id_)
    with ExitStack() as stack:
        wait, held = timedelta(0), None
        while held is None:
            look(stop)
            try:
                held = stack.enter_context(lake.lease(tables, holder, request.on, wait=wait))
            except LeaseHeld as busy:
                if request.if_running is not IfRunning.WAIT:
                    raise
                if not wait:
                    listen(Event("waiting", about={"for": busy.message, "id": id_}))
                wait = _GLANCE
        yield held
