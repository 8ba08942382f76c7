"""Signs requests to S3 for clients without keys: reads of a table's files, and writes of new ones.

A table's folder holds its files of all refs and all times, so that only a role that may read all of these gets any
signature. Nothing can be deleted or overwritten. Only the few requests that engines make are signed; all
others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from starlette.responses import Response

from mere.config import S3Settings
from mere.lake.log.commits import Key, Kind
from mere.lake.place import folders
from mere.names import TableName
from mere.serve.http.answering import json_response
from mere.serve.http.errors import bad_request, forbidden
from mere.serve.iceberg import sigv4
from mere.serve.iceberg.call import Call

_READS = ("GET", "HEAD")
# What a request may ask for besides its file: parts of a large one, and what software development kits say of it.
_QUERIES = {
    "GET": ({"x-id"},),
    "HEAD": ({"x-id"},),
    "PUT": ({"x-id"}, {"partNumber", "uploadId", "x-id"}),
    "POST": ({"uploads"}, {"uploadId"}),
}
# Of those that S3 acts upon; a copy of another file, an owner or an address to lead to is none of them.
_HEADERS = re.compile(
    r"x-amz-(content-sha256|checksum-[a-z0-9-]+|sdk-checksum-algorithm|decoded-content-length|trailer"
    r"|te|user-agent)"
)
_PAYLOAD = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_ONLY_NEW = {"if-none-match": "*"}


def endpoint(ref: str, table: TableName) -> str:
    """Where a client of the table has its requests signed, below the address of the catalog."""
    parts = (ref, table.namespace, table.name)
    prefix, namespace, name = (quote(part, safe="") for part in parts)
    return f"v1/{prefix}/namespaces/{namespace}/tables/{name}/sign"


@dataclass(frozen=True)
class Asked:
    """A request to S3 as a client means to send it."""

    method: str
    uri: str
    host: str
    path: str  # decoded
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]  # by lower-case names

    @property
    def writes(self) -> bool:
        return self.method not in _READS


def sign(call: Call) -> Response:
    table = call.table()
    s3 = call.lake.storage.s3
    if s3 is None:
        raise bad_request("The files of this lake are in a folder: there is nothing to sign.")
    asked = _asked(call.json)
    call.about["s3"] = f"{asked.method} {asked.path}"[:1000]
    call.access.check_signatures(table)
    location = _location(s3, asked)
    _check_place(call, table, location)
    if asked.writes:
        call.warehouse.branch(table)
        if call.lake.storage.exists(location):
            raise forbidden(f"{location} already exists, and files cannot be overwritten.")
    else:
        call.warehouse.tables  # noqa: B018 the ref is there, and may be read
    headers = {name: value for name, value in asked.headers.items() if _HEADERS.fullmatch(name)}
    if _makes_file(asked):
        headers |= _ONLY_NEW
    found = sigv4.signed(s3, asked.method, asked.host, asked.path, asked.query, headers, datetime.now(UTC))
    told = {"uri": _uri(asked), "headers": {name: [value] for name, value in found.items()}}
    # A client may keep the signature of what it reads, for which only the part that it reads changes.
    return json_response(told, headers={"Cache-Control": "no-store" if asked.writes else "private"})


def _asked(given: Mapping[str, object]) -> Asked:
    method, uri, headers = given.get("method"), given.get("uri"), given.get("headers", {})
    if not isinstance(method, str) or not isinstance(uri, str) or not isinstance(headers, dict):
        raise bad_request("A request to sign needs a `method`, a `uri`, a `region` and `headers`.")
    if method not in _QUERIES:
        raise forbidden(f"{method[:20]} requests are not signed; mere gc deletes files.")
    try:
        parts = urlsplit(uri)
        path = unquote(parts.path, errors="strict")
        query = parse_qsl(parts.query, keep_blank_values=True, errors="strict", max_num_fields=10)
    except ValueError:
        raise bad_request("The `uri` cannot be read.") from None
    if parts.scheme not in ("http", "https") or parts.fragment or "@" in parts.netloc or not path.isprintable():
        raise bad_request("The `uri` cannot be read.")
    names = {name for name, _ in query}
    if len(names) < len(query) or not any(names <= known for known in _QUERIES[method]):
        raise forbidden(f"{method} with {', '.join(sorted(names))[:200]} is not signed.")
    if method == "POST" and not names:
        raise forbidden("POST is signed only for uploading a large file in parts.")
    return Asked(method, uri, parts.netloc, path, query, _headers(headers))


def _headers(given: Mapping[object, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, values in given.items():
        if not isinstance(name, str) or not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise bad_request("`headers` must map names to lists of strings.")
        text = ",".join(values)
        if not text.isprintable() or name.lower() in found:
            raise bad_request(f"The header {name[:50]!r} cannot be signed.")
        found[name.lower()] = text
    for name in ("x-amz-date", "x-amz-security-token"):  # the server's own come instead
        found.pop(name, None)
    for name in found:
        if name.startswith("x-amz-") and not _HEADERS.fullmatch(name):
            raise forbidden(f"A request with {name[:100]} is not signed.")
    if not _PAYLOAD.fullmatch(found.get(sigv4.PAYLOAD, sigv4.UNSIGNED)):
        raise forbidden(f"A request with such an {sigv4.PAYLOAD} is not signed.")
    return found


def _location(s3: S3Settings, asked: Asked) -> str:
    """The file as the lake names it: `s3://bucket/key`. HttpError where the request goes to another server."""
    endpoints = [s3.endpoint] if s3.endpoint else [f"https://s3.{s3.region}.amazonaws.com", "https://s3.amazonaws.com"]
    for endpoint in endpoints:
        scheme, _, server = endpoint.rstrip("/").partition("://")
        if urlsplit(asked.uri).scheme != scheme:
            continue
        if s3.uses_path_style and asked.host == server:
            return f"s3://{asked.path.removeprefix('/')}"
        if not s3.uses_path_style and asked.host.endswith(f".{server}"):
            return f"s3://{asked.host.removesuffix(f'.{server}')}{asked.path}"
    raise forbidden(f"{asked.host[:200]} is not the server of this lake's files, so no request to it is signed.")


def _check_place(call: Call, table: TableName, location: str) -> None:
    """In the folder of the table, however often somebody decodes its name."""
    warehouse = call.lake.warehouse
    folder = _standing(call, table)
    staged = _folder_of(location, table, warehouse)
    around = [each for each in (folder, staged) if each is not None]
    names = (location, _decoded(location))
    if "\\" in names[1] or not any(all(folders.is_inside(name, each) for name in names) for each in around):
        raise forbidden(f"{location[:500]} is not a file of {table}, so no request for it is signed.")


def _standing(call: Call, table: TableName) -> str | None:
    """The folder of the table that is on the ref, if it is one of that table alone. Under the name of another, its
    folder could have files that the role may not read."""
    found = call.warehouse.tables.entries.get(Key.of(table))
    if found is None or found.kind is not Kind.TABLE:
        return None
    folder = call.files.folder(found.value)
    if folder is None or not folders.is_inside(folder, call.lake.warehouse):
        return None
    is_own = folders.is_fresh(folder, call.lake.warehouse, table)
    return folder if is_own or call.access.role.reads_everything else None


def _folder_of(location: str, table: TableName, warehouse: str) -> str | None:
    """The one that the server has given to a table of this name, though it may stand on no ref yet."""
    start = len(folders.fresh(warehouse, table))
    found = location[:start]
    return found if folders.is_fresh(found, warehouse, table) else None


def _decoded(location: str) -> str:
    """Until nothing is left to decode."""
    while (found := unquote(location)) != location:
        location = found
    return location


def _makes_file(asked: Asked) -> bool:
    """Then S3 itself sees to it that there is none yet, also where two were signed at once."""
    names = {name for name, _ in asked.query}
    return (asked.method == "PUT" and "partNumber" not in names) or (asked.method == "POST" and "uploadId" in names)


def _uri(asked: Asked) -> str:
    """Encoded as it was signed."""
    parts = urlsplit(asked.uri)
    query = "&".join(f"{name}={value}" if value else name for name, value in sigv4.encoded(asked.query))
    return f"{parts.scheme}://{asked.host}{quote(asked.path, safe='/-_.~')}" + (f"?{query}" if query else "")
