"""Who sees and changes what through the API: what a role is not given is refused, in each verb."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from mere.api.project import Project
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from tests.lake.orders import ONE_MORE, point, write
from tests.serve.api.api import Api, serving
from tests.serve.iceberg.rest import roles

SECRET = pa.table({"id": [1], "name": ["xyzzy"]})
ROLES = """
roles:
  analyst:
    refs: [main, dev]
    tables: [gold.*]
    rows: {gold.orders: customer = 'ann'}
    columns: {gold.customers: [name]}
    history: true
  writer: {tables: [gold.*], write: {refs: [dev, idea], schemas: [gold]}}
  keeper: {tables: "*", write: {refs: [main, "*"], schemas: "*"}}
  reader: {tables: "*"}
  present: {tables: "*", history: false}
  publisher:
    tables: [gold.*]
    history: true
    write: {refs: ["bob_*"], schemas: [gold], publish: [main]}
users: {bob: publisher, ann: analyst, wil: writer, kim: keeper, rea: reader, pat: present}
"""


@pytest.fixture
def api(project: Project) -> Iterator[Api]:
    lake = project.lake
    write(lake, "secret.people", SECRET, "dev")
    write(lake, "gold.plain", ONE_MORE, "dev")
    write(lake, "gold.orders", ONE_MORE, "dev")
    with serving(project, roles=roles(ROLES)) as running:
        yield running


def by(user: str) -> dict[str, Any]:
    return {"auth": (user, "")}


def test_nobody_without_a_role_is_let_in(api: Api) -> None:
    assert api.refused("GET", "refs", **by("eve"))[0] == 403


def test_a_branch_that_may_not_be_read_is_not_named_by_the_log(api: Api, project: Project) -> None:
    project.lake.branch("hush", "dev")
    write(project.lake, "gold.plain", ONE_MORE, "hush")
    project.lake.publish("hush", into="dev")
    project.lake.revert(next(iter(project.lake.log("dev"))), "dev")
    assert "hush" in api.ask("GET", "refs/dev/log", **by("rea")).text
    told = api.ask("GET", "refs/dev/log", **by("ann")).text
    assert "hush" not in told
    assert '"publish"' in told


def test_a_part_of_a_table_is_never_told(api: Api) -> None:
    """Not by metadata, differences, samples, counts or pointers; what is not the role's is not there at all."""
    told = {
        path: api.ask("GET", path, **by("ann"))
        for path in (
            "refs", "refs/dev/log", "refs/dev/tables", "refs/dev/tables/gold.orders", "refs/dev/tables/secret.people",
            "diff?to=dev", "diff?to=dev&rows=true", "diff?to=dev&rows=true&table=gold.orders",
            "diff?to=dev&rows=true&table=secret.people", "quarantine?at=dev", "audits?at=dev", "manifest?at=dev",
            "runs", "refs/dev/log?table=gold.orders", "refs/dev/log?table=secret.people",
        )
    }  # fmt: skip
    for path, answer in told.items():
        assert "xyzzy" not in answer.text, path
        assert "cy" not in json.dumps(answer.json().get("rows", [])) if isinstance(answer.json(), dict) else True, path
        if "secret" not in path:
            assert "secret" not in answer.text, path
    assert told["refs/dev/tables/gold.orders"].status_code == 403
    assert told["refs/dev/tables/secret.people"].status_code == 404
    assert told["refs/dev/log?table=gold.orders"].status_code == 403
    for path in ("audits?at=dev", "manifest?at=dev", "runs"):
        assert told[path].status_code == 403, path
    tables = {each["table"]: each for each in told["refs/dev/tables"].json()["tables"]}
    assert set(tables) == {"gold.orders", "gold.customers", "gold.plain"}
    assert (tables["gold.orders"]["rows"], tables["gold.customers"]["rows"], tables["gold.plain"]["rows"]) == (
        None, None, 1,
    )  # fmt: skip
    assert [each["table"] for each in told["diff?to=dev"].json()["tables"]] == ["gold.plain"]
    changed = {change["name"] for commit in told["refs/dev/log"].json() for change in commit["changes"]}
    assert changed == {"plain"}


