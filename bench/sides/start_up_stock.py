"""PySpark as its documentation starts it, with the same jars (from the disk) and a catalog in SQLite."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from bench.sides.answer import answer
from bench.sides.small_table import work

jars = sorted(str(jar) for jar in Path(os.environ["MERE_HOME"], "jars").rglob("*.jar"))
if not jars:
    sys.exit("no jars in MERE_HOME; run the side of mere first")

logging.getLogger("SQLQueryContextLogger").disabled = True
lake = Path("lake").absolute()
lake.mkdir()
catalog = "spark.sql.catalog.main"
spark = (
    SparkSession.builder.appName("stock")
    .config("spark.jars", ",".join(jars))
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
    .config(f"{catalog}.type", "jdbc")
    .config(f"{catalog}.uri", f"jdbc:sqlite:{lake}/catalog.db")
    .config(f"{catalog}.jdbc.schema-version", "V1")
    .config(f"{catalog}.warehouse", str(lake / "warehouse"))
    .config("spark.sql.defaultCatalog", "main")
    .getOrCreate()
)
answer(work(spark))
spark.stop()
