"""All metadata tables, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mere.lake.iceberg.metadata import Json, Metadata, MetadataReader
from mere.lake.log.commits import Commit
from mere.lake.metadata_tables import commits, files, runs, snapshots
from mere.lake.metadata_tables.shape import MetadataTable, schema
from mere.lake.metadata_tables.sight import Sight
from mere.lake.storage.port import Storage
from mere.lake.store.port import Store
from mere.names import TableName

SCHEMA = "mere"  # of mere's own
MARK = "$"  # between a table's name and that of its metadata table

# Of the rows that builds have set aside. It is a query of the tables that hold them: see `lake.query.quarantine`.
QUARANTINE = schema(
    ("table_schema", "string", "the schema of the model"),
    ("table_name", "string", "the model whose rows they would have been"),
    ("quarantine", "string", "the table that holds them, in the same schema"),
    ("rule", "string", "the rule they break; a row that breaks two is in both"),
    ("run_id", "string", "the run that set them aside"),
    ("quarantined_at", "timestamptz", "when"),
    ("row_count", "long", "how many"),
)
_OF_METADATA = {
    "snapshots": (snapshots.SNAPSHOTS, snapshots.snapshots),
    "history": (snapshots.HISTORY, snapshots.history),
    "refs": (snapshots.REFS, snapshots.refs),
}
OF_FILES = ("files", "manifests", "partitions")
OF_TABLE = (*_OF_METADATA, *OF_FILES)
OF_LAKE: Mapping[str, Json] = {
    "commits": commits.COMMITS,
    "changes": commits.CHANGES,
    "runs": runs.RUNS,
    "audits": runs.AUDITS,
    "quarantine": QUARANTINE,
}


def split(name: TableName) -> tuple[TableName, str] | None:
    """`gold.orders$files`: the table, and which of its metadata tables; None of any other name."""
    base, mark, kind = name.name.rpartition(MARK)
    kind = kind.lower()
    return (TableName(name.namespace, base), kind) if mark and base and kind in OF_TABLE else None


def of_table(table: TableName, kind: str, metadata: Metadata, storage: Storage) -> MetadataTable:
    name = TableName(table.namespace, f"{table.name}{MARK}{kind}")
    if kind in _OF_METADATA:
        columns, rows = _OF_METADATA[kind]
        return MetadataTable(name, columns, partial(rows, metadata))
    about = metadata, str(table), storage
    if kind == "files":
        return MetadataTable(name, files.files_schema(metadata), partial(files.files, *about))
    if kind == "manifests":
        return MetadataTable(name, files.MANIFESTS, partial(files.manifests, *about))
    return MetadataTable(name, files.partitions_schema(metadata), partial(files.partitions, *about))


def of_lake(kind: str, store: Store, reader: MetadataReader, head: Commit, sight: Sight) -> MetadataTable:
    """`head`: the commit whose log it is; runs are those of the whole lake."""
    name = TableName(SCHEMA, kind)
    match kind:
        case "commits":
            return MetadataTable(name, commits.COMMITS, partial(commits.commits, store, reader, head, sight), False)
        case "changes":
            return MetadataTable(name, commits.CHANGES, partial(commits.changes, store, reader, head, sight), False)
        case "runs":
            return MetadataTable(name, runs.RUNS, partial(runs.runs, store, sight), False)
    return MetadataTable(name, runs.AUDITS, partial(runs.audits, store, sight), False)
