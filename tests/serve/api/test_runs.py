"""Runs over HTTP, each a process of its own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mere.api.project import Project
from mere.serve.api.started import arguments
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
def test_a_run_is_started_ended_resumed_and_published(api: Api, project: Project) -> None:
    began = api.ask("POST", "runs", json={"message": "not yet"}, auth=("ann", "")).json()
    assert (began["state"], began["on"]) == ("running", "main")
    cancelled = api.post(f"runs/{began['id']}/cancel")
    assert (cancelled["id"], cancelled["status"]) == (began["id"], "cancelled")
    assert cancelled["author"] == "ann"
    assert "raw.cities" not in project.lake.at("main")
    again = api.post(f"runs/{began['id']}/resume", 202, message="over HTTP")
    assert again["id"] == began["id"]
    assert ended(api, began["id"])["status"] == "succeeded"
    assert "gold.cities" in project.lake.at("main")
    assert next(iter(project.lake.log())).message == "over HTTP"
    assert api.post("runs", 202) == {"id": None, "state": "nothing"}
    assert [each["id"] for each in api.get("runs")] == [began["id"]]
