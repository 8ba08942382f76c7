"""The verbs of a lake over HTTP: they do what the command line does, and answer what it prints as JSON."""

from __future__ import annotations

import json
from typing import Any

from mere.api.project import Project
from mere.lake.lake import Lake
from tests.api.test_project import printed
from tests.lake.orders import ONE_MORE, write
from tests.serve.api.api import Api, serving


def same(found: Any, shown: Any) -> bool:
    """Without what a clock says."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items() if key not in ("now", "generated_at", "seconds")}
        return [plain(each) for each in value] if isinstance(value, list) else value

    return bool(plain(json.loads(json.dumps(found))) == plain(shown))


def test_answers_are_what_the_command_line_prints(api: Api, project: Project) -> None:
    write(project.lake, "gold.orders", ONE_MORE, "dev")
    rows = ["diff", "main", "dev", "--rows", "--key", "id", "--table", "gold.orders"]
    for path, command in {
        "refs": ["branch", "list"],
        "refs/dev/log?limit=1": ["log", "dev", "-n", "1"],
        "refs/dev/log?table=gold.orders": ["log", "dev", "--table", "gold.orders"],
        "refs/main/tables": ["tables"],
        "refs/dev/tables/gold.orders": ["show", "gold.orders", "--at", "dev"],
        "diff?to=dev": ["diff", "dev"],
        "diff?from=dev": ["diff", "dev"],
        "diff?from=main&to=dev&rows=true&key=id&table=gold.orders": rows,
        "runs": ["runs"],
        "audits": ["audit"],
        "quarantine?at=dev": ["quarantine", "--at", "dev"],
        "manifest": ["manifest"],
    }.items():
        assert same(api.get(path), printed(project.folder, *command)), path
    assert api.get("health")["ok"] is True
    assert api.get("health")["project"] == "shop"


def test_branches_and_tags_come_and_go(api: Api, lake: Lake) -> None:
    made = api.post("branches", 201, name="idea", at="dev")
    assert (made["kind"], made["commit"]) == ("branch", lake.at("dev").commit.id)
    assert api.post("tags", 201, name="v1")["kind"] == "tag"
    assert {each["name"] for each in api.get("refs")} == {"main", "dev", "idea", "v1"}
    assert [each["name"] for each in api.get("refs?kind=tag")] == ["v1"]
    assert api.get("refs/v1")["name"] == "v1"
    assert api.refused("POST", "branches", json={"name": "idea"})[0] == 409
    assert api.refused("POST", "branches", json={"name": "x", "at": "nowhere"})[0] == 404
    assert api.refused("DELETE", "branches/v1")[0] in (400, 403, 404)  # it is a tag
    for path in ("branches/idea", "tags/v1"):
        assert api.ask("DELETE", path).status_code == 200
    assert api.refused("DELETE", "branches/main")[0] in (400, 403)
    assert {each["name"] for each in api.get("refs")} == {"main", "dev"}


def test_what_was_seen_is_published_and_nothing_else(api: Api, lake: Lake) -> None:
    write(lake, "gold.orders", ONE_MORE, "dev")
    seen = api.post("publish", branch="dev", dry_run=True)
    assert (seen["commit"], [each["name"] for each in seen["changes"]]) == (None, ["orders"])
    write(lake, "gold.orders", ONE_MORE, "dev")
    status, message = api.refused("POST", "publish", json={"branch": "dev", "expect": seen["head"]})
    assert (status, "dev is at commit" in message) == (409, True)
    assert lake.at("main").metadata("gold.orders").rows == 3
    again = api.post("publish", branch="dev", dry_run=True)
    done = api.post("publish", branch="dev", expect=again["head"], message="two more")
    newest = next(iter(lake.log()))
    assert (done["commit"], newest.message, newest.author) == (newest.id, "two more", newest.author)
    assert lake.at("main").metadata("gold.orders").rows == 5
    assert api.post("publish", branch="dev")["commit"] is None  # nothing is left


def test_a_conflict_is_told_and_nothing_is_published(api: Api, lake: Lake) -> None:
    for ref in ("dev", "main"):
        write(lake, "gold.orders", ONE_MORE, ref)
    seen = api.post("publish", branch="dev", dry_run=True)
    assert [each["key"] for each in seen["conflicts"]] == ["gold.orders"]
    status, message = api.refused("POST", "publish", json={"branch": "dev"})
    assert status == 409
    assert "gold.orders" in message


def test_a_commit_is_reverted(api: Api, lake: Lake) -> None:
    write(lake, "gold.orders", ONE_MORE)
    undone = api.post("revert", commit=lake.at().commit.id, message="by mistake")
    assert undone["kind"] == "revert"
    assert lake.at().metadata("gold.orders").rows == 3
    assert api.post("revert", to="main~1")["kind"] == "revert"
    assert lake.at().metadata("gold.orders").rows == 4
    assert api.post("revert", to="main~0") is None
    assert api.refused("POST", "revert", json={})[0] == 400
    assert api.refused("POST", "revert", json={"commit": "main", "to": "main"})[0] == 400


def test_requests_are_in_the_audit_log(api: Api) -> None:
    api.post("branches", 201, name="idea")
    api.get("health")  # a line is written once its answer was sent
    (line,) = [each for each in api.rest.told() if each.get("path") == "/api/v1/branches"]
    assert (line["status"], line["ref"]) == (201, "idea")


def test_a_lake_without_a_project_says_so(project: Project) -> None:
    with serving(project.lake) as api:
        assert api.get("refs")
        assert "no project" in api.refused("GET", "manifest")[1]
        assert "no project" in api.refused("POST", "runs", json={})[1]


def test_a_ref_is_never_compared_with_itself_or_backwards(api: Api) -> None:
    assert "forked from" in api.refused("GET", "diff?from=main")[1]
    assert "Name a ref" in api.refused("GET", "diff")[1]
    assert api.get("diff?from=dev")["to"]["ref"] == "dev"
