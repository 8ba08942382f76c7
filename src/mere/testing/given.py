"""The rows that a test gives, as an Arrow table and as a DataFrame, with the types of the real table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mere.engine.frames import from_arrow
from mere.errors import ConfigError, MereError, MetadataMissing
from mere.lake.query.tables import TableSet
from mere.names import TableName, near
from mere.project.cases import Rows
from mere.project.graph import Graph
from mere.project.model import Csv, Model, Sql
from mere.sources.source import Source
from mere.testing.cells import inferred, value_of
from mere.testing.types import of_iceberg, of_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Columns = Mapping[str, "pa.DataType"]
Analyse = Callable[[Model, Mapping[TableName, Columns]], Columns]


class Schemas:
    """The columns of tables: as the contract of their model says, as they are on a ref, as a seed's file has them, as
    a source declares them, or as Spark understands the model's query, if its inputs are known. Nothing is known of the
    rest."""

    def __init__(self, graph: Graph, folder: Path, tables: TableSet | None, analyse: Analyse) -> None:
        self._graph = graph
        self._folder = folder
        self._tables = tables
        self._analyse = analyse
        self._found: dict[TableName, Columns] = {}

    def of(self, table: TableName) -> Columns:
        if table not in self._found:
            self._found[table] = self._look_up(table)
        return self._found[table]

    def is_model(self, table: TableName) -> bool:
        """Whether it may get columns that it does not have yet, since its code is here."""
        return table in self._graph.models

    def _look_up(self, table: TableName) -> Columns:
        model = self._graph.models.get(table)
        if model and model.contract:
            return {name: of_spark(promise.type) for name, promise in model.contract.items()}
        if (columns := self._on_ref(table)) is not None:
            return columns
        if model and isinstance(model.body, Csv):
            return _of_seed(model.body, self._folder)
        if model and isinstance(model.body, Source):
            return _of_source(model.body)
        if model and isinstance(model.body, Sql):
            inputs = {each.table: self.of(each.table) for each in model.inputs}
            if all(inputs.values()):
                try:
                    return self._analyse(model, inputs)
                except MereError:  # the model itself is wrong; its own test will say how
                    return {}
        return {}

    def _on_ref(self, table: TableName) -> Columns | None:
        if self._tables is None or table not in self._tables:
            return None

        try:
            fields = self._tables.metadata(table).schema["fields"]
        except MetadataMissing:
            return None
        return {field["name"]: of_iceberg(field["type"]) for field in fields}


def _of_seed(body: Csv, folder: Path) -> Columns:
    from mere.pipeline.write.query import rows_of

    found = rows_of(body, folder).schema
    return {each.name: of_spark(body.types[each.name]) if each.name in body.types else each.type for each in found}


def _of_source(body: Source) -> Columns:
    """As far as they are declared: what else there is, the data tells."""
    return {name: of_spark(each.type) for name, each in body.columns.items() if each.type}


def columns_of(table: TableName, written: Sequence[Rows], schemas: Schemas, place: str) -> Columns:
    """All columns that the table is known to have, and those that the rows name."""
    columns = with_written(table, written, schemas.of(table), schemas.is_model(table))
    if not columns:
        raise ConfigError(
            f"{place}: which columns {table} has is not known here, so the test has to give rows of it.",
            remedy="Give at least one row; or build the table, or test where it is built: mere test --at REF",
        )
    return columns


def with_written(table: TableName, written: Sequence[Rows], known: Columns, may_have_more: bool) -> Columns:
    """The type of a column that is not known is what its values look like."""
    columns = dict(known)
    names = {name.casefold() for name in known}
    for column, cell in {name: cell for rows in reversed(written) for name, cell in rows.columns.items()}.items():
        if column.casefold() in names:
            continue
        if known and not may_have_more:
            raise cell.error(f"{table} has no column `{column}`.{near(column, known)}")
        columns[column] = inferred(row[column] for rows in written for row in rows.rows if column in row)
    return columns


def arrow(rows: Rows | None, columns: Columns) -> pa.Table:
    import pyarrow as pa

    cells = [{column.casefold(): cell for column, cell in row.items()} for row in rows.rows] if rows else []
    values = [
        pa.array([value_of(row[low], kind) if low in row else None for row in cells], kind)
        for low, kind in ((name.casefold(), kind) for name, kind in columns.items())
    ]
    return pa.Table.from_arrays(values, schema=pa.schema(list(columns.items())))


def frame(table: pa.Table, spark: SparkSession) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow(spark, table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
