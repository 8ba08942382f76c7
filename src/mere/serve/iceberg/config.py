"""GET /v1/config: what this server can do, and the ref that the client uses from then on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from starlette.responses import Response

from mere.lake.store.port import RECEIPTS_LAST
from mere.names import MAIN
from mere.serve.http.answering import json_response
from mere.serve.iceberg.call import Call, Handler

_LASTS = f"PT{RECEIPTS_LAST // timedelta(minutes=1)}M"


def handler(endpoints: Sequence[str]) -> Handler:
    def config(call: Call) -> Response:
        asked = call.query.get("warehouse") or MAIN
        prefix = call.warehouses.named(asked, call.access)
        call.about["ref"] = prefix
        told = {"defaults": {}, "overrides": {"prefix": prefix}, "endpoints": list(endpoints)}
        return json_response({**told, "idempotency-key-lifetime": _LASTS})

    return config
