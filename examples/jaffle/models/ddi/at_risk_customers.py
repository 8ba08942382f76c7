"""Whom we are about to lose: customers who bought before, and are silent for long against their own rhythm."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mere import model, table

DAYS_TO_KNOW_A_RHYTHM = 3  # days with a purchase: two gaps between them
TIMES_THE_USUAL_GAP = 2
SHORTEST_SILENCE = 14  # days: whoever comes daily is not lost after a weekend


@model(
    "ddi.at_risk_customers",
    description="Customers who bought before, and are silent for more than twice their usual time.",
    key="customer_id",
    columns={
        "usual_gap": "days between two purchases, the median",
        "silent_days": "from the last purchase to the last day on which anybody ordered",
        "revenue": "what they brought until now",
    },
    audits=[
        {"not_null": ["usual_gap", "silent_days"]},
        {"relationships": {"column": "customer_id", "to": "marts.customers"}},
        {"assert": "silent_days > usual_gap"},
    ],
)
def at_risk_customers(
    customers: DataFrame = table("marts.customers"), orders: DataFrame = table("marts.orders")
) -> DataFrame:
    one_customer = Window.partitionBy("customer_id").orderBy("order_date")
    days = orders.where("is_purchase").select("customer_id", "order_date").distinct()
    gaps = days.withColumn("gap", F.datediff("order_date", F.lag("order_date").over(one_customer)))
    rhythms = gaps.groupBy("customer_id").agg(
        F.count("*").alias("days"), F.median("gap").alias("usual_gap"), F.max("order_date").alias("last_purchase")
    )
    as_of = orders.agg(F.max("order_date").alias("as_of"))
    return (
        rhythms.crossJoin(as_of)
        .withColumn("silent_days", F.datediff("as_of", "last_purchase"))
        .where(F.col("days") >= DAYS_TO_KNOW_A_RHYTHM)
        .where(F.col("silent_days") > TIMES_THE_USUAL_GAP * F.col("usual_gap"))
        .where(F.col("silent_days") >= SHORTEST_SILENCE)
        .join(customers.drop("last_purchase"), "customer_id")
        .select(
            "customer_id", "first_name", "last_name", "last_purchase", "usual_gap", "silent_days", "as_of", "revenue"
        )
    )
