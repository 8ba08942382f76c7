"""The column lineage of a PySpark model, from the plan of its result, kept in its table."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from mere.engine.translate import is_from_spark
from mere.project.model import Model
from mere.project.schemas import code_of
from mere.sql.lineage.spark_plan import Kept, lineage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Below this, Spark leaves columns out of a plan's text.
_FIELDS = ("spark.sql.debug.maxToStringFields", "100000")
_numbers = count()


def is_traced(model: Model, kept: str | None) -> bool:
    """Whether what is kept was found in the result of this very code."""
    found = Kept.from_json(kept) if kept else None
    return found is not None and found.code == code_of(model)


def recorded_lineage(model: Model, frame: DataFrame, spark: SparkSession) -> str:
    """What is to be kept. By SQL: `explain` prints the plan, and Connect gives no more of it than its text."""
    name = f"mere_traced_{next(_numbers)}"
    lineage = None
    try:
        frame.createOrReplaceTempView(name)
        spark.conf.set(*_FIELDS)
        text = spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {name}").collect()[0][0]
        lineage = lineage_of(text, frame.columns, [each.table for each in model.inputs if not each.lookup])
        spark.catalog.dropTempView(name)
    except Exception as exc:
        if not is_from_spark(exc):
            raise
    return Kept(code_of(model), lineage).to_json()
