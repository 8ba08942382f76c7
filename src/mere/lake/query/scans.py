"""How one table is read: by DuckDB, or through PyIceberg where DuckDB would be wrong.

Three things make it worth reading a table's manifests first. DuckDB 1.5 gives wrong rows where one Puffin file holds
several deletion vectors; it reads manifests in threads of its own, in which a missing or broken one ends the whole
process; and so does one of files that are partitioned by a column which the table has no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mere.errors import QueryError
from mere.lake.iceberg.manifests import BY_VALUE, LOST_PARTITION, damaged, file_kinds
from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.place.folders import is_inside
from mere.lake.storage.port import Storage, canonical
from mere.lake.storage.s3 import of_arrow, pyiceberg_properties
from mere.sql.spelling.standard import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection
    from pyiceberg.table import FileScanTask

_DUCKDB_READS = frozenset({"PARQUET", BY_VALUE})
_PYICEBERG_READS = frozenset({"PARQUET", "ORC", "PUFFIN", LOST_PARTITION})


def scan(
    connection: DuckDBPyConnection, table: str, metadata: Metadata, storage: Storage, copy_to: str | None = None
) -> str:
    """A FROM item with the rows of the table's current snapshot. A copy, if one is needed, is a temporary table."""
    kinds = file_kinds(table, metadata, storage)
    return item(connection, table, metadata.location, kinds, storage, copy_to, metadata.past)


def item(
    connection: DuckDBPyConnection,
    table: str,
    location: str,
    kinds: set[str],
    storage: Storage,
    copy_to: str | None = None,
    snapshot: int | None = None,
) -> str:
    """The same, where it is known already which kinds of files there are."""
    if kinds <= _DUCKDB_READS:
        at = "" if snapshot is None else f", snapshot_from_id = {snapshot}"
        return f"iceberg_scan({literal(canonical(location))}{at})"
    if kinds <= _PYICEBERG_READS:
        if copy_to is not None:
            _copy(connection, table, location, storage, f"TABLE {copy_to}", snapshot)
            return copy_to
        name = quoted(f"@pyiceberg {location} {snapshot or ''}")
        _copy(connection, table, location, storage, f"TEMP TABLE {name}", snapshot)
        return f"temp.main.{name}"
    raise unreadable(table, f"neither DuckDB nor PyIceberg reads its mix of {', '.join(sorted(kinds))} files")


def is_for_duckdb(table: str, metadata: Metadata, snapshot: Snapshot, storage: Storage) -> bool:
    """Whether DuckDB reads a snapshot of the table, and rightly."""
    return file_kinds(table, metadata, storage, snapshot) <= _DUCKDB_READS


def unreadable(table: str, why: str) -> QueryError:
    return QueryError(f"mere sql cannot read {table}: {why}.", remedy="Read it with Spark.")


class OutOfReach(QueryError):
    """A file that the connection may not read: see `duckdb.confine`."""


def out_of_reach(file: str, table: str = "the table that lists it") -> OutOfReach:
    return OutOfReach(f"{file} is neither in the lake nor in the folder of {table}, so it is not read.")


def _copy(
    connection: DuckDBPyConnection, table: str, location: str, storage: Storage, what: str, snapshot: int | None
) -> None:
    """The table's rows as a table in DuckDB, which spills to disk what does not fit into memory.

    A view of PyIceberg's stream would do without the copy, but then DuckDB's threads call back into Python whenever
    rows are fetched, and a result that is not read to its end can hang or abort the process.
    """
    import duckdb
    from pyiceberg.table import StaticTable  # 1.2 s

    try:
        properties = pyiceberg_properties(storage.s3) if storage.s3 else {}
        scan = StaticTable.from_metadata(location, properties).scan(snapshot_id=snapshot)
        _check_places(connection, table, scan.plan_files())
        reader = scan.to_arrow_batch_reader()
        connection.register("@stream", reader)
        connection.execute(f'CREATE {what} AS FROM "@stream"')
    except (ValueError, OSError, duckdb.Error) as error:
        raise _of_pyiceberg(table, error) from error
    connection.unregister("@stream")


def _check_places(connection: DuckDBPyConnection, table: str, tasks: Iterable[FileScanTask]) -> None:
    """Where DuckDB may not read, nothing is read for it."""
    files = {file.file_path for task in tasks for file in (task.file, *task.delete_files)}
    if foreign := sorted(file for file in files if not _may_read(connection, file)):
        raise out_of_reach(foreign[0], table)


def _may_read(connection: DuckDBPyConnection, location: str) -> bool:
    """Whether the file is where the connection may read, for those who read it in DuckDB's stead."""
    settings = "current_setting('enable_external_access'), current_setting('allowed_directories')"
    found = connection.execute(f"SELECT {settings}").fetchone()
    assert found
    return found[0] or any(is_inside(canonical(location), folder) for folder in found[1])


def _of_pyiceberg(table: str, error: Exception) -> Exception:
    text = str(error)
    if refused := of_arrow(text):
        return type(refused)(f"{table} cannot be read: {refused.message}", remedy=refused.remedy)
    if isinstance(error, FileNotFoundError):
        return damaged(table, f"a file is gone. {text.splitlines()[0]}.")
    if isinstance(error, ValueError | OSError):
        # Its types may be new to PyIceberg; DuckDB, which knows them, would apply the deletion vectors wrongly.
        return unreadable(table, f"only PyIceberg can read it, which says: {text.splitlines()[0]}")
    return error
