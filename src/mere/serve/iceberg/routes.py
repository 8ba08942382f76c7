"""The endpoints of the protocol, each with its handler. GET /v1/config tells clients of exactly these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from mere.serve.http.answering import Encoded
from mere.serve.iceberg import config, namespaces, signing, tables, transactions, views
from mere.serve.iceberg.call import Answering, Handler
from mere.serve.iceberg.writing import once

if TYPE_CHECKING:
    from mere.lake.lake import Lake

PATH = "/iceberg"
TRINO = "/trino/{trino}"  # below it the same, for a Trino that has the ref as a catalog of this name
_THREADS = 8

_REF = "/v1/{prefix}"
_NAMESPACES = f"{_REF}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES, _TABLE = f"{_NAMESPACE}/tables", f"{_NAMESPACE}/tables/{{table}}"
_VIEWS, _VIEW = f"{_NAMESPACE}/views", f"{_NAMESPACE}/views/{{view}}"

HANDLERS: dict[str, Handler] = {
    f"GET {_NAMESPACES}": namespaces.list_,
    f"GET {_NAMESPACE}": namespaces.load,
    f"HEAD {_NAMESPACE}": namespaces.exists,
    f"POST {_NAMESPACES}": namespaces.create,
    f"DELETE {_NAMESPACE}": namespaces.drop,
    f"POST {_NAMESPACE}/properties": namespaces.update,
    f"GET {_TABLES}": tables.list_,
    f"POST {_TABLES}": tables.create,
    f"GET {_TABLE}": tables.load,
    f"HEAD {_TABLE}": tables.exists,
    f"POST {_TABLE}": tables.commit,
    f"DELETE {_TABLE}": tables.drop,
    f"POST {_REF}/tables/rename": tables.rename,
    f"POST {_NAMESPACE}/register": tables.register,
    f"GET {_TABLE}/credentials": tables.credentials,
    f"POST {_TABLE}/metrics": tables.report,
    f"POST {_TABLE}/sign": signing.sign,
    f"GET {_VIEWS}": views.list_,
    f"POST {_VIEWS}": views.create,
    f"GET {_VIEW}": views.load,
    f"HEAD {_VIEW}": views.exists,
    f"POST {_VIEW}": views.replace,
    f"DELETE {_VIEW}": views.drop,
    f"POST {_REF}/views/rename": views.rename,
    f"POST {_NAMESPACE}/register-view": views.register,
    f"POST {_REF}/transactions/commit": transactions.commit,
}


def mounted(lake: Lake, threads: int = _THREADS) -> Mount:
    answering = Answering(lake, threads)
    found = {"GET /v1/config": config.handler(tuple(HANDLERS)), **HANDLERS}
    found |= {name: once(handler) for name, handler in found.items() if _writes(name)}
    # A route for GET takes HEAD, too, unless another one has come before it.
    names = sorted(found, key=lambda name: not name.startswith("HEAD"))
    routes = [_route(name, answering.endpoint(found[name]), below) for below in ("", TRINO) for name in names]
    return Mount(PATH, app=Encoded(routes))


def _writes(name: str) -> bool:
    return name.startswith(("POST", "DELETE")) and not name.endswith(("/metrics", "/sign"))


def _route(name: str, endpoint: Callable[[Request], Awaitable[Response]], below: str) -> Route:
    method, _, path = name.partition(" ")
    return Route(f"{below}{path}", endpoint, methods=[method])
