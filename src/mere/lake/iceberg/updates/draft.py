"""A draft of new metadata, and the updates that tables and views have in common.

Updates change the JSON itself, not a model of it, so parts that this code does not know stay as they are. Unknown
updates are refused, and so are known ones with unknown fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mere.errors import UsageError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.updates.schemas import check_schema, highest_id, is_same
from mere.lake.iceberg.updates.shapes import LAST, UPDATES


class Draft:
    """Of metadata with the given updates. `changed`: whether any of them changed something."""

    KIND = "table"
    UUID = "table-uuid"
    FORMATS = range(1, 4)

    def __init__(self, raw: Json, now_ms: int) -> None:
        self.raw = dict(raw)
        self.now_ms = now_ms
        self.changed = False
        self._added: dict[str, int] = {}  # the last id of each kind that came with an update
        self._actions: Mapping[str, Callable[[Json], None]] = {
            "assign-uuid": self._assign_uuid,
            "upgrade-format-version": self._upgrade,
            "add-schema": self._add_schema,
            "set-location": self._set_location,
            "set-properties": self._set_properties,
            "remove-properties": self._remove_properties,
            **self.more_actions(),
        }

    def more_actions(self) -> Mapping[str, Callable[[Json], None]]:
        raise NotImplementedError

    def apply(self, updates: Iterable[Json]) -> None:
        for update in updates:
            act = self._actions.get(str(update.get("action")))
            if act is None:
                raise UsageError(f"A {self.KIND} does not support the update {update.get('action')!r}.")
            try:
                check_updates([update])
                act(update)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise _unreadable(update, error) from error

    def set(self, key: str, value: Any) -> None:
        if key not in self.raw or self.raw[key] != value:
            self.raw[key] = value
            self.changed = True

    def listed(self, key: str) -> list[Json]:
        found: list[Json] = self.raw.get(key) or []
        return found

    def append(self, key: str, item: Json) -> None:
        self.set(key, [*self.listed(key), item])

    def last(self, kind: str, id_: int) -> int:
        """The id, or that of what was added last where it says so."""
        if id_ != LAST:
            return id_
        if kind not in self._added:
            raise UsageError(f"The update refers to the last {kind} added, and none was added.")
        return self._added[kind]

    def added(self, kind: str, id_: int) -> None:
        self._added[kind] = id_

    @property
    def format(self) -> int:
        return int(self.raw["format-version"])

    # what tables and views have in common

    def _assign_uuid(self, update: Json) -> None:
        uuid, known = update["uuid"].lower(), self.raw.get(self.UUID)
        if known is not None and str(known).lower() != uuid:
            raise UsageError(f"A {self.KIND} keeps its UUID: {known}.")
        if known is None:
            self.set(self.UUID, uuid)

    def _upgrade(self, update: Json) -> None:
        version = update["format-version"]
        if version not in self.FORMATS:
            raise UsageError(f"Version {version} of a {self.KIND} is not supported, only up to {self.FORMATS[-1]}.")
        if version < self.format:
            raise UsageError(f"A {self.KIND} of format {self.format} cannot go back to {version}.")
        if version > self.format:
            self.upgraded(version)

    def upgraded(self, version: int) -> None:
        self.set("format-version", version)

    def _add_schema(self, update: Json) -> None:
        check_schema(update["schema"], self.schema_format)
        schema = {name: value for name, value in update["schema"].items() if value is not None}
        known = self.listed("schemas")
        same = next((each for each in known if is_same(each, schema)), None)
        if same is not None:
            self.added("schema", same["schema-id"])
            return
        id_ = max((each["schema-id"] for each in known), default=-1) + 1
        self.append("schemas", {**schema, "schema-id": id_})
        self.added("schema", id_)
        self.schema_added(highest_id(schema))

    @property
    def schema_format(self) -> int:
        """Which types a schema may have."""
        return self.format

    def schema_added(self, highest: int) -> None:
        """Its highest id of a column is that."""

    def _set_location(self, update: Json) -> None:
        self.set("location", update["location"].rstrip("/"))

    def _set_properties(self, update: Json) -> None:
        properties = strings(update["updates"] if "updates" in update else update["updated"])
        self.set("properties", {**self.raw.get("properties", {}), **properties})

    def _remove_properties(self, update: Json) -> None:
        removals = update["removals"] if "removals" in update else update["removed"]
        gone = {name for name in removals if isinstance(name, str)}
        kept = {name: value for name, value in self.raw.get("properties", {}).items() if name not in gone}
        if "properties" in self.raw:
            self.set("properties", kept)


def check_updates(updates: Iterable[Json]) -> None:
    """UsageError for the first in which something is missing or of a wrong type. Call it before reading an update."""
    for update in updates:
        action = update.get("action")
        if isinstance(action, str) and (shape := UPDATES.get(action)) is not None:
            try:
                shape(update, "")
            except ValueError as error:
                raise _unreadable(update, error) from error


def _unreadable(update: Json, error: Exception) -> UsageError:
    told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return UsageError(f"The update {update['action']} cannot be read: {told}.")


def strings(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError("the values of properties must be strings")
    return given
