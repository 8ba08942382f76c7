"""The year as one writes it by hand in PySpark: each file appended to a table, with the file, the time and a run in
every row as mere has them, then the same queries. In a session of the same kind, which has done it before, for a part
of the year."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import mere
from bench.sides.answer import answer
from bench.sides.months import BRONZE, MODELS, MONTHS, file
from bench.sides.taxi_lake import result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load(spark: SparkSession, months: Iterable[date]) -> float:
    from pyspark.sql.functions import lit

    started = time.perf_counter()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS bronze")
    for number, month in enumerate(months):
        rows = spark.read.parquet(str(file(month))).withColumns(
            {"_source_file": lit(file(month).name), "_loaded_at": lit(datetime.now(UTC)), "_run": lit("by hand")}
        )
        writer = rows.writeTo(BRONZE).option("distribution-mode", "none")
        if number == 0:
            writer.using("iceberg").tableProperty("format-version", "2").create()
        else:
            writer.append()
    return time.perf_counter() - started


def build(spark: SparkSession) -> float:
    from pyspark.sql.functions import partitioning

    started = time.perf_counter()
    for name, query in MODELS.items():
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.partition('.')[0]}")
        writer = spark.sql(query).writeTo(name).using("iceberg").tableProperty("format-version", "2")
        if name == "silver.trips":
            writer = writer.partitionedBy(partitioning.months("picked_up_at"))
            writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
        writer.create()
    return time.perf_counter() - started


with mere.Lake.create(Path("first")) as some, mere.session(some, "main") as session:
    load(session.spark, MONTHS[:3])
    build(session.spark)
    with mere.Lake.create(Path("second")) as lake:
        with mere.session(lake, "main") as own:
            times = {"load": load(own.spark, MONTHS), "build": build(own.spark)}
        answer(result(lake), **times)
