"""DuckDB as an engine to which Spark's SQL is translated."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlglot import exp

from mere.sql.duckdb.menders import MENDERS
from mere.sql.duckdb.types import in_duckdb
from mere.sql.spark import translate as spark
from mere.sql.spark.inference import ColumnsOf
from mere.sql.spark.proven import Proof, Proven
from mere.sql.spark.types import Columns

FILE = Path(__file__).with_name("proven.tsv")


@cache
def proven() -> Proven:
    return Proven.read(FILE, "DuckDB")


ENGINE = spark.Engine("DuckDB", "duckdb", MENDERS, in_duckdb, proven)


def translate(query: exp.Expr, columns_of: ColumnsOf, proof: Proof | None = None) -> Columns:
    """Change the tree so that DuckDB gives what Spark gives, or raise Unlike; its columns, with Spark's types."""
    return spark.translate(query, columns_of, ENGINE, proof)
