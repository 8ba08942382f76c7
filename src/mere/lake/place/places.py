"""Checks the place of a lake, and creates or opens its store.

One place has one lake, because the sweep deletes everything in a warehouse that its own catalog does not reach. A small
file next to the warehouse says which lake that is.
"""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress

from mere.config import default_author, is_s3
from mere.errors import (
    CatalogLost,
    LakeError,
    LakeMoved,
    LakeNotFound,
    LakeUnreadable,
    MetadataMissing,
    StorageDenied,
    UsageError,
)
from mere.lake.place import mainfile
from mere.lake.storage.port import Storage, folders_around, local_path, readable
from mere.lake.store.health import Database
from mere.lake.store.port import Store
from mere.lake.store.sqlite.store import SqliteStore

DATABASE = "catalog.db"
WAREHOUSE = "warehouse"
MARKER = "lake.json"
DELETION = "lake.deletion.json"  # a lake is being deleted here
FINISH = "Delete what is left of it: mere lake delete"
_BESIDE = ("-wal", "-shm")  # of the database, while somebody has it open or was killed


def create_store(location: str, storage: Storage, catalog: str | None) -> Store:
    """All that can be wrong with the place is found before there is a catalog that points to it."""
    if forbidden := sorted(set("?#%") & set(location)):
        raise UsageError(
            f"A lake cannot be at {location}: engines read {' '.join(forbidden)} in a path as something else.",
            remedy="Choose a place without ? # %.",
        )
    _require_catalog(location, catalog)
    _require_folder(location)
    _require_free(location, storage)
    if is_s3(location):
        from mere.lake.storage.s3 import require_conditional_writes

        require_conditional_writes(storage, f"{location}/{WAREHOUSE}")
    else:
        try:
            folder = local_path(location)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # whatever engines write in it, others do not reach
            (folder / WAREHOUSE).mkdir(exist_ok=True)
        except OSError as error:
            raise LakeUnreadable(f"No lake could be made at {location}: {error.strerror}.") from error
    store = _new_store(location, catalog)
    try:
        claim(storage, location, store.lake_id)
    except LakeError:
        store.close()
        raise
    return store


def _new_store(location: str, catalog: str | None) -> Store:
    if catalog is None:
        return SqliteStore.create(local_path(location) / DATABASE, location, default_author())
    from mere.lake.store.postgres.store import PostgresStore  # and psycopg with it

    return PostgresStore.create(catalog, location, default_author())


def open_store(location: str, storage: Storage, catalog: str | None) -> Store:
    """Whatever place its files are at."""
    _require_catalog(location, catalog)
    _require_folder(location)
    try:
        return _open_catalog(location, catalog)
    except (LakeNotFound, CatalogLost) as error:
        found = _stranded(error, location, storage, catalog)
        if found is None:
            raise
        raise found from error


def _open_catalog(location: str, catalog: str | None) -> Store:
    if catalog is None:
        return SqliteStore.open(local_path(location) / DATABASE)
    from mere.lake.store.postgres.store import PostgresStore

    return PostgresStore.open(catalog)


def database_of(store: Store) -> Database:
    """The database of an open store, to be examined."""
    if isinstance(store, SqliteStore):
        from mere.lake.store.sqlite.health import SqliteDatabase

        return SqliteDatabase(store.path)
    from mere.lake.store.postgres.health import PostgresDatabase
    from mere.lake.store.postgres.store import PostgresStore

    if isinstance(store, PostgresStore):
        return PostgresDatabase(store.address)
    raise LakeError("The catalog of this lake cannot be examined.")


def open_store_here(location: str, storage: Storage, catalog: str | None) -> Store:
    """The same, of a lake whose files are where its catalog says."""
    store = open_store(location, storage, catalog)
    try:
        if store.root != location:
            raise LakeMoved(
                f"This lake was made at {store.root} and is now at {location}. Iceberg keeps absolute paths, so its"
                " tables still point to the old place. Nothing was changed.",
                remedy=f"Move it back, or fix the paths with: mere relocate {location}",
            )
        # To open a lake on S3 asks no S3 server; the sweep, which alone could do harm, looks by itself.
        if not is_s3(location):
            _require_warehouse(location, store)
            require_own(storage, location, store.lake_id)
            _claim_if_possible(storage, location, store.lake_id)
    except LakeError:
        store.close()
        raise
    return store


