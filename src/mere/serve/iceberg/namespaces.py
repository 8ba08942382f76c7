"""Namespaces: of one level, with properties, on a ref."""

from __future__ import annotations

from starlette.responses import Response

from mere.serve.iceberg.call import EMPTY, SEPARATOR, Call, json_response, one_level


def list_(call: Call) -> Response:
    parent = call.query.get("parent")
    if parent:
        call.warehouse.require_namespace(one_level(parent.split(SEPARATOR)))
        return json_response({"namespaces": []})
    page, more = call.page(call.warehouse.namespaces(), str)
    return json_response({"namespaces": [[each] for each in page], **more})


def load(call: Call) -> Response:
    properties = call.warehouse.properties(call.namespace)
    return json_response({"namespace": [call.namespace], "properties": properties})


def exists(call: Call) -> Response:
    call.warehouse.require_namespace(call.namespace)
    return Response(status_code=EMPTY)
