"""A ref as a PyIceberg catalog. Imported only where it is used: PyIceberg's SQL catalog takes 2 s to import."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from mere.config import S3Settings
from mere.lake.refs.clock import require_later
from mere.lake.refs.guards import PROPERTIES
from mere.lake.storage.s3 import pyiceberg_properties

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import CommitTableResponse, CreateTableTransaction, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate


class RefCatalog(SqlCatalog):
    """Sets on every new table what mere's Spark catalogs set: the guards' properties, and a folder of its own."""

    def __init__(self, ref: str, url: str, warehouse: str, s3: S3Settings | None = None) -> None:
        files = pyiceberg_properties(s3) if s3 else {}
        super().__init__(ref, uri=url, warehouse=warehouse, init_catalog_tables="false", **files)
        # A pool for every ref that was ever asked for would fill a database's connections.
        self.engine.dispose()
        self.engine = create_engine(url, poolclass=NullPool)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        place = location or self._place(identifier)
        guarded = {**properties, **PROPERTIES}
        return super().create_table(identifier, schema, place, partition_spec, sort_order, guarded)

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        place = location or self._place(identifier)
        guarded = {**properties, **PROPERTIES}
        return super().create_table_transaction(identifier, schema, place, partition_spec, sort_order, guarded)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        if table.metadata_location:  # PyIceberg would write metadata that Iceberg's Java library refuses to read
            last = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC)
            require_later(last, ".".join(table.name()))
        return super().commit_table(table, requirements, updates)

    def _place(self, identifier: str | Identifier) -> str:
        *namespace, name = self.identifier_to_tuple(identifier)
        return f"{self._resolve_table_location(None, '.'.join(namespace), name)}-{secrets.token_hex(16)}"

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Whatever a table's properties say: another ref may point to an old metadata file."""
