"""Refs: branches and tags, listed, made and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mere.errors import ReadOnlyRef, RefNotFound
from mere.lake.log.refs import Ref, RefKind
from mere.names import MAIN, check_new_ref
from mere.serve.api import rights
from mere.serve.api.verb import Call


def list_(call: Call) -> list[dict[str, Any]]:
    """List the branches and tags that the caller may read."""
    return list(_told(call, call.lake.refs(*map(RefKind, call.query["kind"]))))


def show(call: Call) -> dict[str, Any]:
    """One branch or tag."""
    call.check_ref(call.path["name"])
    ref = call.lake.resolve(call.path["name"]).ref
    if ref is None:
        return _missing(call)
    return next(_told(call, [ref]))


def _missing(call: Call) -> dict[str, Any]:
    raise RefNotFound(f"{call.path['name']} is a commit, not a branch or tag.")


def create_branch(call: Call) -> dict[str, Any]:
    """Fork a branch. No data is copied."""
    return _made(call, call.lake.branch)


def create_tag(call: Call) -> dict[str, Any]:
    """Give a commit a permanent name."""
    return _made(call, call.lake.tag)


def _made(call: Call, make: Any) -> dict[str, Any]:
    name = check_new_ref(call.body["name"])
    call.check_ref(call.body["at"])
    call.said["ref"] = name
    rights.check_named(call.access, name)
    return next(_told(call, [make(name, call.body["at"], author=call.author)]))


def delete_branch(call: Call) -> dict[str, Any]:
    """Delete a branch. Its commits can be reached by their ids until mere gc."""
    return _deleted(call, RefKind.BRANCH)


def delete_tag(call: Call) -> dict[str, Any]:
    """Delete a tag."""
    return _deleted(call, RefKind.TAG)


def _deleted(call: Call, kind: RefKind) -> dict[str, Any]:
    name = check_new_ref(call.path["name"])
    call.check_ref(name)
    if name == MAIN:
        raise ReadOnlyRef(f"{MAIN} cannot be deleted, whoever asks.")
    rights.check_named(call.access, name)
    return next(_told(call, [call.lake.delete(name, kind)]))


def _told(call: Call, refs: list[Ref]) -> Iterator[dict[str, Any]]:
    for ref in refs:
        if ref.kind is not RefKind.ALIAS and call.access.role.may_connect(ref.name):
            yield ref.to_dict(call.lake.store.commit_by_seq(ref.head))
