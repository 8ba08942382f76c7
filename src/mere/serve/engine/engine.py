"""The DuckDB that all connections share: it reads the folders of the lake's tables, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from cachetools import LRUCache

from mere.lake.query.duckdb import Limits, connect, equip
from mere.lake.storage.port import Storage
from mere.serve.access.limits import Resources
from mere.serve.engine import functions, macros, memory
from mere.serve.engine.memory import Watch
from mere.serve.engine.tables import SCHEMA, Tables
from mere.sql.spelling.standard import literal, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

CATALOG = "catalog"  # the schema of what stands in for pg_catalog and information_schema
_IDLE = 16  # connections that wait for a statement: to set one up takes longer than a small statement
_KEPT = 300  # tables; DuckDB takes about half a megabyte for each

# As Postgres has it: 7 / 2 is 3, and NULL is greater than all.
_SETTINGS = (
    "integer_division = true",
    "default_null_order = 'postgres'",
    "parquet_metadata_cache = true",
    # Without them, a thread that has nothing more to do keeps what it has freed.
    "allocator_background_threads = true",
)

# What is waiting to be fetched is kept small: long texts in it are not counted.
_OF_A_STATEMENT = "SET TimeZone = 'UTC'; SET streaming_buffer_size = '64KiB'"


class Engine:
    """Locked once it is set up: no statement can change a setting, reach another folder or load an extension."""

    def __init__(
        self,
        folders: Sequence[str],
        storage: Storage,
        resources: Resources,
        watch: Watch | None = None,
    ) -> None:
        self.folders = tuple(folders)
        self.broken = False  # DuckDB gives up on the whole database after an error of its own
        self._connection = connect(Limits(resources.memory, resources.threads))
        self._lock = threading.Lock()
        self._filled: LRUCache[str, bool] = LRUCache(_KEPT)
        self._idle: list[tuple[str, DuckDBPyConnection]] = []  # with the time zone, the last that was used at the end
        self.tables = Tables(self.cursor, storage)
        from duckdb.func import PythonUDFType

        (setting,) = self._connection.execute("SELECT current_setting('memory_limit')").fetchall()[0]
        self.watch = watch or Watch(memory.parse(setting), firm=resources.firm)
        for name, fits in ((functions.ROOM, self.watch.room), (functions.LOAD, self.watch.load)):
            self._connection.create_function(name, fits, ["BIGINT"], "BOOLEAN", type=PythonUDFType.ARROW)
        self._set_up(storage, resources)
        self.steady = self._steady()

    def _set_up(self, storage: Storage, resources: Resources) -> None:
        connection = self._connection
        equip(connection, storage)
        for setting in _SETTINGS:
            connection.execute(f"SET GLOBAL {setting}")
        if resources.spill:
            connection.execute(f"SET GLOBAL max_temp_directory_size = {literal(resources.spill)}")
        for schema in (SCHEMA, CATALOG, functions.SCHEMA):
            connection.execute(f"CREATE SCHEMA {schema}")
        for statement in macros.EVERY:
            connection.execute(statement)
        allowed = ", ".join(literal(folder.rstrip("/") + "/") for folder in self.folders)
        connection.execute(f"SET GLOBAL allowed_directories = [{allowed}]")
        connection.execute("SET GLOBAL allowed_configs = ['TimeZone', 'streaming_buffer_size']")
        connection.execute("SET GLOBAL enable_external_access = false")
        connection.execute("SET GLOBAL lock_configuration = true")

    def _steady(self) -> frozenset[str]:
        """The functions that give the same for the same, at any time: of ours, with their schema."""
        found = self._connection.execute(
            "SELECT lower(function_name), stability FROM duckdb_functions() WHERE function_type NOT LIKE '%macro'"
        ).fetchall()
        varying = {name for name, stability in found if stability not in ("CONSISTENT", None)}
        varying = varying - {"error"} | functions.VARYING
        ours = {f"{functions.SCHEMA}.{name}" for name, words in macros.WORDS.items() if not words & varying}
        return frozenset({name for name, _ in found} - varying) | ours

    def add(self, name: str, function: Callable[..., bool | str | None]) -> None:
        """A function of Python's, which is called for every row, also with NULL: it does something."""
        from duckdb.func import SPECIAL

        self._connection.create_function(name, function, side_effects=True, null_handling=SPECIAL)

    def reaches(self, folder: str) -> bool:
        return any(f"{folder.rstrip('/')}/".startswith(f"{known.rstrip('/')}/") for known in self.folders)

    def cursor(self) -> DuckDBPyConnection:
        """A connection for one statement."""
        cursor = self._connection.cursor()
        cursor.execute(_OF_A_STATEMENT)
        return cursor

    def lend(self, zone: str) -> DuckDBPyConnection:
        """A connection for one statement in a time zone, as `cursor`: one that was given back, if there is one."""
        with self._lock:
            for at in reversed(range(len(self._idle))):
                if self._idle[at][0] == zone:
                    return self._idle.pop(at)[1]
        cursor = self.cursor()
        if zone != "UTC":
            cursor.execute(f"SET TimeZone = {literal(zone)}")
        return cursor

    def give_back(self, cursor: DuckDBPyConnection, zone: str) -> None:
        """Only one whose statement has ended well, and which nobody will interrupt any more."""
        with self._lock:
            self._idle.append((zone, cursor))
            longest = self._idle.pop(0) if len(self._idle) > _IDLE else None
        if longest is not None:
            longest[1].close()

    def fill(self, name: str, rows: Callable[[], pa.Table]) -> str:
        """A small table of the schema `catalog`, made at first use; its name says what is in it."""
        with self._lock:
            if not self._filled.get(name):
                with closing(self.cursor()) as cursor:
                    cursor.register("@rows", rows())
                    cursor.execute(f'CREATE OR REPLACE TABLE {CATALOG}.{quoted(name)} AS FROM "@rows"')
                    cursor.unregister("@rows")
                    if len(self._filled) == _KEPT:
                        oldest, _ = self._filled.popitem()
                        cursor.execute(f"DROP TABLE IF EXISTS {CATALOG}.{quoted(oldest)}")
                    self._filled[name] = True
        return name

    def close(self) -> None:
        with self._lock:
            for _, cursor in self._idle:
                cursor.close()
            self._idle.clear()
        self._connection.close()
