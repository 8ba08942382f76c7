"""Updates that only views have."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

from mere.errors import UsageError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.updates.draft import Draft, strings
from mere.lake.iceberg.updates.schemas import plain
from mere.lake.iceberg.updates.shapes import LAST

_KEPT = "version.history.num-entries"
_KEPT_UNSAID = 10
_DROPS = "replace.drop-dialect.allowed"


def empty() -> Json:
    return {"format-version": 1, "schemas": [], "versions": [], "version-log": [], "properties": {}}


def new(request: Json, location: str, now_ms: int) -> Json:
    try:
        version = {**request["view-version"], "schema-id": LAST}
        properties = strings(request.get("properties") or {})
        schema = request["schema"]
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(f"The request does not describe a view: {error!r}.") from error
    draft = ViewDraft(empty(), now_ms)
    draft.apply(
        [
            {"action": "assign-uuid", "uuid": str(uuid.uuid4())},
            {"action": "add-schema", "schema": schema},
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": LAST},
            {"action": "set-location", "location": location},
            {"action": "set-properties", "updates": properties},
        ]
    )
    return draft.finished()


class ViewDraft(Draft):
    KIND = "view"
    UUID = "view-uuid"
    FORMATS = range(1, 2)

    def __init__(self, raw: Json, now_ms: int) -> None:
        super().__init__(raw, now_ms)
        self._before = self._current()

    def more_actions(self) -> Mapping[str, Callable[[Json], None]]:
        return {"add-view-version": self._add_version, "set-current-view-version": self._set_version}

    @property
    def schema_format(self) -> int:
        return 3  # its columns are those of its tables

    def finished(self) -> Json:
        current = self._current()
        if current is None or not self.raw.get("location"):
            raise UsageError("A view needs a location and a current version.")
        self._refuse_fewer_dialects(current)
        kept = max(_number(self.raw["properties"]), 1) if "properties" in self.raw else _KEPT_UNSAID
        versions = self.listed("versions")
        older = [each for each in versions if each is not current]
        room = max(kept - 1, 0)
        self.raw["versions"] = [*older[len(older) - room :], current] if len(older) > room else versions
        there = {each["version-id"] for each in self.raw["versions"]}
        log: list[Json] = []
        for each in self.listed("version-log"):  # it begins after the last that is gone
            log = [*log, each] if each["version-id"] in there else []
        self.raw["version-log"] = log
        return self.raw

    def _current(self) -> Json | None:
        id_ = self.raw.get("current-version-id")
        return next((each for each in self.listed("versions") if each["version-id"] == id_), None)

    def _add_version(self, update: Json) -> None:
        given = update["view-version"]
        schema = self.last("schema", given["schema-id"])
        if all(each["schema-id"] != schema for each in self.listed("schemas")):
            raise UsageError(f"There is no schema {schema}.")
        representations = given["representations"]
        dialects = [each["dialect"].lower() for each in representations]
        if not dialects:
            raise UsageError("Invalid view version: Cannot add a version without SQL")
        if twice := [each for at, each in enumerate(dialects) if each in dialects[:at]]:
            raise UsageError(f"Invalid view version: Cannot add multiple queries for dialect {twice[0]}")
        if not isinstance(given.get("default-namespace"), list):
            raise ValueError("`default-namespace` must be a list")
        version = {**given, "schema-id": schema, "timestamp-ms": given.get("timestamp-ms") or self.now_ms}
        known = self.listed("versions")
        same = next((each for each in known if _meaning(each) == _meaning(version)), None)
        if same is not None:
            self.added("version", same["version-id"])
            return
        id_ = max((each["version-id"] for each in known), default=0) + 1
        self.append("versions", {**version, "version-id": id_})
        self.added("version", id_)

    def _set_version(self, update: Json) -> None:
        id_ = self.last("version", update["view-version-id"])
        version = next((each for each in self.listed("versions") if each["version-id"] == id_), None)
        if version is None:
            raise UsageError(f"There is no version {id_}.")
        if self.raw.get("current-version-id") != id_:
            is_new = self._added.get("version") == id_
            self.append(
                "version-log", {"timestamp-ms": version["timestamp-ms"] if is_new else self.now_ms, "version-id": id_}
            )
            self.set("current-version-id", id_)

    def _refuse_fewer_dialects(self, current: Json) -> None:
        if self._before is None or self.raw.get("properties", {}).get(_DROPS) == "true":
            return
        if lost := _dialects(self._before) - _dialects(current):
            raise UsageError(
                f"The new version leaves out the view's SQL in {', '.join(sorted(lost))}. Send it, too, or set the"
                f" view's property {_DROPS} to true."
            )


def _dialects(version: Json) -> set[str]:
    return {str(each["dialect"]).lower() for each in version["representations"]}


def _meaning(version: Json) -> Json:
    return {
        name: plain(each)
        for name, each in version.items()
        if name not in ("version-id", "timestamp-ms") and each is not None
    }


def _number(properties: Mapping[str, str]) -> int:
    given = properties.get(_KEPT, "")
    return int(given) if given.isascii() and given.isdigit() else _KEPT_UNSAID
