"""Commits to several tables: all of them, or none."""

from __future__ import annotations

from starlette.responses import Response

from mere.lake.log.commits import Kind
from mere.serve.http.errors import bad_request
from mere.serve.iceberg.call import Call, identifier
from mere.serve.iceberg.tables import message
from mere.serve.iceberg.target import Target
from mere.serve.iceberg.writing import Write, written


def commit(call: Call) -> Response:
    requests = call.json.get("table-changes")
    if not isinstance(requests, list) or not all(isinstance(each, dict) for each in requests) or not requests:
        raise bad_request("`table-changes` must be a list of at least one object.")
    tables = [identifier(each.get("identifier")) for each in requests]
    if len(set(tables)) < len(tables):
        raise bad_request("A transaction can change a table only once.")
    call.about["table"] = ", ".join(map(str, tables))[:1000]
    target = Target(call, *tables)

    def find() -> Write:
        changes = target.changed(Kind.TABLE, dict(zip(tables, requests, strict=True)))
        return Write(message(requests, changes), changes)

    return written(call, target.ref, find)
