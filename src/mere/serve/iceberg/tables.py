"""Tables: listed, and loaded as their metadata files have them."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from starlette.responses import Response

from mere.lake.iceberg.metadata import Json
from mere.lake.log.commits import Kind
from mere.serve.http.errors import bad_request
from mere.serve.iceberg.call import EMPTY, Call, json_response
from mere.serve.iceberg.files import etag, loaded

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
        raise bad_request(f"snapshots has to be all or refs, not {snapshots[:50]}.")
    location = call.warehouse.entry(call.table(), Kind.TABLE).value
    headers = {"ETag": etag(location, snapshots)}
    if headers["ETag"] in call.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    metadata = call.files.content(location)
    if snapshots == "refs":
        metadata = orjson.dumps(_of_refs(orjson.loads(metadata)))
    return Response(loaded(location, metadata, config(call)), headers=headers, media_type="application/json")


def _of_refs(raw: Json) -> Json:
    """Without the snapshots that no branch or tag of the table names."""
    named = {ref["snapshot-id"] for ref in raw.get("refs", {}).values()} | {raw.get("current-snapshot-id")}
    kept = [each for each in raw.get("snapshots", ()) if each["snapshot-id"] in named]
    return {**raw, "snapshots": kept}


def config(call: Call) -> Mapping[str, str]:
    """How the files are reached, without keys: a client has its own."""
    s3 = call.lake.storage.s3
    if s3 is None:
        return {}
    found = {"client.region": s3.region, "s3.region": s3.region}
    if s3.endpoint is not None:
        found["s3.endpoint"] = s3.endpoint
    return found | {"s3.path-style-access": str(s3.uses_path_style).lower()}


def exists(call: Call) -> Response:
    call.warehouse.entry(call.table(), Kind.TABLE)
    return Response(status_code=EMPTY)


def credentials(call: Call) -> Response:
    """None are given out."""
    call.warehouse.entry(call.table(), Kind.TABLE)
    return json_response({"storage-credentials": []})


def report(call: Call) -> Response:
    """What an engine has measured while it scanned or wrote. It is taken, and not kept."""
    call.warehouse.entry(call.table(), Kind.TABLE)
    if "report-type" not in call.json:
        raise bad_request("A report has a `report-type`.")
    return Response(status_code=EMPTY)
