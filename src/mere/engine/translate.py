"""Spark's exceptions, in one readable sentence."""

from __future__ import annotations
from mere.errors import SparkFailed


def is_from_spark(exc: BaseException) -> bool:
    return type(exc).__module__.partition(".")[0] in ("pyspark", "py4j")


def explain(exc: BaseException, death: str | None = None) -> SparkFailed:
    return SparkFailed(death or str(exc))
