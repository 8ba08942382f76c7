"""The shapes of the protocol's updates: the fields of each, and what may be in them.

One value of a wrong type makes metadata that no engine can read, not even the one that sent it, so all that will be
stored is checked here first. Unknown fields of an update itself are ignored.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Check = Callable[[Any, str], None]  # of a value and where it stands; ValueError, if it may not stand there

LAST = -1  # in place of an id: of what the same request has added
_INT, _LONG = 2**31 - 1, 2**63 - 1
_TRANSFORM = re.compile(r"identity|void|year|month|day|hour|(bucket|truncate)\[[1-9][0-9]{0,8}\]")


def text(value: Any, at: str) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"`{at}` must be a string")


def any_text(value: Any, at: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"`{at}` must be a string")


def anything(value: Any, at: str) -> None:
    """What is looked at elsewhere."""


def boolean(value: Any, at: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"`{at}` must be true or false")


def transform(value: Any, at: str) -> None:
    text(value, at)
    if not _TRANSFORM.fullmatch(value):
        raise ValueError(f"`{at}` is not a transform: {value[:100]}")


def uuid_(value: Any, at: str) -> None:
    text(value, at)
    try:
        uuid.UUID(value)
    except ValueError:
        raise ValueError(f"`{at}` must be a UUID") from None


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    low: int = 0
    high: int = _LONG

    def __call__(self, value: Any, at: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"`{at}` must be a whole number")
        if not self.low <= value <= self.high:
            raise ValueError(f"`{at}` must be from {self.low} to {self.high}")


@dataclass(frozen=True)
class Word:
    """One of a few."""

    words: tuple[str, ...]

    def __call__(self, value: Any, at: str) -> None:
        if value not in self.words:
            raise ValueError(f"`{at}` is none of {', '.join(self.words)}")


@dataclass(frozen=True)
class ListOf:
    item: Check

    def __call__(self, value: Any, at: str) -> None:
        if not isinstance(value, list):
            raise ValueError(f"`{at}` must be a list")
        for number, each in enumerate(value):
            self.item(each, f"{at}[{number}]")


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


@dataclass(frozen=True)
class MapOf:
    item: Check

    def __call__(self, value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"`{at}` must be an object")
        for name, each in value.items():
            self.item(each, _below(at, name[:100]))


@dataclass(frozen=True)
class Record:
    """An object. Its `optional` fields may be null, too. `closed`: what else it has is not stored half understood."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check] = field(default_factory=dict)
    closed: bool = False

    def __call__(self, value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"`{at}` must be an object")
        for name, check in self.required.items():
            if name not in value:
                raise ValueError(f"`{_below(at, name)}` is missing")
            check(value[name], _below(at, name))
        for name, check in self.optional.items():
            if value.get(name) is not None:
                check(value[name], _below(at, name))
        if self.closed and (strange := sorted(value.keys() - self.required.keys() - self.optional.keys())):
            raise ValueError(f"`{_below(at, strange[0][:100])}` is not supported; nothing was changed")


@dataclass(frozen=True)
class OneOf:
    """An object that has one of these fields."""

    fields: Mapping[str, Check]

    def __call__(self, value: Any, at: str) -> None:
        for name in self.fields.keys() & value.keys():
            self.fields[name](value[name], _below(at, name))
        if not self.fields.keys() & value.keys():
            raise ValueError(f"`{_below(at, next(iter(self.fields)))}` is missing")


ID = Whole(0, _INT)
_ID_OR_LAST = Whole(LAST, _INT)
_SNAPSHOT_ID = Whole(-_LONG - 1)
_OPERATION = Word(("append", "replace", "overwrite", "delete"))


def _summary(value: Any, at: str) -> None:
    """What it counts may be anything, for users write over it."""
    Record({"operation": _OPERATION})(value, at)
    MapOf(any_text)(value, at)


_AGE = Whole(1)
_TIME = Whole(0, 253_402_300_799_999)  # up to the last year that has four digits

