"""The branch that a request writes to: what is there now, and the new metadata files."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from mere.errors import (
    LakeError,
    LakeUnreadable,
    MetadataMissing,
    NamespaceNotFound,
    TableExists,
    Unguarded,
)
from mere.lake import faults
from mere.lake.iceberg.files import Reach, brought
from mere.lake.iceberg.metadata import Json, Metadata, MetadataReader, growth
from mere.lake.iceberg.properties import ORIGIN
from mere.lake.iceberg.updates import requirements
from mere.lake.iceberg.updates.draft import check_updates
from mere.lake.iceberg.updates.table import TableDraft, empty
from mere.lake.iceberg.updates.view import ViewDraft
from mere.lake.log.commits import Change, Entries, Entry, Key, Kind, Space
from mere.lake.place import folders
from mere.lake.refs.guards import ELSEWHERE, PROPERTIES, Guard
from mere.lake.refs.properties import refuse_unguarded
from mere.lake.storage.several import side_by_side
from mere.names import TableName, check_new_table
from mere.serve.http.errors import bad_request
from mere.serve.iceberg.call import Call
from mere.serve.iceberg.warehouse import EXISTS, missing

_WORDS = {Kind.TABLE: "Table", Kind.VIEW: "View"}


@dataclass(frozen=True)
class Unwritten:
    """A change whose metadata is in no file yet."""

    table: TableName
    kind: Kind
    before: Metadata | None
    after: Metadata

    @property
    def change(self) -> Change:
        old = Entry(self.kind, self.before.location) if self.before else None
        stats = growth(self.before, self.after)
        return Change(Key.of(self.table), old, Entry(self.kind, self.after.location), stats)


class Target:
    def __init__(self, call: Call, *written: str | TableName) -> None:
        self.ref = call.warehouse.branch(*written)
        self._call = call
        self._lake = call.lake
        self._store = call.lake.store

    # what stands

    def standing(self, *tables: TableName) -> Entries:
        return self._store.standing(self.ref.name, [Key.of(table) for table in tables])

    def entry(self, table: TableName, kind: Kind) -> Entry:
        found = self.standing(table).get(Key.of(table))
        if found is None or found.kind is not kind:
            raise missing(table, kind)
        if kind is Kind.TABLE:
            self._call.access.check_files(table)
        return found

    def metadata(self, entry: Entry) -> Metadata:
        return Metadata(entry.value, orjson.loads(self._call.files.content(entry.value)))

    def require_namespace(self, namespace: str) -> Mapping[Key, Entry | None]:
        """It is there. What has to stay as it is for that, where one row says so."""
        key = Key(Space.PROPERTY, namespace, EXISTS)
        found = self._store.standing(self.ref.name, [key]).get(key)
        if found is not None:
            return {key: found}
        if namespace not in self._call.warehouse.tables.namespaces:
            raise NamespaceNotFound(f"Namespace does not exist: {namespace}")
        return {}

    def require_free(self, table: TableName, kind: Kind) -> None:
        check_new_table(table)
        if found := self.standing(table).get(Key.of(table)):
            same = "" if found.kind is kind else "with same name "
            raise TableExists(f"{_WORDS[found.kind]} {same}already exists: {table}")

    # what is to stand

    def folder(self, table: TableName, asked: object = None) -> str:
        """Where the files of a new table go: the server says, and has said so where the table was staged."""
        if isinstance(asked, str) and folders.is_fresh(asked, self._lake.warehouse, table):
            return asked
        return folders.fresh(self._lake.warehouse, table)

    def created(self, table: TableName, kind: Kind, raw: Json) -> Change:
        """The change by which this metadata stands there, in a file."""
        (change,) = self._written([self._new(table, kind, raw)])
        return change

    def _new(self, table: TableName, kind: Kind, raw: Json) -> Unwritten:
        location = f"{raw['location']}/metadata/00000-{uuid.uuid4()}.metadata.json"
        return self._unwritten(table, kind, None, Metadata(location, raw))

    def changed(self, kind: Kind, asked: Mapping[TableName, Json]) -> list[Change]:
        """What a client asks for, if what it takes for granted is so, with all metadata in files. What is so already
        is left out."""
        for request in asked.values():
            check_updates(_objects(request, "updates"))
        stand = self._stand(list(asked), kind)
        if _have_happened(asked, stand):
            return []
        found = [self._asked(table, kind, request, stand.get(table)) for table, request in asked.items()]
        return self._written([each for each in found if each is not None])

    def _stand(self, tables: Sequence[TableName], kind: Kind) -> dict[TableName, Metadata]:
        """The metadata of those that are there."""
        entries = self.standing(*tables)
        there = [table for table in tables if (entry := entries.get(Key.of(table))) and entry.kind is kind]
        if kind is Kind.TABLE:
            for table in there:
                self._call.access.check_files(table)
        return dict(zip(there, side_by_side(lambda table: self.metadata(entries[Key.of(table)]), there), strict=True))

    def _asked(self, table: TableName, kind: Kind, request: Json, before: Metadata | None) -> Unwritten | None:
        updates, required = _objects(request, "updates"), _objects(request, "requirements")
        if before is None:
            if kind is Kind.TABLE and any(each.get("type") == requirements.CREATES for each in required):
                return self._staged(table, updates, required)
            raise missing(table, kind)
        if _happened(before.raw, updates):
            return None
        requirements.check(str(table), before.raw, required)
        if kind is Kind.VIEW:
            self.check_view(table)
            updates = [self.following(each) for each in updates]
        draft = (TableDraft if kind is Kind.TABLE else ViewDraft)(before.raw, now_ms())
        if kind is Kind.TABLE:
            updates = _in_place(updates)
            self._check_updates(table, updates, before.folder)
        draft.apply(updates)
        if not draft.changed:
            return None
        if kind is Kind.TABLE:
            draft.apply(_guards(draft.raw))
        raw = draft.finished(before.location) if isinstance(draft, TableDraft) else draft.finished()
        return self._unwritten(table, kind, before, before.successor(raw))

    def following(self, given: Json) -> Json:
        """What makes a view, without the catalog as which Trino has the ref: a view follows the ref that it is on."""
        version = given.get("view-version")
        if self._call.trino is None or not isinstance(version, dict):
            return given
        if version.get("default-catalog") != self._call.trino:
            return given
        return {**given, "view-version": {name: each for name, each in version.items() if name != "default-catalog"}}

    def _staged(self, table: TableName, updates: list[Json], required: list[Json]) -> Unwritten:
        self.require_free(table, Kind.TABLE)
        self.require_namespace(table.namespace)
        requirements.check(str(table), None, required)
        asked = next((each.get("location") for each in updates if each.get("action") == "set-location"), None)
        folder = self.folder(table, asked)
        updates = [each for each in updates if each.get("action") != "set-location"]
        self._check_updates(table, updates, folder)
        draft = TableDraft(empty(1), now_ms())  # as everywhere, until an update says otherwise
        if all(each.get("action") != "upgrade-format-version" for each in updates):
            updates = [{"action": "upgrade-format-version", "format-version": 2}, *updates]
        draft.apply([*updates, {"action": "set-location", "location": folder}])
        draft.apply(_guards(draft.raw))
        folders.make(folder)
        return self._new(table, Kind.TABLE, draft.finished(None))

    def _check_updates(self, table: TableName, updates: Iterable[Json], folder: str | None) -> None:
        for each in updates:
            match each.get("action"):
                case "set-properties":
                    self.check_properties(table, each.get("updates") or each.get("updated"))
                case "remove-properties":
                    gone = each.get("removals") or each.get("removed") or []
                    refuse_unguarded({table: dict.fromkeys(gone)})
                case "set-location" if str(each.get("location")).rstrip("/") != (folder or "").rstrip("/"):
                    raise bad_request(f"{table} stays where it is, at {folder}: the lake chooses the folders.")
                case "remove-snapshots" | "remove-schemas" | "remove-partition-specs":
                    raise Unguarded(
                        f"{table} keeps its snapshots, schemas and partitionings, because of the guard gc.enabled:"
                        " models may need them to continue. Nothing was changed.",
                        remedy="Leave them; mere gc deletes what nobody needs.",
                    )
                case "add-snapshot":
                    self._check_inside(each["snapshot"]["manifest-list"], table, folder)
                case "set-statistics":
                    self._check_inside(each["statistics"]["statistics-path"], table, folder)
                case "set-partition-statistics":
                    self._check_inside(each["partition-statistics"]["statistics-path"], table, folder)

    def _check_inside(self, location: str, table: TableName, folder: str | None) -> None:
        what, around = self._around(table, folder)
        if not folders.is_inside(location, around):
            raise bad_request(f"{location[:500]} is not in {what}, {around}.")

    def require_new_name(self, source: TableName, destination: TableName) -> None:
        if found := self.standing(destination).get(Key.of(destination)):
            raise TableExists(f"Cannot rename {source} to {destination}. {_WORDS[found.kind]} already exists")

    def check_properties(self, table: TableName, properties: object) -> None:
        if not isinstance(properties, dict):
            raise bad_request("Properties must be an object with strings as values.")
        refuse_unguarded({table: {name: value for name, value in properties.items() if name in PROPERTIES}})
        if elsewhere := sorted(set(ELSEWHERE) & properties.keys()):
            raise Unguarded(f"{elsewhere[0]} would put files of {table} where the lake does not look after them.")
        if ORIGIN in properties and properties[ORIGIN] != self._origin(table):  # the server reads files there
            raise Unguarded(f"{ORIGIN} says where an adopted table was, and is left to mere adopt.")

    def _origin(self, table: TableName) -> str | None:
        entry = self.standing(table).get(Key.of(table))
        return self.metadata(entry).properties.get(ORIGIN) if entry is not None and entry.kind is Kind.TABLE else None

    def check_view(self, view: TableName) -> None:
        self._call.access.check_view(self.ref.name, view.namespace, view.name)

    def found(self, kind: Kind, location: object) -> Entry:
        """The entry for metadata that is there already: in the warehouse, guarded, and with all of its files, which the
        sweep may have begun to delete."""
        warehouse = self._lake.warehouse
        if not isinstance(location, str) or not folders.is_inside(location, warehouse):
            raise bad_request(
                f"{str(location)[:500]} is not in the lake's warehouse. To take over a table from elsewhere: mere adopt"
            )
        metadata = MetadataReader(self._lake.storage).read(location)
        if metadata.is_view is (kind is Kind.TABLE) or not folders.is_inside(metadata.folder or "", warehouse):
            raise bad_request(f"{location} is not the metadata of a {kind} in the lake's warehouse.")
        if kind is Kind.TABLE and any(metadata.properties.get(name) != value for name, value in PROPERTIES.items()):
            raise bad_request(f"{location} belongs to a table without the guards of a lake: {', '.join(PROPERTIES)}.")
        self._check_whole(metadata)
        return Entry(kind, location)

    def _check_whole(self, metadata: Metadata) -> None:
        doomed = self._store.doomed()  # read first: a sweep that is going on deletes no other files
        reach = Reach(self._lake.storage)
        reach.add(metadata.location)
        if missing := sorted(file for file in reach if not self._lake.storage.exists(file)):
            raise bad_request(f"{metadata.folder} is incomplete: {missing[0]} is gone.")
        if waiting := sorted(file for file in reach if file in doomed):
            raise bad_request(f"mere gc has doomed {waiting[0]}, and may be deleting it.")
        foreign = sorted(file for file in reach if not folders.is_inside(file, self._lake.warehouse))
        if foreign and metadata.location not in self._store.pointers():
            raise bad_request(
                f"{foreign[0]} is not in the lake's warehouse. To take over a table from elsewhere: mere adopt"
            )

    def _unwritten(self, table: TableName, kind: Kind, before: Metadata | None, after: Metadata) -> Unwritten:
        names = {ref.name for ref in self._store.refs()} if kind is Kind.VIEW else set()
        names |= {self._call.trino} if self._call.trino else set()
        guard = Guard(self._lake.reader, self.ref.name, names, self.ref.name)
        return Unwritten(table, kind, before, guard.better(Key.of(table), kind, after) or after)

    def _written(self, asked: Sequence[Unwritten]) -> list[Change]:
        """Once all of them may stand, their files are written, side by side. What is refused leaves no file; where a
        write fails, the others leave files that nobody points to, for the sweep."""
        faults.point("rest.applied")
        side_by_side(self._check_brought, [each for each in asked if each.kind is Kind.TABLE])
        return side_by_side(self._write, asked)

    def _write(self, asked: Unwritten) -> Change:
        self._call.files.write(asked.after)
        faults.point("rest.written")
        return asked.change

    def _check_brought(self, asked: Unwritten) -> None:
        """The files of new snapshots must exist, in the lake: the server reads them with its own rights, for whoever
        may read this table, and mere gc must be able to follow them."""
        (what, around), storage = self._around(asked.table, asked.after.folder), self._lake.storage
        try:
            found = brought(storage, asked.before, asked.after)
            foreign = [file for file in found if not folders.is_inside(file, around)]
            if foreign and asked.before is not None:  # an adopted table has files elsewhere
                known = Reach(storage)
                known.add(asked.before.location)
                foreign = [file for file in foreign if file not in known]
            if self._call.access.role.reads_everything:  # as Iceberg's own tests do, a client may list what is nowhere
                foreign = [file for file in foreign if self._is_there(file)]
        except (LakeUnreadable, MetadataMissing) as error:
            message = f"The files of a new snapshot of {asked.table} cannot be read: {error.message}"
            raise bad_request(message) from error
        if foreign:
            raise bad_request(f"{foreign[0][:500]} is not in {what}, {around}.")

    def _is_there(self, file: str) -> bool:
        try:
            return self._lake.storage.exists(file)
        except (LakeError, OSError, ValueError):  # it is not where this lake keeps files
            return True

    def _around(self, table: TableName, folder: str | None) -> tuple[str, str]:
        """Whoever does not read everything must not add other tables' files to this one, to read them here."""
        if self._call.access.role.reads_everything:
            return "the lake's warehouse", self._lake.warehouse
        return f"the folder of {table}", folder or ""


