"""The lake's tables in the DuckDB that all connections share.

A metadata file never changes, so a table at a commit is a view that is named after its metadata file: made once, by
whoever needs it first, and right for every ref and every commit that points there.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from mere.errors import QueryError
from mere.lake.iceberg.manifests import DATA, Manifests, lost_partitionings
from mere.lake.iceberg.metadata import Metadata
from mere.lake.log.commits import Kind
from mere.lake.metadata_tables.shape import MetadataTable
from mere.lake.metadata_tables.tables import split
from mere.lake.query import errors, metadata_tables, quarantine, scans, views
from mere.lake.query.bindings import Directory, folders, readable_metadata, schema_of
from mere.lake.query.metadata_tables import QUARANTINE
from mere.lake.query.tables import TableSet
from mere.lake.query.types import columns
from mere.lake.storage.port import Storage, canonical
from mere.names import TableName
from mere.serve.access import limits
from mere.serve.access.roles import Role
from mere.sql.spelling.standard import literal, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA = "lake"
_KEPT = 5000  # views; one that is not in use makes room for another
_COPIES = 20  # of tables that only PyIceberg reads: they take memory
_TINY = 100  # copies of tables of at most so many rows and bytes of files: each takes about half a megabyte
_TINY_ROWS, _TINY_BYTES = 2000, 200_000
_FEW = 200  # files; of more, the manifests tell better than the files' own footers which to read
_PATIENCE = 600  # seconds, while another thread binds the same table
_GLOB = re.compile(r"[*?\[\]]")


@dataclass(frozen=True)
class Pin:
    """A ref as one statement or transaction sees it."""

    ref: str  # as the client named it
    commit: str
    tables: TableSet

    @cached_property
    def directory(self) -> Directory:
        return Directory(self.tables)


@dataclass
class _Bound:
    name: Future[str]  # in DuckDB
    users: int = 0
    is_copy: bool = False
    is_tiny: bool = False  # of a table that has next to no rows
    is_passing: bool = False  # for one statement alone
    reads: tuple[str, ...] = ()  # of a view: what must stay as long as it does


# Gives the query of a view, and is there while that is made.
Make = Callable[["DuckDBPyConnection", _Bound], AbstractContextManager[str]]


class Tables:
    """What stands in the schema `lake`. Threads may use it together."""

    def __init__(self, connection: Callable[[], DuckDBPyConnection], storage: Storage) -> None:
        self._connection = connection
        self._storage = storage
        self._lock = threading.Lock()
        # Not a cache of cachetools: what is in use stays, however long ago it was asked for.
        self._bound: OrderedDict[str, _Bound] = OrderedDict()

    def hold(self, pin: Pin, table: TableName) -> str:
        """The table's name in the schema `lake`, which it keeps until `release`."""
        return self._hold(pin, table, ())

    def hold_metadata(self, pin: Pin, table: TableName, role: Role) -> str:
        """The same of a metadata table, as the role sees it."""
        if table == QUARANTINE:
            found = tuple(quarantine.quarantines(pin.tables, role))
            pointers = (pin.tables.pointer(each) for each in found)
            key = _digest(QUARANTINE.name, *map(str, found), *pointers)
            return self._hold_key(key, lambda _, bound: self._set_aside(pin, found, bound))
        opened = metadata_tables.opened(table, pin.tables, role)
        if opened.lasts:  # it says what one metadata file says
            parts = split(table)
            assert parts is not None
            key = _digest(parts[1], pin.tables.pointer(parts[0]), str(pin.tables.past.get(parts[0])))
        else:
            key = uuid4().hex
        return self._hold_key(key, partial(_filled, opened, key))

    def release(self, names: Sequence[str]) -> None:
        gone = []
        with self._lock:
            for name in names:
                if (bound := self._bound.get(name)) is not None:
                    bound.users -= 1
                    if bound.is_passing and not bound.users:
                        gone.append(name)
            if gone:
                with closing(self._connection()) as connection:
                    for name in gone:
                        self._drop(connection, name)

    def _hold(self, pin: Pin, table: TableName, path: tuple[TableName, ...]) -> str:
        if table in path:
            around = " → ".join(map(str, [*path[path.index(table) :], table]))
            raise QueryError(f"View {table} refers to itself: {around}.")
        key = _key(pin, table)
        return self._hold_key(key, lambda connection, bound: self._made(connection, pin, table, key, bound, path))

    def _hold_key(self, key: str, make: Make) -> str:
        with self._lock:
            bound = self._bound.get(key)
            mine = bound is None
            if bound is None:
                bound = self._bound[key] = _Bound(Future())
            bound.users += 1
            self._bound.move_to_end(key)
        if mine:
            self._bind(key, bound, make)
        try:
            return bound.name.result(_PATIENCE)
        except BaseException:
            with self._lock:
                bound.users -= 1  # of this one: by its name there may be another already
            raise

    def _bind(self, key: str, bound: _Bound, make: Make) -> None:
        connection = self._connection()
        try:
            with make(connection, bound) as sql:
                connection.execute(f"CREATE OR REPLACE VIEW {SCHEMA}.{quoted(key)} AS {sql}")
            bound.name.set_result(key)
        except BaseException as error:  # noqa: BLE001 (whoever waits for it gets it, this thread too)
            with self._lock:
                self._bound.pop(key, None)
            bound.name.set_exception(error)
        finally:
            connection.close()
        self._make_room()

    @contextmanager
    def _made(
        self,
        connection: DuckDBPyConnection,
        pin: Pin,
        table: TableName,
        key: str,
        bound: _Bound,
        path: tuple[TableName, ...],
    ) -> Iterator[str]:
        """The query of a view of one table or view; what goes wrong while it is made says which."""
        metadata = readable_metadata(pin.tables, table)
        is_view = pin.tables.entry(table).kind is Kind.VIEW
        with errors.unbound(str(table), lambda: dict.fromkeys(folders(metadata), str(table)), is_view):
            if is_view:
                yield self._view(pin, table, metadata, bound, (*path, table))
            else:
                yield self._table(connection, table, metadata, key, bound)

    @contextmanager
    def _set_aside(self, pin: Pin, found: Sequence[TableName], bound: _Bound) -> Iterator[str]:
        def place(table: TableName) -> str:
            name = self._hold(pin, table, ())
            bound.reads += (name,)
            return f"{SCHEMA}.{quoted(name)}"

        yield quarantine.query(found, place)

    def _table(
        self, connection: DuckDBPyConnection, table: TableName, metadata: Metadata, key: str, bound: _Bound
    ) -> str:
        if (plain := self._plain(connection, str(table), metadata)) is not None:
            return self._in_memory(connection, plain, metadata, key, bound) or plain
        copy = f"{SCHEMA}.{quoted(f'{key} copy')}"
        item = scans.scan(connection, str(table), metadata, self._storage, copy)
        bound.is_copy = item == copy
        return f"FROM {item}"

    def _plain(self, connection: DuckDBPyConnection, table: str, metadata: Metadata) -> str | None:
        """The Parquet files themselves, where nothing but them makes the table: that binds in a tenth of the time."""
        schema = metadata.schema
        wanted = columns(schema)
        # With another schema before it, a file may have other columns; a mapping stands for files of other engines.
        if list(metadata.schemas) != [0] or not all(type_ for _, type_ in wanted):
            return None
        if "schema.name-mapping.default" in metadata.properties or metadata.files > _FEW:
            return None
        found = list(Manifests(table, self._storage).files(metadata))
        if not found:
            return f"SELECT {_typed(wanted)} WHERE false"
        data = all(file.content == DATA and file.format == "PARQUET" for file in found)
        paths = [canonical(file.path) for file in found]
        if not data or any(map(_GLOB.search, paths)) or lost_partitionings(metadata):
            return None
        sql = f"FROM read_parquet([{', '.join(map(literal, paths))}], hive_partitioning = false)"
        described = connection.execute(f"DESCRIBE {sql}").fetchall()
        declared = connection.execute(f"DESCRIBE SELECT {_typed(wanted)}").fetchall()
        return sql if [row[:2] for row in described] == [row[:2] for row in declared] else None

    def _in_memory(
        self, connection: DuckDBPyConnection, plain: str, metadata: Metadata, key: str, bound: _Bound
    ) -> str | None:
        """A copy of a tiny table: to open its files would take longer than all else that a statement does."""
        if not 0 < metadata.rows <= _TINY_ROWS or metadata.size > _TINY_BYTES:
            return None
        copy = f"{SCHEMA}.{quoted(f'{key} copy')}"
        try:
            # What the metadata says of the files need not be so.
            (rows,) = connection.execute(f"SELECT count(*) {plain}").fetchall()[0]
            if rows > _TINY_ROWS:
                return None
            connection.execute(f"CREATE OR REPLACE TABLE {copy} AS {plain}")
        except duckdb.Error:
            return None  # whoever reads the files is told of it
        bound.is_copy = bound.is_tiny = True
        return f"FROM {copy}"

    def _view(self, pin: Pin, view: TableName, metadata: Metadata, bound: _Bound, path: tuple[TableName, ...]) -> str:
        def place(table: TableName) -> tuple[str, str, str]:
            name = self._hold(pin, table, path)
            bound.reads += (name,)
            return "memory", SCHEMA, name

        schema = partial(schema_of, pin.directory.tables)
        return views.translate(str(view), metadata, place, pin.directory.find, schema).sql

    def _make_room(self) -> None:
        with self._lock:
            idle = [key for key, bound in self._bound.items() if bound.users == 0 and bound.name.done()]
            gone = idle[: max(0, len(self._bound) - _KEPT)]
            for is_tiny, most in ((False, _COPIES), (True, _TINY)):
                copies = [key for key in idle if self._bound[key].is_copy and self._bound[key].is_tiny == is_tiny]
                gone += [key for key in copies[: max(0, len(copies) - most)] if key not in gone]
            if not gone:
                return
            # Under the lock: nobody else may make one of them again before it is gone.
            with closing(self._connection()) as connection:
                for key in gone:
                    self._drop(connection, key)

    def _drop(self, connection: DuckDBPyConnection, key: str) -> None:
        bound = self._bound.pop(key)
        connection.execute(f"DROP VIEW IF EXISTS {SCHEMA}.{quoted(key)}")
        if bound.is_copy:
            connection.execute(f"DROP TABLE IF EXISTS {SCHEMA}.{quoted(f'{key} copy')}")
        for name in bound.reads:
            if (read := self._bound.get(name)) is not None:
                read.users -= 1


@contextmanager
def _filled(table: MetadataTable, key: str, connection: DuckDBPyConnection, bound: _Bound) -> Iterator[str]:
    """A copy of a metadata table; of one that may be another the next time, for one statement."""
    copy = f"{SCHEMA}.{quoted(f'{key} copy')}"
    rows = metadata_tables.fill(connection, copy, table, limits.go_on)
    bound.is_copy, bound.is_passing = True, not table.lasts or rows > _TINY_ROWS
    yield f"FROM {copy}"


def _key(pin: Pin, table: TableName) -> str:
    """Of a view, the tables that it reads belong to it: on another ref they may be others."""
    pointer = pin.tables.pointer(table)
    if not pin.tables.is_view(table):
        snapshot = pin.tables.past.get(table)
        return _digest(pointer) if snapshot is None else _digest(pointer, str(snapshot))
    return _digest(pointer, *(f"{name} {entry.value}" for name, entry in pin.tables.tables.items()))


def _typed(wanted: Sequence[tuple[str, str | None]]) -> str:
    return ", ".join(f"NULL::{type_} AS {quoted(name)}" for name, type_ in wanted)


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
