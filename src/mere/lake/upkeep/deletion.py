"""Deletes a lake: its catalog first, so that it is nobody's, then its files, and last the note that says so.

The note has the lake's id and is written before anything goes. So what a kill leaves is known for the rest of a lake
that was to be deleted, and not for one that has lost its catalog: doing it again does the rest.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

from mere.config import S3Settings, is_s3
from mere.errors import CatalogLost, LakeError, LakeMoved, LakeNotFound, LeaseHeld
from mere.lake import faults
from mere.lake.log.commits import Space
from mere.lake.log.refs import RefKind
from mere.lake.log.runs import shown
from mere.lake.place import mainfile
from mere.lake.place.places import DATABASE, DELETION, MARKER, WAREHOUSE, open_store, open_store_here, owner
from mere.lake.storage import storage_at
from mere.lake.storage.port import Storage, StoredFile, local_path, place, readable
from mere.lake.store.health import PROBE
from mere.lake.store.port import Store
from mere.lake.upkeep.leavings import Policy, find_leavings
from mere.names import TableName

_BATCH = 1000
_NAMED = 5
_NOW = timedelta(0)
# Beside the warehouse; a draft of the database is what a kill left of making it.
_BESIDE = re.compile(
    rf"{re.escape(MARKER)}|{re.escape(mainfile.NAME)}(\.[0-9a-f]{{8}})?"
    rf"|\.?{re.escape(DATABASE)}(-wal|-shm|-journal|\.[0-9a-f]{{8}}(-journal)?)?"
)
# In it: the files of tables, each in a folder of its own; Hadoop's readers put a sum of each beside it.
_OF_TABLES = re.compile(
    rf"{WAREHOUSE}/(.+/(metadata|data)/.*[^/]\.(parquet|avro|orc|puffin|stats|metadata\.json|metadata\.json\.gz)(\.crc)?"
    rf"|\.mere-[0-9a-f]{{16}}|{PROBE}/[0-9a-f]+/probe)"
)


@dataclass(frozen=True)
class Removal:
    """What goes with a lake."""

    location: str
    catalog: str | None  # the database in which its catalog is, without a password; None: a file of the lake
    tables: tuple[TableName, ...]  # and views, of all branches
    refs: tuple[str, ...]  # branches and tags
    files: int
    size: int  # of these, in bytes
    resumed: bool  # the catalog is gone already


class Deletion:
    """A lake that can be deleted: all that could be against it was looked at. Close it."""

    def __init__(self, location: str, storage: Storage, lake_id: str, store: Store | None) -> None:
        self._location = location
        self._storage = storage
        self._lake_id = lake_id
        self._store = store
        self.removal = self._survey()

    @classmethod
    def prepare(
        cls, path: str | os.PathLike[str], *, catalog: str | None = None, s3: S3Settings | None = None
    ) -> Deletion:
        location = place(path)
        storage = storage_at(location, s3)
        noted = _noted(storage, location)
        store = _store(location, storage, catalog, noted)
        lake_id = store.lake_id if store else noted
        assert lake_id
        try:
            _require_owned(storage, location, lake_id)
            if store:
                _require_idle(store)
            _require_nothing_else(storage, location)
            return cls(location, storage, lake_id, store)
        except BaseException:
            if store:
                store.close()
            raise

    def close(self) -> None:
        if self._store:
            self._store.close()

    def carry_out(self) -> None:
        storage, location = self._storage, self._location
        if _noted(storage, location) is None:
            storage.write_new(f"{location}/{DELETION}", json.dumps({"lake_id": self._lake_id}).encode())
        faults.point("delete.noted")
        if self._store and (held := self._store.destroy()):
            storage.delete(f"{location}/{DELETION}")
            raise _busy(shown(held[0].holder))
        faults.point("delete.catalog")
        own = (file.location for file in _files(storage, location) if _is_own(file, location))
        rest = (each for each in own if each != f"{location}/{MARKER}")
        while batch := tuple(islice(rest, _BATCH)):
            storage.delete(*batch)
            faults.point("delete.files")
        storage.delete(f"{location}/{MARKER}")
        faults.point("delete.marker")
        storage.delete(f"{location}/{DELETION}")
        if not is_s3(location):
            _remove_folders(local_path(location))

    def _survey(self) -> Removal:
        size = files = 0
        for file in _files(self._storage, self._location):
            files += 1
            size += file.size
        refs = self._store.refs() if self._store else []
        heads = self._store.heads([ref.name for ref in refs]) if self._store else {}
        tables = {
            TableName(key.namespace, key.name)
            for head in heads.values()
            for key in head.entries
            if key.space is Space.RELATION
        }
        named = sorted(ref.name for ref in refs if ref.kind in (RefKind.BRANCH, RefKind.TAG))
        catalog = self._store.database() if self._store else None
        return Removal(self._location, catalog, tuple(sorted(tables)), tuple(named), files, size, self._store is None)


def _store(location: str, storage: Storage, catalog: str | None, noted: str | None) -> Store | None:
    """None: it is gone already. Another lake may have been made in its database since."""
    try:
        store = open_store_here(location, storage, catalog)
    except (LakeNotFound, CatalogLost):
        if noted is None:
            raise
        return None
    except LakeMoved:
        if noted is None:
            raise
        with closing(open_store(location, storage, catalog)) as found:
            if found.lake_id == noted:
                raise
        return None
    if noted in (None, store.lake_id):
        return store
    store.close()
    return None


def _noted(storage: Storage, location: str) -> str | None:
    """The id of the lake that is being deleted here."""
    note = f"{location}/{DELETION}"
    if not storage.exists(note):
        return None
    with readable(note):
        return str(json.loads(storage.read(note))["lake_id"])


def _require_owned(storage: Storage, location: str, lake_id: str) -> None:
    found = owner(storage, location)
    if found not in (None, lake_id):
        raise LakeError(
            f"{location} belongs to another lake ({found[:10]}), by its {MARKER}, and not to the one that is to be"
            f" deleted ({lake_id[:10]}). Nothing was changed.",
            remedy="Name the catalog that belongs to it.",
        )


def _require_idle(store: Store) -> None:
    if live := find_leavings(store, Policy(store.now(), _NOW, _NOW, None)).live:
        raise _busy(live[0].who)


def _busy(who: str) -> LeaseHeld:
    end = f", or end it: mere runs end {who.removeprefix('run ')}" if who.startswith("run ") else ""
    return LeaseHeld(
        f"{who} is writing to the lake. Nothing was changed.",
        remedy=f"Wait for it to finish{end}. Then delete the lake.",
    )


def _require_nothing_else(storage: Storage, location: str) -> None:
    others = [file.location for file in _files(storage, location) if not _is_own(file, location)]
    if not is_s3(location):
        others += _links(local_path(location))
    if others:
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        raise LakeError(
            f"{location} holds what is not the lake's: {', '.join(sorted(others)[:_NAMED])}{more}."
            " Nothing was changed.",
            remedy="Move it elsewhere, or delete it; then delete the lake.",
        )


def _files(storage: Storage, location: str) -> Iterator[StoredFile]:
    """All but the note."""
    return (file for file in storage.files(location) if file.location != f"{location}/{DELETION}")


def _is_own(file: StoredFile, location: str) -> bool:
    name = file.location.removeprefix(f"{location}/")
    return bool(_BESIDE.fullmatch(name) or _OF_TABLES.fullmatch(name))


def _links(root: Path) -> list[str]:
    """They lead to what is somebody else's, and no walk goes through them."""
    found = [root] if root.is_symlink() else []
    for parent, folders, files in os.walk(root):
        found += [path for name in (*folders, *files) if (path := Path(parent, name)).is_symlink()]
    return [str(path) for path in found]


def _remove_folders(root: Path) -> None:
    """Those that are empty: what came in meanwhile stays."""
    for parent, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):
            Path(parent).rmdir()
