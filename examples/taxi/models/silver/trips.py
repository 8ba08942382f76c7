"""Trips that took place, once each."""

from pyspark.sql import DataFrame

from mere import model, table

# What tells where a row came from: by it, a trip that stands there twice would be two.
TRACE = ("year", "month", "_source_file", "_loaded_at", "_run")


@model(
    "silver.trips",
    kind="incremental",
    time_column="picked_up_at",
    grain="month",
    sort_by=["picked_up_at"],
    description="Trips that moved, took time and were not paid back; each of them once, with the units in the names.",
    contract={
        "vendor_id": "int",
        "picked_up_at": {"type": "timestamp_ntz", "nullable": False, "description": "by the clock of New York"},
        "dropped_off_at": {"type": "timestamp_ntz", "nullable": False},
        "pickup_hour": {"type": "int", "description": "0 to 23"},
        "pickup_zone": "int",
        "dropoff_zone": "int",
        "passengers": {"type": "int", "description": "as the driver says; often unknown"},
        "payment": {"type": "string", "description": "card, cash, no charge, dispute or other"},
        "miles": "decimal(10, 2)",
        "fare": {"type": "decimal(10, 2)", "description": "by the meter, in dollars"},
        "tip": {"type": "decimal(10, 2)", "description": "by card; 0 for all others"},
        "total": {"type": "decimal(10, 2)", "description": "all that was paid, in dollars"},
        "duration_seconds": "bigint",
        "speed_mph": {"type": "decimal(14, 1)", "description": "miles an hour, on average"},
        "tip_rate": {"type": "decimal(14, 4)", "description": "tip / fare, of trips that were paid by card"},
    },
    off={"missing-key": "two people may ride at the same time from one zone to another; only all columns tell"},
    audits=[
        {"assert": "miles > 0 AND fare >= 0 AND duration_seconds > 0"},
        {"assert": "pickup_hour BETWEEN 0 AND 23"},
        {"accepted_values": {"column": "payment", "values": ["card", "cash", "no charge", "dispute", "other"]}},
        {"relationships": {"column": "pickup_zone", "to": "bronze.taxi_zones", "key": "zone_id"}},
        {"relationships": {"column": "dropoff_zone", "to": "bronze.taxi_zones", "key": "zone_id"}},
        {"assert": "speed_mph <= 120", "severity": "warn", "allow": "1%"},
    ],
)
def trips(raw: DataFrame = table("bronze.yellow_trips", time="tpep_pickup_datetime")) -> DataFrame:
    took_place = "trip_distance > 0 AND fare_amount >= 0 AND tpep_dropoff_datetime > tpep_pickup_datetime"
    typed = (
        raw.where(took_place)
        .drop(*TRACE)
        .distinct()
        .selectExpr(
            "vendorid AS vendor_id",
            "tpep_pickup_datetime AS picked_up_at",
            "tpep_dropoff_datetime AS dropped_off_at",
            "hour(tpep_pickup_datetime) AS pickup_hour",
            "pulocationid AS pickup_zone",
            "dolocationid AS dropoff_zone",
            "CAST(passenger_count AS int) AS passengers",
            "CASE payment_type WHEN 1 THEN 'card' WHEN 2 THEN 'cash' WHEN 3 THEN 'no charge' WHEN 4 THEN 'dispute'"
            " ELSE 'other' END AS payment",
            "CAST(trip_distance AS decimal(10, 2)) AS miles",
            "CAST(fare_amount AS decimal(10, 2)) AS fare",
            "CAST(tip_amount AS decimal(10, 2)) AS tip",
            "CAST(total_amount AS decimal(10, 2)) AS total",
            "unix_timestamp(tpep_dropoff_datetime) - unix_timestamp(tpep_pickup_datetime) AS duration_seconds",
        )
    )
    return typed.selectExpr(
        "*",
        # Decimals: the sum of doubles depends on the order in which they come.
        "CAST(miles * 3600 / duration_seconds AS decimal(14, 1)) AS speed_mph",
        "CAST(CASE WHEN payment = 'card' AND fare > 0 THEN tip / fare END AS decimal(14, 4)) AS tip_rate",
    )
