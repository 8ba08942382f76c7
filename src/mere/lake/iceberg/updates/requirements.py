"""The requirements that a client sends along with its updates. If one is not met, somebody else was faster.

The messages are those of Iceberg's own library, which users know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mere.errors import LakeConflict, UsageError
from mere.lake.iceberg.metadata import Json

# Each compares a field of the metadata with a field of the requirement.
_FIELDS = {
    "assert-last-assigned-field-id": ("last-column-id", "last-assigned-field-id", "last assigned field id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": (
        "last-partition-id",
        "last-assigned-partition-id",
        "last assigned partition id",
    ),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id", "default sort order"),
}
CREATES = "assert-create"


def check(what: str, raw: Json | None, requirements: Iterable[Json]) -> None:
    """LakeConflict for the first that is not met. `raw`: the metadata; None: there is nothing of that name."""
    for each in requirements:
        kind = each.get("type")
        if kind == CREATES:
            if raw is not None:
                raise LakeConflict("Requirement failed: table already exists")
        elif isinstance(kind, str) and (kind in _FIELDS or kind in _OTHERS):
            _require(what, raw, each)
        else:
            raise UsageError(f"{kind!r} is not a supported requirement.")


def _require(what: str, raw: Json | None, requirement: Json) -> None:
    if raw is None:
        raise LakeConflict(f"Requirement failed: {what} is missing")
    kind = requirement["type"]
    try:
        if kind in _FIELDS:
            ours, theirs, told = _FIELDS[kind]
            found, expected = raw.get(ours), requirement[theirs]
            if found != expected:
                raise LakeConflict(f"Requirement failed: {told} changed: expected id {expected} != {found}")
        else:
            _OTHERS[kind](raw, requirement)
    except KeyError as error:
        raise UsageError(f"The requirement {kind} lacks {error}.") from error
    except TypeError as error:
        raise UsageError(f"The requirement {kind} cannot be read: {error}.") from error


def _uuid(raw: Mapping[str, Any], requirement: Json) -> None:
    found, expected = raw.get("table-uuid") or raw.get("view-uuid"), requirement["uuid"]
    if str(found).lower() != str(expected).lower():
        raise LakeConflict(f"Requirement failed: UUID does not match: expected {expected} != {found}")


def _ref(raw: Mapping[str, Any], requirement: Json) -> None:
    name, expected = requirement["ref"], requirement.get("snapshot-id")
    found = refs(raw).get(name, {}).get("snapshot-id")
    if found != expected:
        if expected is None:
            raise LakeConflict(f"Requirement failed: branch or tag {name} was created concurrently")
        raise LakeConflict(f"Requirement failed: branch or tag {name} has changed: expected id {expected} != {found}")


_OTHERS: Mapping[str, Callable[[Mapping[str, Any], Json], None]] = {
    "assert-table-uuid": _uuid,
    "assert-view-uuid": _uuid,
    "assert-ref-snapshot-id": _ref,
}


def refs(raw: Mapping[str, Any]) -> dict[str, Json]:
    """The table's own branches and tags. Metadata of before they were invented has one: main."""
    if "refs" in raw:
        found: dict[str, Json] = raw["refs"] or {}
        return found
    current = raw.get("current-snapshot-id")
    return {} if current in (None, -1) else {"main": {"snapshot-id": current, "type": "branch"}}
