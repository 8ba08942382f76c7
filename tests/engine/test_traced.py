"""What columns of DataFrames are made of, by their plans: in a session of our own, and over Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mere import Lake, Session
from mere.names import TableName
from mere.pipeline.build.lineage import is_traced, recorded_lineage
from mere.project.kinds import Kind
from mere.project.model import Input, Model, Python
from mere.sql.lineage.spark_plan import Kept
from tests.conftest import OpenSession
from tests.engine.conftest import OpenWarm

ORDERS, CITIES, NAMES = (TableName("silver", name) for name in ("orders", "cities", "names"))

# How a frame is made of spark, orders, cities and pyspark's functions; `columns | rows`, without the schema's name.
FRAMES: dict[str, tuple[Callable[..., Any], str]] = {
    "expressions": (
        lambda s, o, c, f: o.select("id", (f.col("amount") * 2).alias("twice"), f.col("st.f"), f.lit(1).alias("a b")),
        "id: orders.id; twice: orders.amount; f: orders.st; a b: |",
    ),
    "groups": (
        lambda s, o, c, f: o.where("amount > 0").groupBy("city").agg(f.sum("id").alias("n"), f.count("*").alias("k")),
        "city: orders.city; n: orders.id; k: | orders.amount orders.city",
    ),
    "a join": (
        lambda s, o, c, f: o.join(c, o.city == c.name, "left").select(o.id, c.country).withColumnRenamed("id", "x"),
        "x: orders.id; country: cities.country | cities.name orders.city",
    ),
    "a join with itself": (
        lambda s, o, c, f: o.alias("a").join(o.alias("b"), f.expr("a.id = b.amount")).select("a.city", "b.id"),
        "city: orders.city; id: orders.id | orders.amount orders.id",
    ),
    "a semi join": (
        lambda s, o, c, f: o.select("id", "city").join(c, o.city == c.name, "left_semi").drop("city"),
        "id: orders.id | cities.name orders.city",
    ),
    "a window": (
        lambda s, o, c, f: o.selectExpr("id", "row_number() OVER (PARTITION BY city ORDER BY amount) AS rn").where(
            "rn = 1"
        ),
        "id: orders.id; rn: orders.amount orders.city | orders.amount orders.city",
    ),
    "a union": (
        lambda s, o, c, f: o.select("id", "city").union(c.selectExpr("population", "upper(name)")),
        "id: cities.population orders.id; city: cities.name orders.city |",
    ),
    "a union with itself": (
        lambda s, o, c, f: o.select("id").union(o.selectExpr("length(city) + 0L")),
        "id: orders.city orders.id |",
    ),
    "what another has not": (
        lambda s, o, c, f: o.select("city").exceptAll(c.select("name")),
        "city: orders.city | cities.name orders.city",
    ),
    "one of several": (
        lambda s, o, c, f: o.dropDuplicates(["city"]).select("id"),
        "id: orders.id | orders.city",
    ),
    "the first rows": (lambda s, o, c, f: o.orderBy("amount").limit(3).select("id"), "id: orders.id | orders.amount"),
    "a generator": (
        lambda s, o, c, f: o.select("id", f.explode("items").alias("item")),
        "id: orders.id; item: orders.items | orders.items",
    ),
    "a pivot": (
        lambda s, o, c, f: o.groupBy("city").pivot("id", [1, 2]).sum("amount"),
        "city: orders.city; 1: orders.amount orders.id; 2: orders.amount orders.id | orders.city orders.id",
    ),
    "an unpivot": (
        lambda s, o, c, f: o.select("id", "amount").unpivot("id", ["amount"], "k", "v"),
        "id: orders.id; k: ; v: orders.amount |",
    ),
    "a cube": (
        lambda s, o, c, f: o.cube("city").agg(f.sum("amount").alias("n")),
        "city: orders.city; n: orders.amount | orders.city",
    ),
    "lambdas": (
        lambda s, o, c, f: o.select(f.transform("items", lambda x: x + f.col("id")).alias("t")),
        "t: orders.id orders.items |",
    ),
    "a function of Python": (
        lambda s, o, c, f: o.select(f.udf(lambda city: city)("city").alias("u")),
        "u: orders.city |",
    ),
    "a function of whole frames": (
        lambda s, o, c, f: o.select("id", "city").mapInPandas(lambda frames: frames, "n bigint, w string"),
        "n: orders.city orders.id; w: orders.city orders.id | orders.city orders.id",
    ),
    "SQL with subqueries": (
        lambda s, o, c, f: s.sql(
            "SELECT id, (SELECT max(population) FROM silver.cities c WHERE c.name = o.city) AS p FROM silver.orders o"
            " WHERE amount IN (SELECT length(country) FROM silver.cities)"
        ),
        "id: orders.id; p: cities.population orders.city | cities.country cities.name orders.amount orders.city",
    ),
    "SQL with a CTE that is read twice": (
        lambda s, o, c, f: s.sql(
            "WITH x AS (SELECT id, city FROM silver.orders WHERE amount > 0)"
            " SELECT a.id, b.city FROM x a JOIN x b ON a.id = length(b.city)"
        ),
        "id: orders.id; city: orders.city | orders.amount orders.city orders.id",
    ),
    "a view": (
        lambda s, o, c, f: s.table("silver.names").where("country = 'CH'").select("loud"),
        "loud: names.loud | names.country",
    ),
    "many columns": (
        lambda s, o, c, f: o.select(*((f.col("id") + at).alias(f"c{at}") for at in range(60))).select("c59"),
        "c59: orders.id |",
    ),
    "rows from elsewhere": (
        lambda s, o, c, f: s.createDataFrame([(1, "x")], "id bigint, n string").join(o.select("id", "amount"), "id"),
        "id: orders.*; n: orders.*; amount: orders.amount | orders.* orders.id",
    ),
    "a text that looks like a plan": (
        lambda s, o, c, f: o.select(f.concat("city", f.lit("], (x#8, ")).alias("y")),
        "not known",
    ),
    "an input that is not in the plan": (
        lambda s, o, c, f: s.createDataFrame([(1,)], "n int"),
        "not known",
    ),
}


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.spark) for kind in ("of our own", "over Connect")])
def session(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Session]:
    if request.param == "over Connect":
        open_warm: OpenWarm = request.getfixturevalue("open_warm")
        yield open_warm(lake)
    else:
        spark_on: OpenSession = request.getfixturevalue("spark_on")
        yield spark_on(lake, "main")


def model(*inputs: TableName, code: str = "one") -> Model:
    read = tuple(Input(each, 1) for each in inputs)
    return Model(TableName("gold", "m"), Kind.FULL, "m.py", Python("m", 1, (), code), read)


def told(kept: str) -> str:
    found = Kept.from_json(kept)
    assert found is not None
    if found.lineage is None:
        return "not known"
    sides = [(f"{name}: ", origins) for name, origins in found.lineage.columns.items()]
    words = [
        start + " ".join(sorted(f"{each.table.name}.{each.column}" for each in origins))
        for start, origins in [*sides, ("", found.lineage.rows)]
    ]
    return " ".join(f"{'; '.join(words[:-1])} | {words[-1]}".split())


@pytest.mark.long
def test_columns_are_traced_through_plans(session: Session) -> None:
    from pyspark.sql import functions

    spark = session.spark
    spark.sql("CREATE NAMESPACE silver")
    spark.sql(
        "CREATE TABLE silver.orders (id bigint, amount double, city string, st struct<f: int>, items array<bigint>)"
        " USING iceberg"
    )
    spark.sql("CREATE TABLE silver.cities (name string, country string, population bigint) USING iceberg")
    spark.sql("CREATE VIEW silver.names AS SELECT upper(name) AS loud, country FROM silver.cities WHERE population > 0")
    orders, cities = spark.table("silver.orders"), spark.table("silver.cities")
    found = {}
    for name, (make, expected) in FRAMES.items():
        tables = [each for each in (ORDERS, CITIES, NAMES) if f"{each.name}." in expected] or [ORDERS]
        found[name] = told(recorded_lineage(model(*tables), make(spark, orders, cities, functions), spark))
    assert found == {name: " ".join(expected.split()) for name, (_, expected) in FRAMES.items()}


def test_what_is_kept_is_of_one_code() -> None:
    kept = Kept(code="", lineage=None).to_json()
    assert not is_traced(model(), kept)
    assert not is_traced(model(), None)
    assert not is_traced(model(), "{}")
    assert not is_traced(model(), "no json")