def test_no_name_is_suggested_that_the_role_must_not_know(api: Api) -> None:
    status, message = api.refused("GET", "refs/dev/log?table=gold.secret_people", **by("ann"))
    assert (status, "secret.people" in message) == (404, False)
    assert "secret.people" in api.refused("GET", "refs/dev/log?table=gold.secret_people", **by("kim"))[1]


def test_a_view_is_not_told_to_who_does_not_read_everything(api: Api, lake: Lake) -> None:
    """Its SQL names other tables, and is read with the rights of the server."""
    point(lake, "gold", "shown", f"{lake.warehouse}/gold/shown/metadata/1.json", "VIEW", "dev")
    listed = {each["table"]: each["kind"] for each in api.get("refs/dev/tables", **by("ann"))["tables"]}
    assert "view" in listed["gold.shown"]
    status, message = api.refused("GET", "refs/dev/tables/gold.shown", **by("ann"))
    assert (status, "ann may not see how the view gold.shown is made" in message) == (403, True)
    assert "gold.shown" not in str(api.get("diff?to=dev", **by("ann")))
    assert "gold.shown" in str(api.get("diff?to=dev", **by("rea")))


@pytest.mark.parametrize("user", ["ann", "rea", "pat"])
def test_who_may_not_write_changes_nothing(api: Api, project: Project, user: str) -> None:
    lake = project.lake
    before = [(ref.name, ref.head) for ref in lake.refs()]
    for method, path, body in (
        ("POST", "branches", {"name": "mine"}),
        ("POST", "tags", {"name": "v1"}),
        ("DELETE", "branches/dev", {}),
        ("POST", "publish", {"branch": "dev"}),
        ("POST", "revert", {"commit": lake.at("dev").commit.id, "on": "dev"}),
        ("POST", "revert", {"to": "dev~1", "on": "dev"}),
        ("POST", "runs", {}),
        ("POST", "runs", {"on": "dev"}),
    ):
        assert api.refused(method, path, json=body, **by(user))[0] in (400, 403), (path, body)
    assert [(ref.name, ref.head) for ref in lake.refs()] == before
    assert lake.runs() == []


@pytest.mark.parametrize("user", ["ann", "wil", "rea", "pat"])
def test_a_run_is_ended_and_resumed_by_those_who_may_do_it(api: Api, lake: Lake, user: str) -> None:
    """Whoever does not read everything is not told either whether there is such a run."""
    now = lake.now()
    lake.store.save_run(Run("aa11", "main", "run_aa11", RunStatus.FAILED, "kim", now, now, now))
    for what in ("cancel", "resume"):
        refused = {api.refused("POST", f"runs/{id_}/{what}", **by(user))[0] for id_ in ("aa11", "nosuch")}
        assert refused == ({403, 404} if user == "rea" else {403}), what
    assert lake.run("aa11").status == RunStatus.FAILED
    assert [each.author for each in lake.runs()] == ["kim"]


def test_a_writer_makes_its_branches_and_leaves_main_and_other_schemas_alone(api: Api, lake: Lake) -> None:
    head = lake.at("main").commit
    assert api.ask("POST", "branches", json={"name": "idea", "at": "main"}, **by("wil")).status_code == 201
    assert api.refused("POST", "branches", json={"name": "other"}, **by("wil"))[0] == 403
    assert api.refused("POST", "publish", json={"branch": "dev"}, **by("wil"))[0] == 403  # to main
    assert api.refused("POST", "publish", json={"branch": "dev", "into": "idea"}, **by("wil"))[0] == 403  # a secret
    write(lake, "gold.plain", ONE_MORE, "idea")
    assert api.refused("POST", "publish", json={"branch": "idea"}, **by("wil"))[0] == 403
    made = api.ask("POST", "revert", json={"commit": lake.at("idea").commit.id, "on": "idea"}, **by("wil"))
    assert (made.status_code, made.json()["author"]) == (200, "wil")
    assert api.refused("POST", "runs", json={"on": "dev"}, **by("wil"))[0] == 403
    assert api.ask("DELETE", "branches/idea", **by("wil")).status_code == 200
    assert lake.at("main").commit == head


