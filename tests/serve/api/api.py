"""The API of a project behind its HTTP port, in this process; every answer is held against the description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import requests

from mere.api.project import Project
from mere.lake.lake import Lake
from mere.serve.access.roles import Declared
from mere.serve.access.users import Users
from mere.serve.api import routes
from mere.serve.api.openapi import document
from mere.serve.api.schema import wrong
from tests.serve.iceberg import rest

DOCUMENT = document()
_SCHEMAS = DOCUMENT["components"]["schemas"]


@dataclass
class Api:
    """`api.get("refs")` asks for that below /api/v1."""

    rest: rest.Rest

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.rest.port}/api/v1"

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        answer = self.rest.session.request(method, f"{self.uri}/{path}", timeout=120, **more)
        described(method, path.partition("?")[0], answer)
        return answer

    def get(self, path: str, **more: Any) -> Any:
        answer = self.ask("GET", path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = self.ask("POST", path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refused(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        status, _, message = rest.error(self.ask(method, path, **more))
        return status, message


def described(method: str, path: str, answer: requests.Response) -> None:
    """The answer has the form that the description promises."""
    if answer.status_code >= 400:
        assert list(wrong(answer.json(), {"$ref": "#/components/schemas/Error"}, _SCHEMAS)) == []
        return
    for template, operations in DOCUMENT["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", template)
        if re.fullmatch(pattern, f"/{path}") and method.lower() in operations:
            promised = operations[method.lower()]["responses"][str(answer.status_code)]
            schema = promised["content"]["application/json"]["schema"]
            assert list(wrong(answer.json(), schema, _SCHEMAS)) == [], (method, path)
            return
    assert path == "openapi.json", f"{method} {path} is not described"


@contextmanager
def serving(project: Project | Lake, users: Users | None = None, roles: Declared | None = None) -> Iterator[Api]:
    """Of a lake alone, the server has no project."""
    lake, own = (project.lake, project) if isinstance(project, Project) else (project, None)
    with rest.serving(lake, users, roles, beside=[routes.mounted(lake, own)]) as running:
        yield Api(running)
