"""Columns of a table that no portion has had so far in a full reload. A later portion may have them, so none is dropped
before all portions are loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mere.lake.iceberg.metadata import Metadata
from mere.pipeline.state.columns import Change, What, compare, of_query, of_table
from mere.pipeline.write.table import BreakingChange, expr, field_of
from mere.project.model import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


@dataclass
class Unseen:
    model: Model
    _changes: dict[str, Change] = field(default_factory=dict)  # by the name of the column
    _types: dict[str, DataType] = field(default_factory=dict)

    def begin(self, table: Metadata, stands: StructType, given: DataFrame) -> None:
        """`stands`: the columns of the table as Spark has them; `given`: the first rows that replace all others."""
        changes = compare(of_table(table.schema), of_query(given.schema.jsonValue()), self.model.was)
        self._changes = {each.name: each for each in changes if each.what is What.DROPPED and len(each.path) == 1}
        self._types = {name: stands[name].dataType for name in self._changes}

    def __contains__(self, column: str) -> bool:
        return column in self._changes

    def filled(self, rows: DataFrame) -> DataFrame:
        """With NULL in them. What these rows have has been seen."""
        for name in [name for name in self._changes if field_of(rows.schema, name)]:
            del self._changes[name]
        return rows.select("*", *(expr("NULL").cast(self._types[name]).alias(name) for name in self._changes))

    def refuse(self) -> None:
        """All portions are there."""
        if self._changes:
            raise BreakingChange(self.model, list(self._changes.values()))
