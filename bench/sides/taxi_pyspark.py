"""The month as one writes it by hand in PySpark: the same tables, in a session of the same kind, and nothing else."""

from __future__ import annotations

import mere
from bench.sides.answer import answer
from bench.sides.taxi import QUERIES
from bench.sides.taxi_lake import lake_of_the_month, result

with lake_of_the_month() as lake:
    with mere.session(lake, "main") as session:
        spark = session.spark
        for name, query in QUERIES.items():
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.partition('.')[0]}")
            writer = spark.sql(query).writeTo(name).using("iceberg").tableProperty("format-version", "2")
            if name == "silver.trips":
                from pyspark.sql.functions import partitioning

                writer = writer.partitionedBy(partitioning.months("picked_up_at"))
            # There is one partition: to gather its rows by a shuffle would be wasted.
            writer.option("distribution-mode", "none").option("fanout-enabled", "true").create()
    answer(result(lake))
