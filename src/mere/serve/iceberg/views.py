"""Views, under the rule of all views of a lake: they follow the ref on which they are read."""

from __future__ import annotations

from starlette.responses import Response

from mere.lake.log.commits import Kind
from mere.serve.iceberg import tables
from mere.serve.iceberg.call import EMPTY, Call
from mere.serve.iceberg.files import loaded


def list_(call: Call) -> Response:
    return tables.listed(call, Kind.VIEW)


def load(call: Call) -> Response:
    location = call.warehouse.entry(call.table("view"), Kind.VIEW).value
    return Response(loaded(location, call.files.content(location), {}), media_type="application/json")


def exists(call: Call) -> Response:
    call.warehouse.entry(call.table("view"), Kind.VIEW)
    return Response(status_code=EMPTY)
