"""Trino as an engine to which Spark's SQL is translated."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from mere.sql.spark.proven import Proven
from mere.sql.spark.translate import Engine
from mere.sql.trino.menders import MENDERS
from mere.sql.trino.types import in_trino

FILE = Path(__file__).with_name("proven.tsv")


@cache
def proven() -> Proven:
    return Proven.read(FILE, "Trino")


ENGINE = Engine("Trino", "trino", MENDERS, in_trino, proven)
