"""Metadata tables among the tables of a ref: which there are, and how DuckDB gets their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mere.lake.iceberg.manifests import named
from mere.lake.iceberg.metadata import Json
from mere.lake.metadata_tables.shape import MetadataTable
from mere.lake.metadata_tables.sight import EVERYTHING, Sight
from mere.lake.metadata_tables.tables import OF_FILES, OF_LAKE, SCHEMA, of_lake, of_table, split
from mere.lake.query.types import columns
from mere.names import TableName
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from mere.lake.query.tables import TableSet

QUARANTINE = TableName(SCHEMA, "quarantine")  # which is a query

Find = Callable[[TableName], TableName | None]


def find(name: TableName, tables: TableSet, find_table: Find, sight: Sight = EVERYTHING) -> TableName | None:
    """The metadata table of this name, as far as the reader may know of it. A table of the lake that has such a name
    comes first.

    What a table's files say goes beyond its present rows: their bounds are of rows that were deleted since, and of
    columns that it has no more. So it is for those who read all of a table, and the past.
    """
    if name.namespace.lower() == SCHEMA and name.name.lower() in OF_LAKE and tables.store is not None:
        found = TableName(SCHEMA, name.name.lower())
        return found if sight.history or found == QUARANTINE else None
    parts = split(name)
    if parts is None or not sight.history:
        return None
    base = find_table(parts[0])
    if base is None or tables.is_view(base) or not sight.may_read_all_of(base):
        return None
    return TableName(base.namespace, f"{base.name}${parts[1]}")


def opened(name: TableName, tables: TableSet, sight: Sight = EVERYTHING) -> MetadataTable:
    """One that `find` has found, but for `mere.quarantine`."""
    parts = split(name)
    if parts is None:
        assert tables.store is not None
        return of_lake(name.name, tables.store, tables.reader, tables.commit, sight)
    with named(str(parts[0])):
        return of_table(*parts, tables.metadata(parts[0]), tables.reader.storage)


def schema_of(name: TableName, tables: TableSet) -> Json:
    if name == QUARANTINE:
        return OF_LAKE[name.name]
    return opened(name, tables).schema


def columns_of(name: TableName, tables: TableSet) -> list[str]:
    return [field["name"] for field in schema_of(name, tables)["fields"]]


def at_snapshot(name: TableName, tables: TableSet, snapshot: int) -> TableSet | None:
    """The tables, among which that one is as it was at a snapshot; of its metadata tables, those that list files."""
    if name in tables:
        return tables.at_snapshot(name, snapshot)
    parts = split(name)
    return tables.at_snapshot(parts[0], snapshot) if parts and parts[1] in OF_FILES else None


def fill(
    connection: DuckDBPyConnection, place: str, table: MetadataTable, go_on: Callable[[], None] = lambda: None
) -> int:
    """Its rows as a table in DuckDB, which puts onto the disk what does not fit into memory; how many they are. `go_on`
    is called now and then, and may raise.

    As in `scans`, DuckDB's threads are not given an iterator: they would call back into Python whenever they like.
    """
    typed = ", ".join(f"{quoted(name)} {type_ or 'VARCHAR'}" for name, type_ in columns(table.schema))
    connection.execute(f"CREATE OR REPLACE TABLE {place} ({typed})")
    rows = 0
    try:
        for batch in table.batches():
            go_on()
            rows += batch.num_rows
            connection.register("@batch", batch)
            connection.execute(f'INSERT INTO {place} FROM "@batch"')
            connection.unregister("@batch")
    except BaseException:
        connection.execute(f"DROP TABLE IF EXISTS {place}")
        raise
    return rows
