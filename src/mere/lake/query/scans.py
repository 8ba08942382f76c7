"""How one table is read: by DuckDB, or through PyIceberg where DuckDB would be wrong.

Three things make it worth reading a table's manifests first. DuckDB 1.5 gives wrong rows where one Puffin file holds
several deletion vectors; it reads manifests in threads of its own, in which a missing or broken one ends the whole
process; and so does one of files that are partitioned by a column which the table has no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from mere.errors import LakeUnreadable, MetadataMissing, QueryError
from mere.lake.iceberg import avro, files
from mere.lake.iceberg.metadata import Json, Metadata, Snapshot
from mere.lake.query.types import literal, quoted
from mere.lake.storage.port import Storage, canonical
from mere.lake.storage.s3 import of_arrow, pyiceberg_properties

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_EQUALITY_DELETES = "equality deletes"
_DUCKDB_READS = frozenset({"PARQUET", _EQUALITY_DELETES})
_ENTRY = ("data_file.content", "data_file.file_format")
_DELETES = 1  # the content of a manifest that lists delete files
_SMALL = 1_000_000  # bytes of a manifest whose thousands of entries are decoded in a quarter of a second
_LOST_PARTITION = "files by a dropped column"
_PYICEBERG_READS = frozenset({"PARQUET", "ORC", "PUFFIN", _LOST_PARTITION})


def scan(
    connection: DuckDBPyConnection, table: str, metadata: Metadata, storage: Storage, copy_to: str | None = None
) -> str:
    """A FROM item with the rows of the table's current snapshot. A copy, if one is needed, is a temporary table."""
    return item(connection, table, metadata.location, file_kinds(table, metadata, storage), storage, copy_to)


def item(
    connection: DuckDBPyConnection,
    table: str,
    location: str,
    kinds: set[str],
    storage: Storage,
    copy_to: str | None = None,
) -> str:
    """The same, where it is known already which kinds of files there are."""
    if kinds <= _DUCKDB_READS:
        return f"iceberg_scan({literal(canonical(location))})"
    if kinds <= _PYICEBERG_READS:
        if copy_to is not None:
            _copy(connection, table, location, storage, f"TABLE {copy_to}")
            return copy_to
        name = quoted(f"@pyiceberg {location}")
        _copy(connection, table, location, storage, f"TEMP TABLE {name}")
        return f"temp.main.{name}"
    raise unreadable(table, f"neither DuckDB nor PyIceberg reads its mix of {', '.join(sorted(kinds))} files")


def is_for_duckdb(table: str, metadata: Metadata, snapshot: Snapshot, storage: Storage) -> bool:
    """Whether DuckDB reads a snapshot of the table, and rightly."""
    return file_kinds(table, metadata, storage, snapshot) <= _DUCKDB_READS


def file_kinds(table: str, metadata: Metadata, storage: Storage, snapshot: Snapshot | None = None) -> set[str]:
    """What a snapshot's data and delete files are, by its manifests: all of them are read for it. Without one, those of
    the current one."""
    snapshot = snapshot or metadata.current
    if snapshot is None or snapshot.manifest_list is None:
        return set()
    kinds: set[str] = set()
    fields = ("manifest_path", "manifest_length", "content", "partition_spec_id")
    lost = lost_partitionings(metadata)
    for manifest in records(table, storage, snapshot.manifest_list, None, *fields):
        kinds.update({_LOST_PARTITION} if manifest.get("partition_spec_id") in lost else ())
        length = manifest["manifest_length"]
        entries = records(table, storage, manifest["manifest_path"], length, "status", *_ENTRY)
        live = (entry["data_file"] for entry in entries if entry["status"] != files.DELETED)
        # Engines write all data files of a table in one format; delete files come in several.
        thorough = manifest.get("content", 0) == _DELETES or length <= _SMALL
        kinds.update(map(kind, live if thorough else islice(live, 1)))
    return kinds


def lost_partitionings(metadata: Metadata) -> set[int]:
    """The ids of those that name a column which was dropped since."""
    schemas = {each["schema-id"]: each for each in metadata.raw.get("schemas", [])}
    current = schemas.get(metadata.raw.get("current-schema-id"))
    if current is None:
        return set()
    known = set(_ids(current))
    return {
        spec["spec-id"]
        for spec in metadata.raw.get("partition-specs", [])
        if any(field["source-id"] not in known for field in spec["fields"] if "source-id" in field)
    }


def _ids(struct: Json) -> Iterator[int]:
    """Of all columns by which a table can be partitioned: those in lists and maps are none."""
    for field in struct["fields"]:
        yield field["id"]
        if isinstance(field["type"], dict) and field["type"].get("type") == "struct":
            yield from _ids(field["type"])


def kind(file: avro.Record) -> str:
    format_: str = file["file_format"]
    return _EQUALITY_DELETES if file.get("content", 0) == 2 else format_.upper()


def records(table: str, storage: Storage, location: str, length: int | None, *fields: str) -> Iterator[avro.Record]:
    try:
        content = storage.read(location)
        with files.readable(location):
            # An Avro file that was cut between two blocks reads well, and only lacks entries.
            if length is not None and length != len(content):
                raise avro.NotAvro(f"it has {len(content)} bytes instead of {length}")
            yield from avro.records(content, *fields)
    except MetadataMissing as error:
        raise MetadataMissing(f"{table} cannot be read: {error.message}", remedy=error.remedy) from error
    except LakeUnreadable as error:
        raise damaged(table, error.message) from error


def damaged(table: str, why: str) -> QueryError:
    return QueryError(
        f"{table} cannot be read: {why}",
        remedy="Put the file back from a backup, or read an older commit of the table with --at.",
    )


def unreadable(table: str, why: str) -> QueryError:
    return QueryError(f"mere sql cannot read {table}: {why}.", remedy="Read it with Spark.")


def _copy(connection: DuckDBPyConnection, table: str, location: str, storage: Storage, what: str) -> None:
    """The table's rows as a table in DuckDB, which spills to disk what does not fit into memory.

    A view of PyIceberg's stream would do without the copy, but then DuckDB's threads call back into Python whenever
    rows are fetched, and a result that is not read to its end can hang or abort the process.
    """
    import duckdb
    from pyiceberg.table import StaticTable  # 1.2 s

    try:
        properties = pyiceberg_properties(storage.s3) if storage.s3 else {}
        reader = StaticTable.from_metadata(location, properties).scan().to_arrow_batch_reader()
        connection.register("@stream", reader)
        connection.execute(f'CREATE {what} AS FROM "@stream"')
    except (ValueError, OSError, duckdb.Error) as error:
        raise _of_pyiceberg(table, error) from error
    connection.unregister("@stream")


def _of_pyiceberg(table: str, error: Exception) -> Exception:
    text = str(error)
    if refused := of_arrow(text):
        return type(refused)(f"{table} cannot be read: {refused.message}", remedy=refused.remedy)
    if isinstance(error, FileNotFoundError):
        return damaged(table, f"a file is gone. {text.splitlines()[0]}.")
    if isinstance(error, ValueError | OSError):
        # Its types may be new to PyIceberg; DuckDB, which knows them, would apply the deletion vectors wrongly.
        return unreadable(table, f"it is one for PyIceberg, which says: {text.splitlines()[0]}")
    return error
