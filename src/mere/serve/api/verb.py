"""A verb of the API: its path, what it takes, what it gives, and the function that does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mere.errors import UsageError
from mere.names import MAIN, RefExpression, near
from mere.serve.api import schema
from mere.serve.api.schema import Schema
from mere.serve.http import body
from mere.serve.http.access import Access
from mere.serve.http.errors import bad_request

if TYPE_CHECKING:
    from mere.api.project import Project
    from mere.lake.lake import Lake
    from mere.lake.query.tables import TableSet
    from mere.serve.api.started import Starter


@dataclass(frozen=True)
class Call:
    """A request as a handler sees it: who asks, and what for, checked against what the verb takes."""

    lake: Lake
    access: Access
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    said: dict[str, object]  # for the audit log
    own_project: Project | None
    starter: Starter

    @property
    def project(self) -> Project:
        if self.own_project is None:
            raise UsageError(
                "This server has no project.", remedy="Start it in a project's folder, without --lake: mere serve"
            )
        return self.own_project

    @property
    def author(self) -> str:
        return self.access.caller.name

    def tables(self, at: str) -> TableSet:
        """All tables of a ref that the caller may read."""
        self.check_ref(at)
        found = self.lake.at(at)
        self.access.check_known(found)
        return found

    def check_ref(self, ref: str) -> None:
        self.said["ref"] = ref
        self.access.check_ref(RefExpression.parse(ref))


Handler = Callable[[Call], Any]  # what it gives becomes JSON

AT = schema.about(schema.LINE, "Any ref: main, dev, v1, main~3, main@2h, a commit.", default=MAIN)


def limit(default: int, most: int = 1000) -> Schema:
    return schema.about(schema.INTEGER, "Return at most this many.", default=default, minimum=1, maximum=most)


@dataclass(frozen=True)
class Verb:
    """`summary`: the first line of what the handler says of itself."""

    method: str
    path: str  # below /api/v1, with {names}
    handler: Handler
    answer: Schema
    status: int = 200
    query: Mapping[str, Schema] = field(default_factory=dict)
    body: Schema | None = None

    @property
    def name(self) -> str:
        """`runs_start`"""
        return f"{self.handler.__module__.rpartition('.')[2]}_{self.handler.__name__.strip('_')}"

    @property
    def summary(self) -> str:
        return " ".join((self.handler.__doc__ or "").split())

    @cached_property
    def in_path(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def asked(self, given: Mapping[str, list[str]]) -> dict[str, Any]:
        """The parameters of a query, each as its type says, and what those are that were left out."""
        if unknown := next((name for name in given if name not in self.query), None):
            raise bad_request(f"There is no parameter {unknown[:50]!r}.{near(unknown, self.query)}")
        found = {name: each.get("default") for name, each in self.query.items()}
        for name, texts in given.items():
            found[name] = _typed(name, texts, self.query[name])
        return found

    def told(self, content: bytes) -> Mapping[str, Any]:
        """The body, with what those members are that were left out."""
        if self.body is None:
            if content.strip() not in (b"", b"{}"):
                raise bad_request(f"{self.method} {self.path} takes no body.")
            return {}
        found = body.parsed(content or b"{}")
        _check(found, self.body)
        properties: Mapping[str, Schema] = self.body["properties"]
        return {**{name: each.get("default") for name, each in properties.items()}, **found}


def _typed(name: str, texts: list[str], wanted: Schema) -> Any:
    if wanted["type"] == "array":
        _check(texts, wanted, name)
        return texts
    text = texts[-1]
    value: object = text
    if wanted["type"] == "integer":
        value = int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < 16 else text
    elif wanted["type"] == "boolean":
        value = {"true": True, "false": False}.get(text, text)
    _check(value, wanted, name)
    return value


def _check(value: object, wanted: Schema, name: str = "") -> None:
    if problem := next(schema.wrong(value, wanted, {}, name), None):
        # A name stays as it is written.
        first = f"T{problem[1:]}" if problem.startswith(("the body ", "there is no ")) else problem
        raise bad_request(first if first.endswith(("?", ".")) else f"{first}.")


def decoded(path: Mapping[str, str]) -> dict[str, str]:
    found = {name: unquote(text) for name, text in path.items()}
    for name, text in found.items():
        _check(text, schema.LINE, name)
    return found
