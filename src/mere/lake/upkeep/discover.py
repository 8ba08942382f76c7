"""Finds the tables that another catalog, a folder or a metadata file offers. Sources are only read."""

from __future__ import annotations

import os
import posixpath
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from mere.errors import LakeError, LakeUnreadable, UsageError
from mere.lake.place.mainfile import MainFile, recall
from mere.lake.place.places import lake_around
from mere.lake.storage.port import Storage, canonical
from mere.lake.store.postgres.address import PostgresAddress
from mere.lake.upkeep.versions import METADATA_FILE, Choice, Doubt, metadata_files, of_main, of_one_number, versions

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog

TOKEN, CREDENTIAL = "MERE_REST_TOKEN", "MERE_REST_CREDENTIAL"

_UNIQUE = re.compile(r"-[0-9a-f]{32}$")  # by which an engine keeps the folders of tables of one name apart
_HINT = "version-hint.text"
_SQL = re.compile(r"(sqlite|postgres(?:ql)?)(\+\w+)?://")


@dataclass(frozen=True)
class Found:
    """A table or view: what the source calls it, and where its metadata file is."""

    parts: tuple[str, ...]  # namespaces and name; none, where the source has no name for it
    pointer: str | None
    problem: str | None = None  # why there is no pointer
    suggested: str | None = None  # the metadata file to name, where several may be meant

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Source:
    """What was found, and what the catalog in which it was found calls itself."""

    found: tuple[Found, ...]
    catalog: str | None = None
    left_out: tuple[str, ...] = ()  # folders of tables that main did not have when its catalog was lost
    place: str = ""  # the folder in which they were found


def discover(
    source: str,
    storage: Storage,
    *,
    catalog: str | None = None,
    warehouse: str | None = None,
    choice: Choice | None = None,
) -> Source:
    """`catalog`: which one of several in a database. `warehouse`: which one of a REST catalog."""
    is_sql, is_rest = _SQL.match(source), source.startswith(("http://", "https://"))
    if catalog and not is_sql:
        raise UsageError("--catalog goes with a database: sqlite:///… or postgresql://…")
    if warehouse and not is_rest:
        raise UsageError("--warehouse goes with a REST catalog: https://…")
    place = source if "://" in source or source.startswith("file:") else os.path.abspath(source)  # noqa: PTH100
    is_file = bool(METADATA_FILE.fullmatch(posixpath.basename(place)) or place.endswith(".metadata.json"))
    choice = choice or Choice()
    if choice != Choice() and (is_sql or is_rest or is_file):
        raise UsageError("--metadata and --newest go with a folder, in which a table has several metadata files.")
    if is_sql:
        return _database(source, catalog)
    if is_rest:
        return _rest(source, warehouse)
    if is_file:
        return Source((Found((), place),))
    return _folder(place.rstrip("/"), storage, choice)


# folders


def _folder(folder: str, storage: Storage, choice: Choice) -> Source:
    tables: dict[str, list[str]] = {}
    for file in storage.files(folder):
        table, _, name = file.location.rpartition("/metadata/")
        if table and (name == _HINT or METADATA_FILE.fullmatch(name)):
            tables.setdefault(table, []).append(name)
    if not tables:
        raise LakeError(
            f"There is no Iceberg table in {folder}: no folder named metadata with a metadata file in it.",
            remedy="Name a metadata file, a table's folder, a warehouse, a database or a REST catalog.",
        )
    if folder in tables:
        tables = {folder: tables[folder]}
    tried = _Tables(folder, tables, storage, choice)
    if unknown := choice.files - tried.meant:
        raise UsageError(f"{min(unknown)} is not a metadata file of a table in {folder}.")
    found = tuple(each for table in sorted(tables) for each in tried.found(table))
    return Source(found, left_out=tuple(tried.left_out), place=folder)


