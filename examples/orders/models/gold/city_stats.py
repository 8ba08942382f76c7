"""One model in PySpark: a function of DataFrames, so that a test can call it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mere import model, table


@model(
    "gold.city_stats",
    description="Per continent: cities, population, largest city.",
    key="continent",
    audits=[{"assert": "population > 0"}, {"row_count": {"min": 1, "max": 7}}],
)
def city_stats(cities: DataFrame = table("raw.cities")) -> DataFrame:
    return cities.groupBy("continent").agg(
        F.count("*").alias("cities"),
        F.sum("population").alias("population"),
        F.max_by("name", "population").alias("largest_city"),
    )
