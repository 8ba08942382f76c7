"""A session of the gateway without the wire: statements in, texts out as a client would see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mere.serve.access.roles import Declared
from mere.serve.protocol.port import PgError, Session
from mere.serve.protocol.statement import Query
from mere.serve.roles import file
from mere.serve.values import nested

Row = tuple[str | None, ...]


def declared(roles: dict[str, Any], users: dict[str, str] | None = None) -> Declared:
    """Roles as a file of them would give them."""
    content = {"roles": roles} | ({"users": users} if users else {})
    return file.of_text(yaml.safe_dump(content, sort_keys=False), Path("roles.yaml"))


@dataclass(frozen=True)
class Told:
    names: list[str]
    oids: list[int]
    rows: list[Row]


def ask(session: Session, sql: str, values: Sequence[Any] = (), oids: Sequence[int] = ()) -> Told:
    """The result of the last statement of a text."""
    told = Told([], [], [])
    for statement in session.read(sql):
        if not isinstance(statement, Query):
            continue
        answer = session.run(statement, values, oids)
        fields = answer.fields
        rows: list[Row] = []
        zone = session.settings["TimeZone"]
        for batch in answer.batches():
            cells = [nested.texts(column, field.oid, zone) for column, field in zip(batch.columns, fields, strict=True)]
            rows += zip(*(_decoded(each.to_pylist()) for each in cells), strict=True)
        answer.close()
        told = Told([field.name for field in fields], [field.oid for field in fields], rows)
    return told


def _decoded(values: list[Any]) -> list[str | None]:
    return [value.decode() if isinstance(value, bytes) else value for value in values]


def rows(session: Session, sql: str, values: Sequence[Any] = (), oids: Sequence[int] = ()) -> list[Row]:
    return ask(session, sql, values, oids).rows


def failure(session: Session, sql: str, values: Sequence[Any] = (), oids: Sequence[int] = ()) -> PgError:
    try:
        found = ask(session, sql, values, oids)
    except PgError as error:
        return error
    raise AssertionError(f"it was run, and gave {found.rows[:3]}: {sql}")
