"""How one table is read: by DuckDB, or through PyIceberg where DuckDB would be wrong.

Two things make it worth reading a table's manifests first. DuckDB 1.5 gives wrong rows where one Puffin file holds
several deletion vectors; and it reads manifests in threads of its own, in which a missing or broken one ends the
whole process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mere.errors import LakeUnreadable, MetadataMissing, QueryError
from mere.lake import avro, files
from mere.lake.metadata import Metadata
from mere.lake.query.columns import literal, quoted
from mere.lake.storage import Storage, split_scheme

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_EQUALITY_DELETES = "equality deletes"
_DUCKDB_READS = frozenset({"PARQUET", _EQUALITY_DELETES})
_PYICEBERG_READS = frozenset({"PARQUET", "ORC", "PUFFIN"})


def scan(connection: DuckDBPyConnection, table: str, metadata: Metadata, storage: Storage) -> str:
    """A FROM item with the rows of the table's current snapshot."""
    kinds = file_kinds(table, metadata, storage)
    if kinds <= _DUCKDB_READS:
        return f"iceberg_scan({literal(split_scheme(metadata.location)[1])})"
    if kinds <= _PYICEBERG_READS:
        name = f"@pyiceberg {metadata.location}"
        connection.register(name, _Stream(table, metadata.location))
        return f"temp.main.{quoted(name)}"
    raise unreadable(table, f"neither DuckDB nor PyIceberg reads its mix of {', '.join(sorted(kinds))} files")


def file_kinds(table: str, metadata: Metadata, storage: Storage) -> set[str]:
    """What the current snapshot's data and delete files are, by its manifests: all of them are read for it."""
    snapshot = metadata.current
    if snapshot is None or snapshot.manifest_list is None:
        return set()
    kinds: set[str] = set()
    for manifest in _records(table, storage, snapshot.manifest_list, None, "manifest_path", "manifest_length"):
        entries = _records(
            table,
            storage,
            manifest["manifest_path"],
            manifest["manifest_length"],
            "status",
            "data_file.content",
            "data_file.file_format",
        )
        for entry in entries:
            if entry["status"] != files.DELETED:
                equality = entry["data_file"].get("content", 0) == 2
                kinds.add(_EQUALITY_DELETES if equality else entry["data_file"]["file_format"].upper())
    return kinds


def _records(table: str, storage: Storage, location: str, length: int | None, *fields: str) -> Iterator[avro.Record]:
    try:
        content = files.read(storage, location)
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


class _Stream:
    """A table as a stream of Arrow batches, opened anew by every scan that DuckDB makes of it."""

    def __init__(self, table: str, location: str) -> None:
        from pyiceberg.table import StaticTable  # 1.2 s

        try:
            self._table = StaticTable.from_metadata(location)
        except (ValueError, OSError) as error:
            why = "DuckDB would read its deletion vectors wrongly, and PyIceberg does not know its types"
            raise unreadable(table, why) from error

    def __arrow_c_schema__(self) -> object:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema: object = schema_to_pyarrow(self._table.schema()).__arrow_c_schema__()
        return schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self._table.scan().to_arrow_batch_reader().__arrow_c_stream__(requested_schema)
        return stream
