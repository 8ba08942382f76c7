"""A request as the handlers see it: the caller, the ref and the parameters. Handlers run in threads."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from mere.lake.log.commits import Kind
from mere.names import TableName
from mere.serve.http import body
from mere.serve.http.access import Access
from mere.serve.http.answering import Threads
from mere.serve.http.errors import bad_request
from mere.serve.iceberg.files import MetadataFiles
from mere.serve.iceberg.warehouse import Warehouse, Warehouses, missing

if TYPE_CHECKING:
    from mere.lake.lake import Lake

SEPARATOR = "\x1f"  # between the levels of a namespace in a path
_LARGEST_PAGE = 10_000

Item = TypeVar("Item")


@dataclass(frozen=True)
class Call:
    lake: Lake
    warehouses: Warehouses
    files: MetadataFiles
    access: Access
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    operation: str  # the method and the path, for what is done once only
    about: dict[str, object]  # for the audit log

    @cached_property
    def json(self) -> dict[str, Any]:
        return body.parsed(self.body)

    @cached_property
    def warehouse(self) -> Warehouse:
        name = unquote(self.path["prefix"])
        self.about["ref"] = name
        return self.warehouses.at(name, self.access)

    @property
    def trino(self) -> str | None:
        """The name of the catalog in Trino, if it is Trino that asks."""
        return unquote(self.path["trino"]) if "trino" in self.path else None

    @property
    def namespace(self) -> str:
        return one_level(unquote(self.path["namespace"]).split(SEPARATOR))

    def table(self, part: str = "table") -> TableName:
        found = TableName(self.namespace, unquote(self.path[part]))
        self.about["table"] = str(found)
        return found

    def asked(self, kind: Kind) -> TableName:
        """The table or view that is asked for. In a namespace of a namespace there is none: that may be how a client
        asks whether what follows a table's name is one of its metadata tables, such as `gold.orders.snapshots`."""
        levels = unquote(self.path["namespace"]).split(SEPARATOR)
        if len(levels) > 1:
            raise missing(TableName(".".join(levels), unquote(self.path[kind.value])), kind)
        return self.table(kind.value)

    def page(self, items: Sequence[Item], name: Callable[[Item], str]) -> tuple[Sequence[Item], dict[str, str]]:
        """The items after those that were sent, which are in the order of their names, and what leads to the next
        page. What comes or goes meanwhile puts nothing on two pages."""
        token, size = self.query.get("pageToken", ""), self._page_size()
        if token:
            after = _text(token)
            items = [item for item in items if name(item) > after]
        if size is None or len(items) <= size:
            return items, {}
        found = items[:size]
        return found, {"next-page-token": base64.urlsafe_b64encode(name(found[-1]).encode()).decode()}

    def _page_size(self) -> int | None:
        given = self.query.get("pageSize")
        if given is None:
            return None
        if not (given.isascii() and given.isdigit()) or not 1 <= int(given[:9]) <= _LARGEST_PAGE:
            raise bad_request(f"pageSize must be a number from 1 to {_LARGEST_PAGE}.")
        return int(given)


def one_level(levels: Sequence[object]) -> str:
    """The name of a namespace. In a lake they are not nested."""
    if len(levels) != 1 or not isinstance(levels[0], str) or not levels[0]:
        shown = ".".join(map(str, levels))[:200]
        raise bad_request(f"A namespace of a lake has one level, and {shown or 'an empty one'} has not.")
    return levels[0]


def identifier(given: object) -> TableName:
    """Of a table or view, as it stands in a body: `{"namespace": ["gold"], "name": "orders"}`."""
    if not isinstance(given, dict) or not isinstance(given.get("namespace"), list):
        raise bad_request("A table is given by an object with `namespace`, a list, and `name`.")
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise bad_request("The `name` of a table must be a string.")
    return TableName(one_level(given["namespace"]), name)


EMPTY = 204
Handler = Callable[[Call], Response]


class Answering:
    """Makes endpoints of handlers."""

    def __init__(self, lake: Lake, threads: int) -> None:
        self._lake = lake
        self._warehouses = Warehouses(lake)
        self._files = MetadataFiles(lake.storage)
        self._threads = Threads(threads)

    def endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        def answer(request: Request, content: bytes) -> Response:
            state = request.state
            call = Call(
                self._lake,
                self._warehouses,
                self._files,
                state.access,
                request.path_params,
                request.query_params,
                request.headers,
                content,
                f"{request.method} {request.url.path}",
                state.about,
            )
            return handler(call)

        return self._threads.endpoint(answer)


def _text(token: str) -> str:
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise bad_request("pageToken is not from this server.") from None
