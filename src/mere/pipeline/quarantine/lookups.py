"""Adds to rows what rules that look into other tables need to know about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mere.audits.quarantine import RowRule
from mere.pipeline.write.table import expr
from mere.sql.spelling.spark import name_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def looked_up(frame: DataFrame, rules: Iterable[RowRule], spark: SparkSession) -> DataFrame:
    """Whether the key of each row is there, in columns of their own: see `Lookup`."""
    for lookup in (rule.lookup for rule in rules if rule.lookup):
        there = spark.table(name_of(lookup.table)).selectExpr(*lookup.keys).distinct()
        keys = there.selectExpr("*", f"true AS {quoted(lookup.found)}")
        frame = frame.join(keys, expr(lookup.condition), "left")
    return frame
