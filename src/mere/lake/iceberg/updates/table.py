"""Updates that only tables have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mere.errors import LakeConflict, UsageError
from mere.lake.iceberg.metadata import Json
from mere.lake.iceberg.schema import fields
from mere.lake.iceberg.updates.draft import Draft
from mere.lake.iceberg.updates.requirements import refs
from mere.lake.iceberg.updates.schemas import plain

MAIN = "main"
TOLERANCE_MS = 60_000  # Iceberg's own
MOST_ROWS = 10**15  # that a snapshot adds: all numbers of rows are below 2**63
FIRST_PARTITION_ID = 1000
_NONE = -1
_KEPT = "write.metadata.previous-versions-max"
_KEPT_UNSAID = 100
_DEFAULT_FORMAT = 2


def empty(version: int = _DEFAULT_FORMAT) -> Json:
    """What a new table is made of, by updates."""
    raw: Json = {"format-version": version, "last-column-id": 0, "last-partition-id": FIRST_PARTITION_ID - 1}
    raw |= {"last-sequence-number": 0, "current-snapshot-id": None, "schemas": [], "partition-specs": []}
    raw |= {"sort-orders": [], "properties": {}, "snapshots": [], "snapshot-log": [], "metadata-log": [], "refs": {}}
    return raw | ({"next-row-id": 0} if version >= 3 else {})


class TableDraft(Draft):
    def __init__(self, raw: Json, now_ms: int) -> None:
        super().__init__(_in_full(raw), now_ms)
        self._before_ms = int(raw.get("last-updated-ms", 0))
        self._new_snapshots: set[int] = set()
        self._passed: list[int] = []  # snapshots at which the table's main branch was for a while
        self._removes = False

    def more_actions(self) -> Mapping[str, Callable[[Json], None]]:
        return {
            "set-current-schema": self._set_schema,
            "add-spec": self._add_spec,
            "set-default-spec": self._set_spec,
            "add-sort-order": self._add_order,
            "set-default-sort-order": self._set_order,
            "add-snapshot": self._add_snapshot,
            "set-snapshot-ref": self._set_ref,
            "remove-snapshots": self._remove_snapshots,
            "remove-snapshot-ref": lambda update: self._remove_ref(update["ref-name"]),
            "set-statistics": lambda update: self._set_statistics("statistics", update["statistics"]),
            "remove-statistics": lambda update: self._without("statistics", update["snapshot-id"]),
            "set-partition-statistics": lambda update: self._set_statistics(
                "partition-statistics", update["partition-statistics"]
            ),
            "remove-partition-statistics": lambda update: self._without("partition-statistics", update["snapshot-id"]),
            "remove-partition-specs": self._remove_specs,
            "remove-schemas": self._remove_schemas,
        }

    def finished(self, location: str | None) -> Json:
        """The whole; `location`: of the metadata file from which it goes on."""
        self._check()
        if self._removes or len(self._passed) > 1:
            self._mend_log()
        if self.raw.get("last-updated-ms", 0) <= self._before_ms:
            self.raw["last-updated-ms"] = max(self.now_ms, self._before_ms)
        if location is not None:
            log = [*self.listed("metadata-log"), {"timestamp-ms": self._before_ms, "metadata-file": location}]
            self.raw["metadata-log"] = log[-_kept(self.raw.get("properties", {})) :]
        if self.format == 1:  # where older readers look
            self.raw["schema"] = _by(self.listed("schemas"), "schema-id", self.raw["current-schema-id"])
            spec = _by(self.listed("partition-specs"), "spec-id", self.raw["default-spec-id"])
            self.raw["partition-spec"] = (spec or {}).get("fields", [])
        return self.raw

    def _check(self) -> None:
        """A table can be read only with all of these."""
        schema = _by(self.listed("schemas"), "schema-id", self.raw.get("current-schema-id"))
        spec = _by(self.listed("partition-specs"), "spec-id", self.raw.get("default-spec-id"))
        order = _by(self.listed("sort-orders"), "order-id", self.raw.get("default-sort-order-id"))
        if schema is None or spec is None or order is None or not self.raw.get("location"):
            raise UsageError("A table needs a location, a current schema, a default partitioning and a sort order.")
        columns = {field.id: field.name for field in fields(schema)}
        parts = [each for each in spec["fields"] if each["transform"] != "void"]
        for what, each in [("partitioned", each) for each in parts] + [("sorted", each) for each in order["fields"]]:
            if strange := set(_sources(each)) - columns.keys():
                raise UsageError(f"The table is {what} by column {min(strange)}, which is not in its schema.")

    # columns, partitioning, order

    def upgraded(self, version: int) -> None:
        super().upgraded(version)
        if version >= 2:
            self.raw.pop("schema", None)
            self.raw.pop("partition-spec", None)
            self.raw.setdefault("last-sequence-number", 0)
        if version >= 3:
            self.raw.setdefault("next-row-id", 0)

    def schema_added(self, highest: int) -> None:
        self.set("last-column-id", max(int(self.raw["last-column-id"]), highest))

    def _set_schema(self, update: Json) -> None:
        self._choose("schema", "schemas", "schema-id", "current-schema-id", update["schema-id"])

    def _choose(self, kind: str, among: str, key: str, current: str, id_: int) -> None:
        id_ = self.last(kind, id_)
        if _by(self.listed(among), key, id_) is None:
            raise UsageError(f"There is no {kind} {id_}.")
        self.set(current, id_)

    def _add_spec(self, update: Json) -> None:
        spec = update["spec"]
        parts = [_part(each) for each in spec["fields"]]
        known = self.listed("partition-specs")
        same = next((each for each in known if _alike(each["fields"], parts)), None)
        if same is not None:
            self.added("partitioning", same["spec-id"])
            return
        ids = {_meaning(each)[:2]: each["field-id"] for spec in known for each in spec["fields"] if "field-id" in each}
        last = int(self.raw["last-partition-id"])
        for each in parts:
            if each.get("field-id") is None:
                each["field-id"] = ids.get(_meaning(each)[:2]) or last + 1
            last = max(last, int(each["field-id"]))
        if len({each["field-id"] for each in parts}) < len(parts) or len({each["name"] for each in parts}) < len(parts):
            raise UsageError("No two fields of a partitioning may have the same name or id.")
        id_ = max((each["spec-id"] for each in known), default=-1) + 1
        self.append("partition-specs", {**spec, "spec-id": id_, "fields": parts})
        self.set("last-partition-id", last)
        self.added("partitioning", id_)

    def _set_spec(self, update: Json) -> None:
        self._choose("partitioning", "partition-specs", "spec-id", "default-spec-id", update["spec-id"])

    def _add_order(self, update: Json) -> None:
        order = update["sort-order"]
        for each in order["fields"]:
            _sources(each)
        known = self.listed("sort-orders")
        same = next((each for each in known if plain(each["fields"]) == plain(order["fields"])), None)
        if same is not None:
            self.added("sort order", same["order-id"])
            return
        id_ = max((each["order-id"] for each in known), default=0) + 1 if order["fields"] else 0
        self.append("sort-orders", {**order, "order-id": id_})
        self.added("sort order", id_)

    def _set_order(self, update: Json) -> None:
        self._choose("sort order", "sort-orders", "order-id", "default-sort-order-id", update["sort-order-id"])

    def _remove_specs(self, update: Json) -> None:
        self._remove("partition-specs", "spec-id", set(update["spec-ids"]), self.raw["default-spec-id"])

    def _remove_schemas(self, update: Json) -> None:
        self._remove("schemas", "schema-id", set(update["schema-ids"]), self.raw["current-schema-id"])

    def _remove(self, among: str, key: str, ids: set[int], current: int) -> None:
        if current in ids:
            raise UsageError(f"The {key} {current} is in use.")
        self.set(among, [each for each in self.listed(among) if each[key] not in ids])

    # snapshots

    def _add_snapshot(self, update: Json) -> None:
        snapshot = {name: value for name, value in update["snapshot"].items() if value is not None}
        id_, at = snapshot["snapshot-id"], snapshot["timestamp-ms"]
        if _by(self.listed("snapshots"), "snapshot-id", id_) is not None:
            raise LakeConflict(f"Snapshot {id_} already exists.")
        if at < self.raw.get("last-updated-ms", at) - TOLERANCE_MS:
            raise UsageError(
                f"Snapshot {id_} is older than the last one of the table: set the clock of the machine that wrote it."
            )
        if at > self.now_ms + TOLERANCE_MS:  # nobody whose clock is right could add another one until then
            raise UsageError(f"Snapshot {id_} is in the future: set the clock of the machine that wrote it.")
        if self.format > 1:
            last, sequence = int(self.raw.get("last-sequence-number", 0)), snapshot["sequence-number"]
            if sequence <= last and snapshot.get("parent-snapshot-id") is not None:
                raise LakeConflict(f"Snapshot {id_} has the sequence number {sequence}, and the table is at {last}.")
            if sequence > last + 1:  # with a leap to the end of the numbers there would be none for the next
                raise UsageError(f"Snapshot {id_} has the sequence number {sequence}, and the next one is {last + 1}.")
            self.set("last-sequence-number", max(last, sequence))
        if self.format > 2:
            first, rows, next_ = snapshot["first-row-id"], snapshot["added-rows"], self.raw["next-row-id"]
            if first < next_:
                raise LakeConflict(f"Snapshot {id_} begins at row {first}: the table is at {next_}.")
            if rows > MOST_ROWS:
                raise UsageError(f"Snapshot {id_} adds {rows} rows, more than a table can number.")
            self.set("next-row-id", next_ + rows)
        self.append("snapshots", snapshot)
        self.raw["last-updated-ms"] = at
        self._new_snapshots.add(id_)

    def _set_ref(self, update: Json) -> None:
        name, id_ = update["ref-name"], update["snapshot-id"]
        ref = {key: value for key, value in update.items() if key not in ("action", "ref-name") and value is not None}
        if name == MAIN and ref["type"] != "branch":
            raise ValueError(f"{name} cannot be a {ref['type']}")
        if ref["type"] == "tag" and ref.keys() & {"max-snapshot-age-ms", "min-snapshots-to-keep"}:
            raise ValueError("a tag has one snapshot, and keeps no older ones")
        known = self.raw["refs"]
        if known.get(name) == ref:
            return
        snapshot = _by(self.listed("snapshots"), "snapshot-id", id_)
        if snapshot is None:
            raise UsageError(f"There is no snapshot {id_} for {name} to point to.")
        self.set("refs", {**known, name: ref})
        if name == MAIN:
            at = snapshot["timestamp-ms"] if id_ in self._new_snapshots else self.now_ms
            self.raw["last-updated-ms"] = max(at, self._before_ms)
            self.set("current-snapshot-id", id_)
            self.append("snapshot-log", {"timestamp-ms": self.raw["last-updated-ms"], "snapshot-id": id_})
            self._passed.append(id_)

    def _remove_ref(self, name: str) -> None:
        self.set("refs", {each: ref for each, ref in self.raw["refs"].items() if each != name})
        if name == MAIN:
            self.set("current-snapshot-id", None if self.format > 2 else _NONE)

    def _remove_snapshots(self, update: Json) -> None:
        gone = set(update["snapshot-ids"])
        self.set("snapshots", [each for each in self.listed("snapshots") if each["snapshot-id"] not in gone])
        for name, ref in list(self.raw["refs"].items()):
            if ref["snapshot-id"] in gone:
                self._remove_ref(name)
        for id_ in gone:
            self._without("statistics", id_)
            self._without("partition-statistics", id_)
        self._removes = True

    def _mend_log(self) -> None:
        """The log leads from one snapshot that was current to the next: it begins after the last that is gone, and what
        was current within this request alone is not in it."""
        there = {each["snapshot-id"] for each in self.listed("snapshots")}
        passed = (set(self._passed) & self._new_snapshots) - {self.raw["current-snapshot-id"]}
        log: list[Json] = []
        for each in self.listed("snapshot-log"):
            if each["snapshot-id"] not in there:
                log = []
            elif each["snapshot-id"] not in passed:
                log.append(each)
        self.raw["snapshot-log"] = log

    def _set_statistics(self, kind: str, given: Json) -> None:
        id_ = given["snapshot-id"]
        self.set(kind, [*(each for each in self.listed(kind) if each["snapshot-id"] != id_), given])

    def _without(self, kind: str, snapshot: int) -> None:
        if any(each["snapshot-id"] == snapshot for each in self.listed(kind)):
            self.set(kind, [each for each in self.listed(kind) if each["snapshot-id"] != snapshot])


def _in_full(raw: Json) -> Json:
    """Metadata in the form that it has today, where it is of before that."""
    raw = {**raw, "refs": refs(raw)}
    if "schemas" not in raw and "schema" in raw:
        schema = {"schema-id": 0, **raw["schema"]}
        raw |= {"schemas": [schema], "current-schema-id": schema["schema-id"]}
    if "partition-specs" not in raw:
        raw |= {"partition-specs": [{"spec-id": 0, "fields": raw.get("partition-spec", [])}], "default-spec-id": 0}
    if "sort-orders" not in raw:
        raw |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}
    if "last-partition-id" not in raw:
        ids = [each.get("field-id", 0) for spec in raw["partition-specs"] for each in spec["fields"]]
        raw["last-partition-id"] = max(ids, default=FIRST_PARTITION_ID - 1)
    return raw


def _kept(properties: Mapping[str, str]) -> int:
    """How many older metadata files are remembered."""
    given = properties.get(_KEPT, "")
    return max(1, int(given)) if given.isascii() and given.isdigit() else _KEPT_UNSAID


def _by(items: list[Json], key: str, id_: Any) -> Json | None:
    return next((each for each in items if each[key] == id_), None)


def _part(field: Json) -> Json:
    """A field of a partitioning, in a form to which an id can be given."""
    _sources(field)
    return dict(field)


def _sources(field: Json) -> tuple[int, ...]:
    found = field.get("source-ids") or [field["source-id"]]
    if None in found:
        raise ValueError("`source-id` must be a whole number")
    return tuple(found)


def _meaning(field: Json) -> tuple[tuple[int, ...], str, str]:
    return _sources(field), field["transform"], field["name"]


def _alike(one: list[Json], other: list[Json]) -> bool:
    return [_meaning(each) for each in one] == [_meaning(each) for each in other]
