"""The month on Sail, a Spark without a JVM, by Spark Connect. It writes Parquet: its Iceberg is not complete yet."""

from __future__ import annotations

from pathlib import Path

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from bench.sides.answer import answer
from bench.sides.taxi import QUERIES, SOURCE, checked, shared


def plain(sql: str) -> str:
    """Files have no schemas: bronze.trips is the view bronze_trips."""
    for name in (SOURCE, *QUERIES):
        sql = sql.replace(name, name.replace(".", "_"))
    return sql


server = SparkConnectServer(ip="127.0.0.1", port=0)
server.start(background=True)
_, port = server.listening_address
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
spark.read.parquet(str(shared("trips.parquet"))).createOrReplaceTempView(plain(SOURCE))
for name, query in QUERIES.items():
    folder = str(Path(plain(name)).absolute())
    spark.sql(plain(query)).write.parquet(folder)
    spark.read.parquet(folder).createOrReplaceTempView(plain(name))
answer(checked(lambda sql: spark.sql(plain(sql)).collect()))
spark.stop()