def _require_folder(location: str) -> None:
    if not is_s3(location) and local_path(location).is_file():
        raise LakeUnreadable(
            f"{location} is a file, and a lake is a folder. Nothing was changed.",
            remedy=f"Name another folder after `lake:` in mere.yaml, or move the file: mv {_aside(location)}",
        )


def _require_warehouse(location: str, store: Store) -> None:
    """A disk that is not mounted must not look like tables that were lost one by one."""
    warehouse = f"{location}/{WAREHOUSE}"
    if not local_path(warehouse).is_dir() and store.pointers():
        raise LakeUnreadable(
            f"{warehouse} is gone, and with it the files of all tables in the catalog. Nothing was changed.",
            remedy="Mount its disk, or put the folder back from a backup. To keep what the catalog alone knows,"
            f" recreate it: mkdir {shlex.quote(warehouse)}",
        )


def _require_catalog(location: str, catalog: str | None) -> None:
    if is_s3(location) and catalog is None:
        raise UsageError(
            f"{location} needs a catalog: the refs and commits of a lake on S3 are kept in a Postgres database.",
            remedy="Write `catalog: postgresql://host/database` beside `lake:` in mere.yaml, or pass catalog=… .",
        )


# whose place it is


def owner(storage: Storage, location: str) -> str | None:
    """The id of the lake that has its files here. None: nobody, or a mere that did not write it down yet."""
    marker = f"{location}/{MARKER}"
    try:
        content = storage.read(marker)
    except MetadataMissing:
        return None
    try:
        with readable(marker):
            return str(json.loads(content)["lake_id"])
    except LakeUnreadable as error:
        raise LakeUnreadable(
            error.message,
            remedy=f"If no other lake has its files there, delete {marker}; mere writes it again.",
        ) from error


def require_own(storage: Storage, location: str, lake_id: str) -> None:
    found = owner(storage, location)
    if found not in (None, lake_id):
        raise LakeError(
            f"{location} belongs to another lake ({found[:10]}), by its {MARKER}; the catalog that was named is of lake"
            f" {lake_id[:10]}. Nothing was changed.",
            remedy="Name the catalog that belongs to it, or another place.",
        )


def claim(storage: Storage, location: str, lake_id: str) -> None:
    """Write down whose place it is, if that was not done yet; refuse if it is another lake's."""
    if owner(storage, location) is None:
        content = json.dumps({"lake_id": lake_id}).encode()
        try:
            storage.write_new(f"{location}/{MARKER}", content)
        except LakeUnreadable:
            if owner(storage, location) is None:
                raise
    require_own(storage, location, lake_id)


def _claim_if_possible(storage: Storage, location: str, lake_id: str) -> None:
    # A disk that is not mounted at this moment must not get a folder in its place.
    if os.access(f"{location}/{WAREHOUSE}", os.W_OK) and not storage.exists(f"{location}/{MARKER}"):
        with suppress(LakeUnreadable):  # whoever only reads need not write it down
            claim(storage, location, lake_id)


def disown(storage: Storage, location: str) -> None:
    """Before a copy becomes a lake of its own: what was copied with it names the original."""
    storage.delete(f"{location}/{MARKER}")


