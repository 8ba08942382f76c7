"""Namespaces of a ref: one level, with properties."""

from __future__ import annotations

import posixpath

import orjson
from starlette.responses import Response

from mere.errors import InvalidName, NamespaceExists, NamespaceNotEmpty
from mere.lake.log.commits import Change, CommitKind, Entry, Key, Kind, Space
from mere.lake.place import folders
from mere.names import TableName, check_new_table
from mere.serve.http.answering import json_response
from mere.serve.http.errors import HttpError, bad_request
from mere.serve.iceberg.call import EMPTY, SEPARATOR, Call, one_level
from mere.serve.iceberg.target import Target
from mere.serve.iceberg.warehouse import EXISTS
from mere.serve.iceberg.writing import Answer, Write, written

_LONGEST = 1000  # bytes of a property's name, by which the catalog's database finds it


def list_(call: Call) -> Response:
    parent = call.query.get("parent")
    if parent:
        call.warehouse.require_namespace(one_level(parent.split(SEPARATOR)))
        return json_response({"namespaces": []})
    page, more = call.page(call.warehouse.namespaces(), str)
    return json_response({"namespaces": [[each] for each in page], **more})


def load(call: Call) -> Response:
    properties = dict(call.warehouse.properties(call.namespace))
    if call.trino is not None:
        # Without it, Trino asks for a table that is made at once, and then finds the files that it has: an error. The
        # server chooses the folder all the same.
        properties.setdefault("location", posixpath.join(folders.uri(call.lake.warehouse), call.namespace))
    return json_response({"namespace": [call.namespace], "properties": properties})


def exists(call: Call) -> Response:
    call.warehouse.require_namespace(call.namespace)
    return Response(status_code=EMPTY)


# writing


def create(call: Call) -> Response:
    levels = call.json.get("namespace")
    namespace = one_level(levels if isinstance(levels, list) else [])
    properties = _properties(call.json.get("properties") or {})
    if not TableName(namespace, "t").is_plain or "." in namespace:
        raise InvalidName(f"No query could spell {namespace}.", remedy="Choose a plain name.")
    check_new_table(TableName(namespace, "t"))
    target = Target(call, namespace)

    def find() -> Write:
        if namespace in call.warehouse.tables.namespaces:
            raise NamespaceExists(f"Namespace already exists: {namespace}")
        given = {EXISTS: "true", **properties}
        changes = [Change(_key(namespace, name), None, _entry(value)) for name, value in given.items()]
        told = orjson.dumps({"namespace": [namespace], "properties": properties}).decode()
        return Write(f"create namespace {namespace}", changes, Answer(200, content=told))

    return written(call, target.ref, find)


def drop(call: Call) -> Response:
    namespace = call.namespace
    target = Target(call, namespace)

    def find() -> Write:
        call.warehouse.require_namespace(namespace)
        entries = call.warehouse.tables.entries
        if any(key.namespace == namespace and key.space is Space.RELATION for key in entries):
            raise NamespaceNotEmpty(f"Namespace {namespace} is not empty")
        own = [(key, entry) for key, entry in entries.items() if key.namespace == namespace]
        return Write(f"drop namespace {namespace}", [Change(key, entry, None) for key, entry in own])

    return written(call, target.ref, find)


def update(call: Call) -> Response:
    namespace = call.namespace
    updates, removals = _properties(call.json.get("updates") or {}), call.json.get("removals") or []
    if not isinstance(removals, list) or not all(isinstance(each, str) for each in removals):
        raise bad_request("`removals` must be a list of names.")
    if EXISTS in removals:
        raise bad_request(f"{EXISTS} is not a property of a namespace.")
    if both := sorted(set(updates) & set(removals)):
        raise HttpError(422, "UnprocessableEntityException", f"{both[0]} is both in `updates` and in `removals`.")
    target = Target(call, namespace)

    def find() -> Write:
        known = call.warehouse.properties(namespace)
        gone = [name for name in dict.fromkeys(removals) if name in known]
        wanted = {**updates, **dict.fromkeys(gone)}
        changes = [
            Change(_key(namespace, name), _entry(known.get(name)), _entry(value))
            for name, value in wanted.items()
            if known.get(name) != value
        ]
        missing = [name for name in dict.fromkeys(removals) if name not in known]
        told = {"updated": list(updates), "removed": gone, "missing": missing}
        content = orjson.dumps(told).decode()
        return Write(f"alter namespace {namespace}", changes, Answer(200, content=content), CommitKind.ALTER)

    return written(call, target.ref, find)


def _key(namespace: str, name: str) -> Key:
    return Key(Space.PROPERTY, namespace, name)


def _entry(value: str | None) -> Entry | None:
    return None if value is None else Entry(Kind.PROPERTY, value)


def _properties(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise bad_request("Properties must be an object with strings as values.")
    if any(len(name.encode()) > _LONGEST for name in given):
        raise bad_request(f"The name of a property has at most {_LONGEST} bytes.")
    if EXISTS in given:
        raise bad_request(f"{EXISTS} is not a property of a namespace.")
    return given
