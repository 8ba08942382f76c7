"""Tables: lists, loads, creates, changes, drops, renames and registers them."""

from __future__ import annotations

import orjson
from starlette.responses import Response

from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.updates import fresh
from mere.lake.log.commits import Change, CommitKind, Key, Kind
from mere.lake.place import folders
from mere.lake.refs.guards import PROPERTIES
from mere.lake.refs.history import renamed
from mere.names import TableName
from mere.serve.http.answering import json_response
from mere.serve.http.errors import bad_request
from mere.serve.iceberg.call import EMPTY, Call, identifier
from mere.serve.iceberg.files import etag, loaded
from mere.serve.iceberg.grants import settings, vended
from mere.serve.iceberg.target import Target, now_ms
from mere.serve.iceberg.writing import Answer, Write, written

_SNAPSHOTS = ("all", "refs")


def list_(call: Call) -> Response:
    return listed(call, Kind.TABLE)


def listed(call: Call, kind: Kind) -> Response:
    page, more = call.page(call.warehouse.relations(call.namespace, kind), lambda table: table.name)
    found = [{"namespace": [table.namespace], "name": table.name} for table in page]
    return json_response({"identifiers": found, **more})


def load(call: Call) -> Response:
    snapshots = call.query.get("snapshots", "all").lower()
    if snapshots not in _SNAPSHOTS:
        raise bad_request(f"snapshots must be all or refs, not {snapshots[:50]}.")
    location = call.warehouse.entry(call.asked(Kind.TABLE), Kind.TABLE).value
    reached = settings(call)
    headers = {"ETag": etag(location, snapshots, *sorted(reached.values()))}
    if headers["ETag"] in call.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    metadata = call.files.content(location)
    if snapshots == "refs":
        metadata = orjson.dumps(_of_refs(orjson.loads(metadata)))
    body = loaded(location, metadata, reached)
    return Response(body, headers=headers, media_type="application/json")


def _of_refs(raw: Json) -> Json:
    """Without the snapshots that no branch or tag of the table names."""
    named = {ref["snapshot-id"] for ref in raw.get("refs", {}).values()} | {raw.get("current-snapshot-id")}
    kept = [each for each in raw.get("snapshots", ()) if each["snapshot-id"] in named]
    return {**raw, "snapshots": kept}


def exists(call: Call) -> Response:
    call.warehouse.entry(call.asked(Kind.TABLE), Kind.TABLE)
    return Response(status_code=EMPTY)


def credentials(call: Call) -> Response:
    call.warehouse.entry(call.asked(Kind.TABLE), Kind.TABLE)
    keys = vended(call)
    found = [{"prefix": call.lake.warehouse, "config": settings(call)}] if keys else []
    return json_response({"storage-credentials": found})


def report(call: Call) -> Response:
    """What an engine has measured while it scanned or wrote. It is taken, and not kept."""
    table = call.asked(Kind.TABLE)
    if call.access.role.may_read_all_of(table):
        call.warehouse.require_ref()  # the table may not be there yet, or not any more
    else:
        call.warehouse.entry(table, Kind.TABLE)
    if "report-type" not in call.json:
        raise bad_request("A report needs a `report-type`.")
    return Response(status_code=EMPTY)


# writing


def create(call: Call) -> Response:
    table = identifier({"namespace": [call.namespace], "name": call.json.get("name")})
    call.about["table"] = str(table)
    target = Target(call, table)
    target.check_properties(table, call.json.get("properties") or {})
    folder = target.folder(table)
    if call.json.get("stage-create"):
        target.require_namespace(table.namespace)
        target.require_free(table, Kind.TABLE)
        metadata = fresh.table(call.json, folder, PROPERTIES, now_ms())
        folders.make(folder)
        body = loaded(None, orjson.dumps(metadata), settings(call))
        return Response(body, media_type="application/json")

    def find() -> Write:
        reads = target.require_namespace(table.namespace)
        target.require_free(table, Kind.TABLE)
        metadata = fresh.table(call.json, folder, PROPERTIES, now_ms())
        folders.make(folder)
        change = target.created(table, Kind.TABLE, metadata)
        return Write(f"create {table}", [change], _loads(change), reads=reads)

    return written(call, target.ref, find)


def _loads(change: Change) -> Answer:
    assert change.new is not None
    return Answer(200, change.new.value)


def commit(call: Call) -> Response:
    return changed(call, call.table(), Kind.TABLE)


def changed(call: Call, table: TableName, kind: Kind) -> Response:
    target = Target(call, table)

    def find() -> Write:
        changes = target.changed(kind, {table: call.json})
        if not changes:
            return Write("", answer=Answer(200, target.entry(table, kind).value))
        return Write(message([call.json], changes), changes, _loads(*changes))

    return written(call, target.ref, find)


def message(requests: list[Json], changes: list[Change]) -> str:
    """What was done, as clients say it: the operations of their snapshots."""
    snapshots = [each["snapshot"] for request in requests for each in request.get("updates", ()) if "snapshot" in each]
    said = dict.fromkeys(str(each.get("summary", {}).get("operation", "write")) for each in snapshots)
    created = all(change.old is None for change in changes)
    verb = "create" if created else " and ".join(said) or "alter"
    return f"{verb} {', '.join(str(change.key) for change in changes)}"


def drop(call: Call) -> Response:
    return dropped(call, call.table(), Kind.TABLE)


def dropped(call: Call, table: TableName, kind: Kind) -> Response:
    """`purgeRequested` or not: other refs may need the files, and the sweep finds those that nobody needs."""
    target = Target(call, table)
    call.access.check_drop(table)

    def find() -> Write:
        entry = target.entry(table, kind)
        return Write(f"drop {table}", [Change(Key.of(table), entry, None)], kind=CommitKind.DROP)

    return written(call, target.ref, find)


def rename(call: Call) -> Response:
    return moved(call, Kind.TABLE)


def moved(call: Call, kind: Kind) -> Response:
    source, destination = identifier(call.json.get("source")), identifier(call.json.get("destination"))
    call.about["table"] = str(source)
    target = Target(call, source, destination)
    if kind is Kind.VIEW:
        target.check_view(destination)

    def find() -> Write:
        target.entry(source, kind)
        reads = target.require_namespace(destination.namespace)
        target.require_new_name(source, destination)
        standing = target.standing(source, *source.companions, destination, *destination.companions)
        changes = renamed(target.ref.name, standing, source, destination)
        return Write(f"rename {source} to {destination}", changes, reads=reads)

    return written(call, target.ref, find)


def register(call: Call) -> Response:
    return registered(call, Kind.TABLE)


def registered(call: Call, kind: Kind) -> Response:
    """One whose metadata is in the warehouse, such as one that was dropped. What is elsewhere is adopted."""
    name = identifier({"namespace": [call.namespace], "name": call.json.get("name")})
    call.about["table"] = str(name)
    target = Target(call, name)
    call.access.check_unrestricted(f"register {name}")
    if call.json.get("overwrite"):
        raise bad_request("Registering does not replace a table: drop it first.")

    def find() -> Write:
        reads = target.require_namespace(name.namespace)
        target.require_free(name, kind)
        entry = target.found(kind, call.json.get("metadata-location"))
        change = Change(Key.of(name), None, entry)
        return Write(f"register {name}", [change], _loads(change), reads=reads)

    return written(call, target.ref, find)
