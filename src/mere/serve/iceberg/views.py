"""Views, which must follow the ref on which they are read, like all views of a lake."""

from __future__ import annotations

import orjson
from starlette.responses import Response

from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.iceberg.updates import view
from mere.lake.log.commits import Kind
from mere.lake.query import trino
from mere.lake.query.bindings import Directory, schema_of
from mere.names import TableName
from mere.serve.iceberg import tables
from mere.serve.iceberg.call import EMPTY, Call, identifier
from mere.serve.iceberg.files import loaded
from mere.serve.iceberg.target import Target, now_ms
from mere.serve.iceberg.writing import Answer, Write, written


def list_(call: Call) -> Response:
    return tables.listed(call, Kind.VIEW)


def load(call: Call) -> Response:
    name = call.asked(Kind.VIEW)
    location = call.warehouse.entry(name, Kind.VIEW).value
    content = call.files.content(location)
    if call.trino is not None:
        content = orjson.dumps(_for_trino(call, name, Metadata(location, orjson.loads(content)), call.trino))
    return Response(loaded(location, content, {}), media_type="application/json")


def _for_trino(call: Call, name: TableName, view: Metadata, catalog: str) -> Json:
    directory = Directory(call.warehouse.tables)
    return trino.answered(name, view, catalog, directory.find, lambda table: schema_of(directory.tables, table))


def exists(call: Call) -> Response:
    call.warehouse.entry(call.asked(Kind.VIEW), Kind.VIEW)
    return Response(status_code=EMPTY)


def create(call: Call) -> Response:
    name = identifier({"namespace": [call.namespace], "name": call.json.get("name")})
    call.about["table"] = str(name)
    target = Target(call, name)
    target.check_view(name)

    def find() -> Write:
        reads = target.require_namespace(name.namespace)
        target.require_free(name, Kind.VIEW)
        metadata = view.new(target.following(call.json), target.folder(name), now_ms())
        change = target.created(name, Kind.VIEW, metadata)
        assert change.new is not None
        return Write(f"create view {name}", [change], Answer(200, change.new.value), reads=reads)

    return written(call, target.ref, find)


def replace(call: Call) -> Response:
    return tables.changed(call, call.table("view"), Kind.VIEW)


def drop(call: Call) -> Response:
    return tables.dropped(call, call.table("view"), Kind.VIEW)


def rename(call: Call) -> Response:
    return tables.moved(call, Kind.VIEW)


def register(call: Call) -> Response:
    return tables.registered(call, Kind.VIEW)
