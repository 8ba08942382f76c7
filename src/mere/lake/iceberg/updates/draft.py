"""A draft of new metadata, and the updates that tables and views have in common.

Updates change the JSON itself, not a model of it, so parts that this code does not know stay as they are. Unknown
updates are refused, and so are known ones with unknown fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mere.errors import UsageError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.schema import fields

LAST = -1  # in place of an id: of what the same request has added
_PRIMITIVES = {
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid"),
    *("fixed", "decimal", "binary"),
}
_OF_FORMAT_3 = {"timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"}
_NESTED = {"struct", "list", "map"}


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
                act(update)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise UsageError(f"The update {update['action']} cannot be read: {_reason(error)}.") from error

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
        uuid, known = text(update, "uuid").lower(), self.raw.get(self.UUID)
        if known is not None and str(known).lower() != uuid:
            raise UsageError(f"A {self.KIND} keeps its UUID: {known}.")
        if known is None:
            self.set(self.UUID, uuid)

    def _upgrade(self, update: Json) -> None:
        version = number(update, "format-version")
        if version not in self.FORMATS:
            raise UsageError(f"Version {version} of a {self.KIND} is not supported, only up to {self.FORMATS[-1]}.")
        if version < self.format:
            raise UsageError(f"A {self.KIND} of format {self.format} cannot go back to {version}.")
        if version > self.format:
            self.upgraded(version)

    def upgraded(self, version: int) -> None:
        self.set("format-version", version)

    def _add_schema(self, update: Json) -> None:
        schema = update["schema"]
        check_schema(schema, self.schema_format)
        known = self.listed("schemas")
        same = next((each for each in known if _same_schema(each, schema)), None)
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
        self.set("location", text(update, "location").rstrip("/"))

    def _set_properties(self, update: Json) -> None:
        properties = strings(update["updates"] if "updates" in update else update["updated"])
        self.set("properties", {**self.raw.get("properties", {}), **properties})

    def _remove_properties(self, update: Json) -> None:
        removals = update["removals"] if "removals" in update else update["removed"]
        gone = {name for name in removals if isinstance(name, str)}
        kept = {name: value for name, value in self.raw.get("properties", {}).items() if name not in gone}
        if "properties" in self.raw:
            self.set("properties", kept)


# reading what an update has


def text(given: Mapping[str, Any], name: str) -> str:
    found = given[name]
    if not isinstance(found, str) or not found:
        raise ValueError(f"`{name}` must be a string")
    return found


def number(given: Mapping[str, Any], name: str) -> int:
    found = given[name]
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"`{name}` must be a whole number")
    return found


def strings(given: Any) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError("the values of properties must be strings")
    return given


@dataclass(frozen=True)
class Known:
    """The fields that an object may have. What nobody has heard of is not stored half understood."""

    what: str
    names: frozenset[str]

    def check(self, given: Json) -> Json:
        if unknown := sorted(given.keys() - self.names):
            raise UsageError(f"{self.what} with `{'`, `'.join(unknown)}` is not supported; nothing was changed.")
        return given


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


# schemas


def check_schema(schema: Json, version: int) -> None:
    """UsageError, if it is none that a table of this format can have."""
    try:
        found = list(fields(schema))
        names = [field.name for field in found]
        ids = [field.id for field in found]
        for each in schema["fields"]:
            _check_type(each["type"], version)
            text(each, "name")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"The schema cannot be read: {_reason(error)}.") from error
    if not all(isinstance(id_, int) for id_ in ids) or len(set(ids)) < len(ids):
        raise UsageError("The fields of a schema need ids, and no two may be equal.")
    if len(set(names)) < len(names):
        raise UsageError("No two fields of a schema may have the same name.")
    if strange := set(schema.get("identifier-field-ids") or ()) - set(ids):
        raise UsageError(f"The identifier field {min(strange)} is not in the schema.")
    if version < 3 and any(each.get("initial-default") is not None for each in _all_fields(schema)):
        raise UsageError("Defaults for existing rows need a table of format 3.")


def _check_type(type_: Any, version: int) -> None:
    if isinstance(type_, dict):
        if type_["type"] not in _NESTED:
            raise ValueError(f"{type_['type']!r} is not a type")
        inner = [field["type"] for field in type_.get("fields", ())]
        for part in (*inner, *(type_[name] for name in ("element", "key", "value") if name in type_)):
            _check_type(part, version)
        return
    base = str(type_).partition("(")[0].partition("[")[0].strip()
    if base in _OF_FORMAT_3:
        if version < 3:
            raise ValueError(f"the type {type_} needs a table of format 3")
    elif base not in _PRIMITIVES:
        raise ValueError(f"{type_!r} is not a type")


def _all_fields(type_: Any) -> list[Json]:
    if not isinstance(type_, dict):
        return []
    own: list[Json] = type_.get("fields", [])
    inner = [field["type"] for field in own] + [type_.get(part) for part in ("element", "key", "value")]
    return own + [field for each in inner for field in _all_fields(each)]


def highest_id(schema: Json) -> int:
    return max((field.id for field in fields(schema)), default=0)


def _same_schema(one: Json, other: Json) -> bool:
    ids = [set(each.get("identifier-field-ids") or ()) for each in (one, other)]
    return plain(one["fields"]) == plain(other["fields"]) and ids[0] == ids[1]


def plain(value: Any) -> Any:
    """Without what is null: some leave it out, and others write it down."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items() if each is not None}
    return [plain(each) for each in value] if isinstance(value, list) else value