class _Tables:
    """The tables of a folder. In the warehouse of a lake: what main had, and nothing that only another branch had."""

    def __init__(self, folder: str, tables: Mapping[str, Sequence[str]], storage: Storage, choice: Choice) -> None:
        self.left_out: list[str] = []
        self._tables = {table: sorted(metadata_files(names)) for table, names in tables.items()}
        self._has_hint = {table for table, names in tables.items() if _HINT in names}
        self._storage = storage
        self._newest_will_do = choice.newest
        self._meant = {table: choice.among(table, names) for table, names in self._tables.items()}
        self._lakes: dict[str, MainFile | None] = {}
        self._pointers: dict[str, str] = {}
        plain = Counter(_UNIQUE.sub("", table) for table in tables)
        self._names: dict[str, tuple[str, ...]] = {}
        for table in tables:
            name = _UNIQUE.sub("", table)
            relative = posixpath.relpath(name if plain[name] == 1 else table, folder)
            self._names[table] = tuple(relative.split("/")) if table != folder else ()

    @property
    def meant(self) -> set[str]:
        return {file for file in self._meant.values() if file}

    def found(self, table: str) -> Iterator[Found]:
        """None, if main did not have it."""
        names, lake = self._tables[table], self._lake(table)
        if file := self._meant[table]:
            yield Found(self._names[table], file)
        elif not names:
            yield Found(self._names[table], None, f"{table}/metadata has no metadata file")
        elif lake is None:
            yield self._answered(table, self._by_number(table))
        elif (main := self._lakes[lake]) is not None and table not in self._pointers:
            self.left_out.append(table)
        else:
            yield self._answered(table, of_main(self._storage, table, names, main, self._pointers.get(table)))

    def _answered(self, table: str, answer: str | Doubt) -> Found:
        name = self._names[table]
        if isinstance(answer, str):
            return Found(name, answer)
        if self._newest_will_do and (found := versions(self._storage, table, self._tables[table])):
            return Found(name, found[0].location)
        return Found(name, None, answer.why, answer.suggested)

    def _lake(self, table: str) -> str | None:
        """The one in whose warehouse it is."""
        for lake in self._lakes:
            if table.startswith(f"{lake}/"):
                return lake
        found = lake_around(table, self._storage)
        if found is not None:
            self._lakes[found] = main = recall(self._storage, found)
            for parts, pointer in (main.tables if main else {}).items():
                at = canonical(pointer).rpartition("/metadata/")[0]
                self._pointers[at] = canonical(pointer)
                if self._names.get(at):
                    self._names[at] = parts
        return found

    def _by_number(self, table: str) -> str | Doubt:
        names = self._tables[table]
        matches = [match for name in names if (match := METADATA_FILE.fullmatch(name))]
        if hadoop := {int(match["hadoop"]): match[0] for match in matches if match["hadoop"]}:
            return f"{table}/metadata/{hadoop[_version(table, hadoop, self._has_hint, self._storage)]}"
        last = max(int(match["number"]) for match in matches)
        newest = [match[0] for match in matches if int(match["number"]) == last]
        if len(newest) == 1:
            return f"{table}/metadata/{newest[0]}"
        return of_one_number(self._storage, table, names, newest)


def _version(table: str, versions: dict[int, str], hinted: Collection[str], storage: Storage) -> int:
    """As Hadoop tables are read: from the hint, which may be late, on to the last version without a gap."""
    version = max(versions)
    if table in hinted:
        with suppress(ValueError):
            hint = int(storage.read(f"{table}/metadata/{_HINT}").decode().strip())
            version = hint if hint in versions else version
    while version + 1 in versions:
        version += 1
    return version


# databases


def _database(url: str, catalog: str | None) -> Source:
    shown, rows = _sqlite_rows(url) if url.startswith("sqlite") else _postgres_rows(url)
    catalogs = sorted({row["catalog_name"] for row in rows})
    listed = ", ".join(catalogs) or "none"
    if catalog is None and len(catalogs) > 1:
        raise UsageError(f"{shown} has several catalogs: {listed}.", remedy="Choose one with --catalog NAME.")
    if catalog is not None and catalog not in catalogs:
        raise UsageError(f"{shown} has no catalog {catalog!r} with tables in it. It has: {listed}.")
    name = catalog or next(iter(catalogs), None)
    mine = sorted((row for row in rows if row["catalog_name"] == name), key=_name)
    return Source(tuple(map(_row, mine)), name)