def test_a_dry_run_is_for_who_may_read_what_it_shows(api: Api, lake: Lake) -> None:
    asked = {"branch": "dev", "dry_run": True}
    seen = api.ask("POST", "publish", json=asked, **by("rea"))
    assert {each["name"] for each in seen.json()["changes"]} >= {"orders", "people", "plain"}
    for user in ("ann", "wil", "pat"):  # who reads a part of it, or not what was before
        status, message = api.refused("POST", "publish", json=asked, **by(user))
        assert (status, "may not publish into main" in message) == (403, True), user
    lake.branch("idea")
    write(lake, "gold.plain", ONE_MORE, "idea")
    assert api.ask("POST", "publish", json=asked | {"branch": "idea"}, **by("wil")).status_code == 200
    assert "gold.plain" not in lake.at("main")
    assert api.refused("POST", "publish", json=asked | {"into": "nowhere"}, **by("rea"))[0] == 404


def test_who_may_publish_into_main_writes_to_it_in_no_other_way(api: Api, lake: Lake) -> None:
    assert api.ask("POST", "branches", json={"name": "bob_1"}, **by("bob")).status_code == 201
    write(lake, "gold.plain", ONE_MORE, "bob_1")
    done = api.ask("POST", "publish", json={"branch": "bob_1"}, **by("bob"))
    assert (done.status_code, "gold.plain" in lake.at("main")) == (200, True), done.text
    assert api.refused("POST", "publish", json={"branch": "dev"}, **by("bob"))[0] == 403  # with a secret in it
    assert api.refused("POST", "revert", json={"commit": done.json()["commit"]}, **by("bob"))[0] == 403
    table = f"{api.rest.uri}/v1/main/namespaces/gold/tables/plain"
    asked: dict[str, Any] = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
    assert api.rest.session.post(table, json=asked, **by("bob"), timeout=60).status_code == 403
    write(lake, "secret.more", SECRET, "bob_1")
    assert api.refused("POST", "publish", json={"branch": "bob_1"}, **by("bob"))[0] == 403
    assert "secret.more" not in lake.at("main")


def test_a_refusal_names_what_was_asked_and_what_of_the_role_says_no(api: Api) -> None:
    status, message = api.refused("POST", "publish", json={"branch": "dev"}, **by("wil"))
    assert (status, message) == (
        403,
        "wil may not publish into main. In `write` of the role writer, neither `refs` nor `publish` names main.",
    )
    for user in ("wil", "kim"):
        assert api.refused("DELETE", "branches/main", **by(user)) == (403, "main cannot be deleted, whoever asks.")


def test_who_may_write_main_publishes_under_its_own_name(api: Api, lake: Lake) -> None:
    done = api.ask("POST", "publish", json={"branch": "dev"}, **by("kim"))
    assert done.status_code == 200
    newest = next(iter(lake.log()))
    assert (newest.id, newest.author) == (done.json()["commit"], "kim")


def test_the_present_is_all_that_is_read_without_history(api: Api) -> None:
    assert api.get("refs/dev/tables", **by("pat"))
    for path in ("refs/dev/log", "refs/dev~1/tables", "diff?from=main~1&to=main"):
        assert api.refused("GET", path, **by("pat"))[0] == 403, path


def test_rows_are_compared_of_files_of_the_lake_alone(api: Api, project: Project, tmp_path: Path) -> None:
    """A table may list any file; the server reads it with its own rights."""
    lake, mine = project.lake, tmp_path / "mine.parquet"
    parquet.write_table(pa.table({"id": [9], "customer": ["xyzzy"], "amount": [1.0]}), mine)
    api.ask("GET", "diff?from=main&to=dev&rows=true&table=gold.orders", **by("rea")).raise_for_status()
    lake.pyiceberg("dev").load_table("gold.orders").add_files([str(mine)])
    (told,) = lake.diff("main", "dev").rows(tables=["gold.orders"])
    assert "xyzzy" in str(told.added_rows), "whoever runs mere diff may read it"
    status, message = api.refused("GET", "diff?from=main&to=dev&rows=true&table=gold.orders", **by("rea"))
    assert status == 422
    assert message.startswith(f"The rows of gold.orders cannot be compared: {mine} is neither in the lake nor")
    assert message.endswith("with `mere diff`.")
    assert "name them with `table`" in message
    assert "xyzzy" not in message
