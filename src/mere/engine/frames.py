"""Rows of this process as a DataFrame, in a session of either kind; also when there are no rows, where Spark could not
infer a schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Without a schema, with the types that Spark gives to those of Arrow."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, schema=schema or from_arrow_schema(table.schema))


def from_rows(spark: SparkSession, rows: Sequence[Any], schema: StructType | str) -> DataFrame:
    return spark.createDataFrame(rows, schema)
