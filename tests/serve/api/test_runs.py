"""Runs over HTTP, each a process of its own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mere.api.project import Project
from mere.names import TableName
from mere.serve.api.started import Starter, arguments
from tests.serve.api.api import Api


def ended(api: Api, id_: str) -> dict[str, Any]:
    for _ in range(600):
        found: dict[str, Any] = api.get(f"runs/{id_}")
        if found["status"] != "running":
            return found
        time.sleep(0.5)
    raise AssertionError(f"run {id_} has not ended")


def test_a_request_is_a_command_line_in_which_nothing_is_another_flag() -> None:
    asked = {
        "select": ["--help", "gold.*"], "on": "--json", "full_refresh": True, "forward_only": False, "start": None,
        "accept": ["-x"], "check": False, "vars": {"a": "b=c"}, "threads": 2, "message": "--resume",
    }  # fmt: skip
    assert arguments(asked) == [
        "--on=--json", "--accept=-x", "--threads=2", "--message=--resume", "--full-refresh", "--no-check",
        "--var=a=b=c", "--", "--help", "gold.*",
    ]  # fmt: skip


def test_what_keeps_a_run_from_beginning_is_told(api: Api) -> None:
    assert "nothing.at_all" in api.refused("POST", "runs", json={"select": ["nothing.at_all"]})[1]
    assert "full" in api.refused("POST", "runs", json={"full_refresh": True, "forward_only": True})[1]
    assert api.refused("POST", "runs", json={"on": "nowhere"})[0] == 404  # without a process


@pytest.mark.service
def test_a_run_that_would_have_to_wait_is_a_conflict_if_asked_so(api: Api, project: Project) -> None:
    with project.lake.lease([TableName.parse("raw.cities")], "somebody else"):
        status, message = api.refused("POST", "runs", json={"if_running": "fail"})
    assert status == 409
    assert message.startswith("somebody else is writing raw.cities for main. Wait for it to finish.")


@pytest.mark.service
def test_a_run_that_takes_long_to_begin_is_followed_from_the_first(api: Api, project: Project) -> None:
    """Up to its beginning, the server alone knows of it; however it ends, that can be asked."""
    starter = Starter(patience=0)
    began = starter.start(project, {"threads": 1}, "ann")
    assert began["status"] == "starting"
    pending = starter.pending(began["id"])
    assert pending is not None
    assert (pending.to_dict()["status"], pending.to_dict()["author"]) == ("starting", "ann")
    while project.lake.store.run(began["id"]) is None:
        assert pending.process.poll() is None, pending.to_dict()
        time.sleep(0.05)
    assert ended(api, began["id"])["status"] == "succeeded"
    nothing = starter.start(project, {}, "ann")
    wrong = starter.start(project, {"select": ["nothing.at_all"]}, "ann")
    for told, status, why in ((nothing, "nothing", None), (wrong, "failed", "nothing.at_all")):
        late = starter.pending(told["id"])
        assert late is not None
        late.process.wait(60)
        found = late.to_dict()
        assert (found["id"], found["status"]) == (told["id"], status)
        assert (found["error"] is None) if why is None else why in found["error"]
    ending = starter.start(project, {"full_refresh": True}, "ann")
    late = starter.pending(ending["id"])
    assert late is not None
    late.cancel()
    assert late.to_dict()["status"] == "cancelled"


@pytest.mark.service
def test_a_run_that_waits_is_followed_and_cancelled(api: Api, project: Project) -> None:
    tables = [TableName.parse("raw.cities")]
    with project.lake.lease(tables, "somebody else"):
        first, second = (api.post("runs", 202, if_running="wait") for _ in range(2))
        assert (first["status"], second["status"]) == ("waiting", "waiting")
        assert first["id"] != second["id"]
        assert api.get(f"runs/{first['id']}")["status"] == "waiting"
        assert api.post(f"runs/{first['id']}/cancel")["status"] == "cancelled"
        assert api.get(f"runs/{first['id']}")["status"] == "cancelled"
        assert api.refused("POST", f"runs/{first['id']}/resume")[0] == 404  # it had not begun
        assert api.get(f"runs/{second['id']}")["status"] == "waiting"
    for _ in range(200):
        if api.get(f"runs/{second['id']}")["status"] != "waiting":
            break
        time.sleep(0.1)
    assert api.get(f"runs/{second['id']}")["branch"]
    api.post(f"runs/{second['id']}/cancel")
    assert [each["id"] for each in api.get("runs")] == [second["id"]]


@pytest.mark.service
def test_a_run_is_started_ended_resumed_and_published(api: Api, project: Project) -> None:
    began = api.ask("POST", "runs", json={"message": "not yet"}, auth=("ann", "")).json()
    assert (began["status"], began["on"]) == ("running", "main")
    cancelled = api.post(f"runs/{began['id']}/cancel")
    assert (cancelled["id"], cancelled["status"]) == (began["id"], "cancelled")
    assert cancelled["author"] == "ann"
    assert "raw.cities" not in project.lake.at("main")
    again = api.post(f"runs/{began['id']}/resume", 202, message="over HTTP")
    assert again["id"] == began["id"]
    assert ended(api, began["id"])["status"] == "succeeded"
    assert "gold.cities" in project.lake.at("main")
    assert next(iter(project.lake.log())).message == "over HTTP"
    assert api.post("runs", 202) == {"id": None, "status": "nothing"}
    assert [each["id"] for each in api.get("runs")] == [began["id"]]
