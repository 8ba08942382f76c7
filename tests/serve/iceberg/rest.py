"""A lake behind its HTTP port, in this process, and a plain client for it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests
from starlette.routing import BaseRoute

from mere.lake.lake import Lake
from mere.serve.access.roles import Declared, Roles
from mere.serve.access.tokens import Tokens
from mere.serve.access.users import Users
from mere.serve.http.server import HttpEndpoint
from mere.serve.iceberg.routes import mounted
from mere.serve.postgres.startup import Policy
from mere.serve.roles import file as rolefile
from mere.serve.session.backend import LakeBackend
from mere.serve.session.log import Log
from tests.serve.served import served


@dataclass
class Rest:
    """`rest.get("dev/namespaces")` asks for that below /iceberg/v1."""

    port: int
    log: io.StringIO
    postgres: int = 0  # the port of the gateway beside it
    session: requests.Session = field(default_factory=requests.Session)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/iceberg"

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        return self.session.request(method, f"{self.uri}/v1/{path}", timeout=60, **more)

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: object, **more: Any) -> requests.Response:
        return self.ask("POST", path, json=body, **more)

    def delete(self, path: str, **more: Any) -> requests.Response:
        return self.ask("DELETE", path, **more)

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


def error(answer: requests.Response) -> tuple[int, str, str]:
    """The status, the type and the message of an error in the form of the specification."""
    told = answer.json()["error"]
    assert told["code"] == answer.status_code
    return answer.status_code, told["type"], told["message"]


@contextmanager
def serving(
    lake: Lake,
    users: Users | None = None,
    roles: Roles | None = None,
    tokens: Tokens | None = None,
    beside: Sequence[BaseRoute] = (),
) -> Iterator[Rest]:
    log = io.StringIO()
    http = HttpEndpoint([mounted(lake), *beside], users, roles, tokens=tokens)
    with served(LakeBackend(lake, roles), Policy(users), Log(log), beside=[http]) as running:
        rest = Rest(http.port, log, running.port)
        with rest.session:
            yield rest


def roles(text: str) -> Declared:
    from pathlib import Path

    return rolefile.of_text(text, Path("roles.yaml"))
