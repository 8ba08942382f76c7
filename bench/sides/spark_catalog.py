"""Stock Spark with an Iceberg catalog in SQLite, for tools that start their session themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.sides.taxi import SOURCE, shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = "spark.sql.catalog.main"
CATALOG_CONF = {
    "spark.master": "local[*]",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count()),
    "spark.jars": ",".join(sorted(str(jar) for jar in Path(os.environ["MERE_HOME"], "jars").rglob("*.jar"))),
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    _NAME: "org.apache.iceberg.spark.SparkCatalog",
    f"{_NAME}.type": "jdbc",
    f"{_NAME}.uri": f"jdbc:sqlite:{Path('catalog.db').absolute()}",
    f"{_NAME}.jdbc.schema-version": "V1",
    f"{_NAME}.warehouse": str(Path("warehouse").absolute()),
    "spark.sql.defaultCatalog": "main",
}


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in CATALOG_CONF.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def register_source() -> None:
    schema = SOURCE.partition(".")[0]
    session().sql(f"CREATE NAMESPACE IF NOT EXISTS {schema}")
    pointer = shared("source.txt").read_text(encoding="utf-8")
    session().sql(f"CALL main.system.register_table(table => '{SOURCE}', metadata_file => '{pointer}')")


def spark_rows(query: str) -> list[Any]:
    return list(session().sql(query).collect())