def _name(row: dict[str, Any]) -> tuple[str, str]:
    return row["table_namespace"], row["table_name"]


def _row(row: dict[str, Any]) -> Found:
    parts = (*row["table_namespace"].split("."), row["table_name"])
    pointer = row["metadata_location"]
    return Found(parts, pointer, None if pointer else "its catalog has no metadata file for it")


def _sqlite_rows(url: str) -> tuple[str, list[dict[str, Any]]]:
    path = Path(_SQL.sub("", url).partition("?")[0].removeprefix("/")).absolute()  # what follows are options of drivers
    if not path.is_file():
        raise LakeUnreadable(f"There is no database {path}.")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=30)) as connection:
            cursor = connection.execute("SELECT * FROM iceberg_tables")
            return str(path), _records(cursor.description, cursor.fetchall())
    except sqlite3.Error as error:
        raise LakeUnreadable(f"{path} cannot be read as an Iceberg catalog: {error}.") from error


def _postgres_rows(url: str) -> tuple[str, list[dict[str, Any]]]:
    try:
        address = PostgresAddress.parse(_SQL.sub("postgresql://", url, count=1))
        with address.opened("mere adopt") as connection:
            connection.read_only = True
            cursor = connection.execute("SELECT * FROM iceberg_tables")
            return str(address), _records(cursor.description or (), cursor.fetchall())
    except LakeUnreadable as error:
        # Without its cause: psycopg's text may quote the URL.
        raise LakeUnreadable(f"It cannot be read as an Iceberg catalog. {error.message}", remedy=error.remedy) from None


def _records(columns: Iterable[Sequence[Any]], rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
    names = [str(column[0]).lower() for column in columns]
    return [dict(zip(names, row, strict=True)) for row in rows]


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


# REST


def _rest(url: str, warehouse: str | None) -> Source:
    import requests
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.exceptions import RESTError

    if "@" in urlsplit(url).netloc:
        raise UsageError(
            "The address of a REST catalog has no user or password in it.",
            remedy=f"Put a token into {TOKEN}, or client:secret into {CREDENTIAL}.",
        )
    secrets = {"token": os.environ.get(TOKEN), "credential": os.environ.get(CREDENTIAL)}
    options = {name: value for name, value in {**secrets, "warehouse": warehouse}.items() if value}
    try:
        with closing(RestCatalog("source", uri=url, **options)) as catalog:
            return Source(tuple(_rest_tables(catalog)), warehouse)
    except (RESTError, requests.RequestException, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") or type(error).__name__
        raise LakeUnreadable(
            f"{_without_secrets(url)} cannot be read as an Iceberg REST catalog: {reason}.",
            remedy=f"Check the address. A token is taken from {TOKEN}, client:secret from {CREDENTIAL}.",
        ) from error


def _rest_tables(catalog: RestCatalog) -> Iterator[Found]:
    for namespace in _namespaces(catalog, ()):
        for name in sorted(catalog.list_tables(namespace)):
            yield _rest_table(catalog, name)
        with suppress(NotImplementedError):  # not every catalog has views
            for name in sorted(catalog.list_views(namespace)):
                yield Found(name, None, "it is a view, and PyIceberg does not say where its metadata file is")


def _namespaces(catalog: RestCatalog, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for namespace in sorted(catalog.list_namespaces(parent)):
        yield namespace
        yield from _namespaces(catalog, namespace)


def _rest_table(catalog: RestCatalog, name: tuple[str, ...]) -> Found:
    from pyiceberg.exceptions import NoSuchTableError, RESTError

    try:
        pointer: str | None = catalog.load_table(name).metadata_location
    except (NoSuchTableError, RESTError, ValueError) as error:
        return Found(name, None, f"its catalog does not load it: {str(error).strip().splitlines()[0]}")
    return Found(name, pointer, None if pointer else "its catalog does not say where its metadata file is")