def _have_happened(asked: Mapping[TableName, Json], stand: Mapping[TableName, Metadata]) -> bool:
    """Whether all of this was done before, in one commit: its snapshots stand, as far as it has made any."""
    sent = {table: updates for table, each in asked.items() if _snapshots(updates := _objects(each, "updates"))}
    return bool(sent) and all(table in stand and _happened(stand[table].raw, sent[table]) for table in sent)


def _snapshots(updates: Iterable[Json]) -> list[Any]:
    return [each.get("snapshot") for each in updates if each.get("action") == "add-snapshot"]


def _happened(raw: Json, updates: Iterable[Json]) -> bool:
    """Whether these updates were made before: a client whose answer got lost sends them again. Their snapshots tell."""
    sent = _snapshots(updates)
    known = {each["snapshot-id"]: each.get("manifest-list") for each in raw.get("snapshots") or ()}
    return bool(sent) and all(
        isinstance(each, dict) and each.get("snapshot-id") in known and _same(each, known) for each in sent
    )


def _same(snapshot: Json, known: Mapping[int, str | None]) -> bool:
    return snapshot.get("manifest-list") == known[snapshot["snapshot-id"]]


def _in_place(updates: list[Json]) -> list[Json]:
    """A table that comes in place of another is where that one was, whatever place was asked for."""
    replaces = any(each.get("action") in ("set-current-schema", "set-default-spec") for each in updates)
    return [each for each in updates if not (replaces and each.get("action") == "set-location")]


def _guards(raw: Json) -> list[Json]:
    properties = raw.get("properties", {})
    missing = {name: value for name, value in PROPERTIES.items() if properties.get(name) != value}
    return [{"action": "set-properties", "updates": missing}] if missing else []


def _objects(request: Json, name: str) -> list[Json]:
    found = request.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise bad_request(f"`{name}` must be a list of objects.")
    return found


def now_ms() -> int:
    return time.time_ns() // 1_000_000
