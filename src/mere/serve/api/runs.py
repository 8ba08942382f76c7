"""Runs: what became of them, and starting, ending and resuming one. Records show rows that audits have found, and a
project's code reads everything: all of this is for those who read everything."""

from __future__ import annotations

from typing import Any

from mere.names import MAIN
from mere.serve.api import rights
from mere.serve.api.started import Pending
from mere.serve.api.verb import Call

_READ = "read the records of runs, which show rows of all tables"


def list_(call: Call) -> list[dict[str, Any]]:
    """The runs of the last 90 days, newest first."""
    call.access.check_unrestricted(_READ)
    return [each.to_dict() for each in call.lake.runs(call.query["limit"]) if _may_see(call, each.target)]


def show(call: Call) -> dict[str, Any]:
    """One run: what happened to each model, attempt by attempt."""
    call.access.check_unrestricted(_READ)
    if (pending := _pending(call)) is not None:
        call.check_ref(pending.on)
        return pending.to_dict()
    found = call.lake.run(call.path["id"])
    call.check_ref(found.target)
    return found.to_dict()


def start(call: Call) -> dict[str, Any]:
    """Start a run in a process of its own. The answer comes once it has begun, or waits for another run, or is still
    starting after half a minute."""
    on = call.body["on"] or MAIN
    call.check_ref(on)
    call.lake.resolve(on)
    project = call.project
    rights.check_all(call.access, on, lambda: project.graph.select(call.body["select"]))
    project.graph.select(call.body["select"])  # what is wrong is told without a process
    return _told(call, call.starter.start(project, call.body, call.author))


def cancel(call: Call) -> dict[str, Any]:
    """End a run, whoever has it: it can no longer publish. What it built stays, and it can be resumed."""
    call.access.check_unrestricted(_READ)
    if (pending := _pending(call)) is not None:
        _check_write(call, pending.on)
        pending.cancel()
        if _pending(call) is not None:
            return pending.to_dict()
    _check(call)
    return call.lake.end_run(call.path["id"], author=call.author).to_dict()


def resume(call: Call) -> dict[str, Any]:
    """Resume a run that did not finish, in a process of its own."""
    _check(call)
    asked = {**call.body, "resume": call.path["id"]}
    return _told(call, call.starter.start(call.project, asked, call.author))


def _check(call: Call) -> None:
    call.access.check_unrestricted(_READ)
    found = call.lake.run(call.path["id"])
    call.said["run"] = found.id
    _check_write(call, found.target)


def _check_write(call: Call, target: str) -> None:
    call.check_ref(target)
    rights.check_all(call.access, target, lambda: call.project.graph.models)


def _pending(call: Call) -> Pending | None:
    """A run that the lake knows nothing of yet."""
    found = call.starter.pending(call.path["id"])
    return None if found is None or call.lake.store.run(found.id) is not None else found


def _told(call: Call, began: dict[str, Any]) -> dict[str, Any]:
    call.said["run"] = began["id"]
    return began


def _may_see(call: Call, target: str) -> bool:
    return call.access.role.may_connect(target)