def _require_free(location: str, storage: Storage) -> None:
    if storage.exists(f"{location}/{DELETION}"):
        raise LakeError(f"The lake at {location} was deleted only in part.", remedy=FINISH)
    if _is_lake(location, storage):
        raise LakeError(f"There is already a lake at {location}.", remedy="Open it, or choose another place.")
    if outer := lake_around(location, storage):
        raise LakeError(
            f"{location} is in the warehouse of the lake at {outer}, whose sweep would delete it. No lake was made.",
            remedy="Choose a place outside of it.",
        )
    warehouse = f"{location}/{WAREHOUSE}"
    if found := next(iter(storage.files(warehouse)), None):
        raise LakeError(
            f"There are files in {warehouse}, such as {found.location}, and the sweep of a lake deletes all that it"
            " does not know. No lake was made.",
            remedy="Choose a place of its own. Iceberg tables come into a lake with: mere adopt",
        )


def _is_lake(location: str, storage: Storage) -> bool:
    made_before_markers = not is_s3(location) and storage.exists(f"{location}/{DATABASE}")
    return made_before_markers or owner(storage, location) is not None


def lake_around(location: str, storage: Storage) -> str | None:
    """The lake in whose warehouse this place is."""
    for outer in folders_around(location):
        with suppress(StorageDenied):  # keys may be for one prefix alone
            inside = f"{location}/".startswith(f"{outer}/{WAREHOUSE}/")
            if inside and (_is_lake(outer, storage) or storage.exists(f"{outer}/{mainfile.NAME}")):
                return outer
    return None


# when its catalog is gone


def _stranded(
    error: LakeNotFound | CatalogLost, location: str, storage: Storage, catalog: str | None
) -> CatalogLost | None:
    """The error, with what is left of the lake and the ways to go on; None where nothing is left."""
    if storage.exists(f"{location}/{DELETION}"):
        return CatalogLost(f"The lake at {location} was deleted only in part.", remedy=FINISH)
    marked = storage.exists(f"{location}/{MARKER}")
    found, has_tables = _left_in(storage, f"{location}/{WAREHOUSE}")
    if isinstance(error, LakeNotFound) and not (marked or found):
        return None
    if has_tables:
        left = f"The files of its tables are still there, in {location}/{WAREHOUSE}."
    else:
        left = f"{WAREHOUSE} has no table in it." if marked or found else ""
    untouched = "" if "Nothing was changed" in error.message else "Nothing was changed."
    ways = [_put_back(location, catalog)]
    if isinstance(error, LakeNotFound) and catalog is None:
        ways.append("If its catalog is in Postgres, write `catalog: postgresql://…` beside `lake:` in mere.yaml.")
    if has_tables:
        ways.append(_adopt_anew(location, catalog))
    else:
        ways.append(_make_anew(location))
    return CatalogLost(" ".join(filter(None, (error.message, left, untouched))), remedy="\n".join(ways))


def _left_in(storage: Storage, warehouse: str) -> tuple[bool, bool]:
    """Whether there are files at all, and among them metadata of tables."""
    found = False
    for file in storage.files(warehouse):
        found = True
        if ".metadata.json" in file.location:
            return True, True
    return found, False


def _put_back(location: str, catalog: str | None) -> str:
    if catalog is not None:
        return "Name the database that has its catalog after `catalog:` in mere.yaml, or restore it from a backup."
    beside = " and ".join(f"{DATABASE}{end}" for end in _BESIDE)
    return f"If there is a backup, put {location}/{DATABASE} back from it, after {beside} were removed."


def _adopt_anew(location: str, catalog: str | None) -> str:
    also = "" if catalog is None else ", and an empty database after `catalog:`"
    return (
        "If there is none, adopt its tables into a new lake, as main had them, without branches and history. Write"
        f" another place after `lake:` in mere.yaml{also}; then type:\n"
        f"  mere init\n  mere adopt {shlex.quote(f'{location}/{WAREHOUSE}')}"
    )


def _make_anew(location: str) -> str:
    """No table is lost, but what is there may be somebody else's: it is put aside and not deleted."""
    if is_s3(location):
        return "If there is none, write another place after `lake:` in mere.yaml; then type: mere init"
    return f"If there is none, put aside what is there, and make a new lake:\n  mv {_aside(location)}\n  mere init"


def _aside(path: str) -> str:
    return f"{shlex.quote(path)} {shlex.quote(f'{path}.old')}"