_SOURCE: Mapping[str, Check] = {"source-id": ID, "source-ids": ListOf(ID)}
_PART = Record({"name": text, "transform": transform}, {**_SOURCE, "field-id": ID})
_SORTED = Record(
    {
        "transform": transform,
        "direction": Word(("asc", "desc")),
        "null-order": Word(("nulls-first", "nulls-last")),
    },
    _SOURCE,
)
_SNAPSHOT = Record(
    {"snapshot-id": _SNAPSHOT_ID, "timestamp-ms": _TIME, "manifest-list": text},
    {
        "parent-snapshot-id": _SNAPSHOT_ID,
        "sequence-number": Whole(),
        "summary": _summary,
        "schema-id": ID,
        "first-row-id": Whole(),
        "added-rows": Whole(),
    },
    closed=True,
)
_REF = Record(
    {"action": text, "ref-name": text, "snapshot-id": _SNAPSHOT_ID, "type": Word(("branch", "tag"))},
    {"max-ref-age-ms": _AGE, "max-snapshot-age-ms": _AGE, "min-snapshots-to-keep": Whole(1, _INT)},
    closed=True,
)
_BLOB = Record(
    {"type": text, "snapshot-id": _SNAPSHOT_ID, "sequence-number": Whole(), "fields": ListOf(ID)},
    {"properties": MapOf(any_text)},
)
_STATISTICS = Record(
    {
        "snapshot-id": _SNAPSHOT_ID,
        "statistics-path": text,
        "file-size-in-bytes": Whole(),
        "file-footer-size-in-bytes": Whole(),
        "blob-metadata": ListOf(_BLOB),
    },
    {"key-metadata": any_text},
)
_PARTITION_STATISTICS = Record(
    {"snapshot-id": _SNAPSHOT_ID, "statistics-path": text, "file-size-in-bytes": Whole()},
)
_VERSION = Record(
    {
        "schema-id": _ID_OR_LAST,
        "representations": ListOf(Record({"type": Word(("sql",)), "sql": text, "dialect": text})),
        "default-namespace": ListOf(text),
    },
    {"version-id": _ID_OR_LAST, "timestamp-ms": _TIME, "summary": MapOf(any_text), "default-catalog": text},
)

# By the actions. Schemas are looked at where their types are known.
UPDATES: Mapping[str, Check] = {
    "assign-uuid": Record({"uuid": uuid_}),
    "upgrade-format-version": Record({"format-version": ID}),
    "set-location": Record({"location": text}),
    "set-properties": OneOf({"updates": MapOf(any_text), "updated": MapOf(any_text)}),
    "remove-properties": OneOf({"removals": ListOf(any_text), "removed": ListOf(any_text)}),
    "add-schema": Record({"schema": anything}),
    "set-current-schema": Record({"schema-id": _ID_OR_LAST}),
    "add-spec": Record({"spec": Record({"fields": ListOf(_PART)})}),
    "set-default-spec": Record({"spec-id": _ID_OR_LAST}),
    "add-sort-order": Record({"sort-order": Record({"fields": ListOf(_SORTED)})}),
    "set-default-sort-order": Record({"sort-order-id": _ID_OR_LAST}),
    "add-snapshot": Record({"snapshot": _SNAPSHOT}),
    "set-snapshot-ref": _REF,
    "remove-snapshots": Record({"snapshot-ids": ListOf(_SNAPSHOT_ID)}),
    "remove-snapshot-ref": Record({"ref-name": text}),
    "set-statistics": Record({"statistics": _STATISTICS}),
    "remove-statistics": Record({"snapshot-id": _SNAPSHOT_ID}),
    "set-partition-statistics": Record({"partition-statistics": _PARTITION_STATISTICS}),
    "remove-partition-statistics": Record({"snapshot-id": _SNAPSHOT_ID}),
    "remove-partition-specs": Record({"spec-ids": ListOf(ID)}),
    "remove-schemas": Record({"schema-ids": ListOf(ID)}),
    "add-view-version": Record({"view-version": _VERSION}),
    "set-current-view-version": Record({"view-version-id": _ID_OR_LAST}),
}
