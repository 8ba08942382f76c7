"""Hostile, wrong and huge requests: a clear 4xx each, and the server stays up."""

from __future__ import annotations

import socket

import pytest

from mere.api.project import Project
from mere.errors import MereError, ProjectError
from mere.serve.http.errors import of_any
from tests.serve.api.api import Api

LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "branches", b"", "name is missing"),
        ("POST", "branches", b"{", "not JSON"),
        ("POST", "branches", b"[]", "JSON object"),
        ("POST", "branches", b'{"nme": "x"}', "There is no member nme. Did you mean name?"),
        ("POST", "branches", b'{"name": 1}', "name must be a string, not 1"),
        ("POST", "branches", b'{"name": "x", "from": "main"}', "There is no member from."),
        ("POST", "branches", b'{"name": "../x"}', "not"),
        ("POST", "branches", b'{"name": "\\u0000"}', "not"),
        ("POST", "branches", f'{{"name": "{LONG}"}}'.encode(), ""),
        ("POST", "branches", b'{"name": "' + b"\xff\xfe" + b'"}', "not JSON"),
        ("POST", "branches", b"[" * 100_000, "not JSON"),
        ("POST", "publish", b'{"branch": "dev", "dry_run": "yes"}', "dry_run must be a boolean"),
        ("POST", "publish", b'{"branch": "nowhere"}', "nowhere"),
        ("POST", "publish", b'{"branch": "dev", "into": "main~1"}', "main~1"),
        ("POST", "runs", b'{"threads": 1000000}', "threads must be from 1 to 64"),
        ("POST", "runs", b'{"if_running": "hope"}', "if_running is none of: wait, fail, skip"),
        ("POST", "runs", b'{"select": [1]}', "select[0] must be a string"),
        ("POST", "runs", b'{"vars": {"a": 1}}', "vars.a must be a string"),
        ("POST", "runs/nothing/cancel", b"", "There is no run"),
        ("POST", "runs/nothing/resume", b"{}", "There is no run"),
        ("POST", "runs/x/cancel", b'{"a": 1}', "takes no body"),
        ("GET", "refs/nowhere/log", b"", "nowhere"),
        ("GET", "refs/main/log?limit=0", b"", "limit must be from 1 to 1000"),
        ("GET", "refs/main/log?limit=99999999999999999999", b"", "limit must be an integer"),
        ("GET", "refs/main/log?limt=1", b"", "Did you mean limit?"),
        ("GET", "refs/main/tables/gold.nothing", b"", "There is no table gold.nothing"),
        ("GET", "refs/main/tables/..%2F..%2Fetc", b"", "not a table name"),
        ("GET", "diff?to=dev&rows=perhaps", b"", "rows must be a boolean"),
        ("GET", "diff?to=dev&key=id", b"", "rows=true"),
        ("GET", "diff?to=main'%20or%201=1", b"", "is not a ref"),
        ("GET", "manifest?at=%00", b"", "is not a ref"),
        ("DELETE", "branches/..%2Fmain", b"", ""),
        ("PUT", "branches", b"{}", "There is no"),
        ("GET", "nothing", b"", "There is no"),
    ],
)
def test_a_wrong_request_is_refused_in_words(api: Api, method: str, path: str, body: bytes, said: str) -> None:
    status, message = api.refused(method, path, data=body)
    assert 400 <= status < 500
    assert said in message
    assert len(message) < 2000
    assert "Traceback" not in message


def test_what_is_given_to_a_run_is_never_another_flag(api: Api, project: Project) -> None:
    """The process would end in wrong usage, or do what was not asked for."""
    for body in (
        {"select": ["--help"]},
        {"select": ["--accept=gold.cities"]},
        {"select": ["gold.nothing; rm -rf /"]},
        {"message": "--help", "select": ["nothing.at_all"]},
    ):
        assert api.refused("POST", "runs", json=body)[0] == 400
    assert api.get("runs") == []
    assert "raw.cities" not in project.lake.at("main")


def test_huge_and_broken_bodies_leave_the_server_up(api: Api) -> None:
    status, message = api.refused("POST", "branches", data=b" " * (33 << 20))
    assert (status, "larger than" in message) == (413, True)
    with socket.create_connection(("127.0.0.1", api.rest.port), timeout=20) as line:
        line.sendall(b"POST /api/v1/branches HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    with socket.create_connection(("127.0.0.1", api.rest.port), timeout=20) as line:
        line.sendall(b"\x00\x01\x02 nonsense\r\n\r\n")
        assert b"400" in line.recv(1000)
    assert api.get("health")["ok"]


def test_a_run_that_is_not_there_is_not_found(api: Api) -> None:
    for method, path in (("GET", "runs/nosuch"), ("POST", "runs/nosuch/cancel"), ("POST", "runs/nosuch/resume")):
        status, message = api.refused(method, path)
        assert (status, "There is no run 'nosuch'" in message) == (404, True), path


def test_a_mistake_in_a_model_is_told_with_its_place(api: Api, project: Project) -> None:
    (project.folder / "models/gold/cities.sql").write_text("SELECT id, city FROM raw.cities\nWHERE (\n")
    for method, path in (("GET", "manifest"), ("GET", "audits"), ("POST", "runs")):
        answer = api.ask(method, path)
        told = answer.json()["error"]
        assert (answer.status_code, told["type"]) == (422, "UnprocessableEntityException"), told
        (problem,) = told["problems"]
        assert (problem["file"], problem["line"]) == ("models/gold/cities.sql", 2), problem
        assert "models/gold/cities.sql:2" in told["message"]
    assert api.get("runs") == []


def test_a_remedy_names_members_and_requests_not_flags_and_commands(api: Api) -> None:
    for method, path, body, said in (
        ("POST", "runs", {"sample": "200%", "on": "dev"}, "`sample` 200%"),
        ("POST", "publish", {"branch": "dev", "into": "dev"}, "Name another branch with `into`."),
        ("GET", "runs/nosuch", None, "See them with: GET /runs"),
        ("GET", "diff?to=main", None, "GET /diff?from=main&to=main"),
    ):
        message = api.refused(method, path, json=body)[1] if body else api.refused(method, path)[1]
        assert said in message, message
        assert "--" not in message


def test_what_is_wrong_in_a_project_is_no_fault_of_the_server() -> None:
    def below(kind: type[MereError]) -> list[type[MereError]]:
        return [kind, *(each for one in kind.__subclasses__() for each in below(one))]

    for kind in below(MereError):
        if kind.__module__ != MereError.__module__:  # one of these in other words, and made of other things
            continue
        error = kind([]) if issubclass(kind, ProjectError) else kind("it is wrong")
        assert of_any(error).status in (400, 403, 404, 409, 422, 503), kind
